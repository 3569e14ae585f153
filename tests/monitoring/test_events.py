"""What an alert is about is told by an event of the alert's name, once; and what is sent is logged by that name."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
import structlog

from controllers.api import names
from controllers.api.resources import NODE
from controllers.gpupool import metrics
from controllers.gpupool.node.plan import plan_node
from controllers.gpupool.queue import reservations
from controllers.runtime.events import Recorder
from controllers.runtime.plan import EmitEvent, Plan, Ref
from tests.bootstrap import world as bootstrap
from tests.gpupool.world import Cluster
from tests.inventory import world as inventory
from tests.kit.reports import reported


def told(made: Plan, reason: str) -> list[EmitEvent]:
    return [action for action in made.actions if isinstance(action, EmitEvent) and action.reason == reason]


def test_cards_that_wait_for_a_person_are_told_of_once() -> None:
    made = Cluster()
    made.node("n1", 2)
    made.pool("a")
    (note,) = told(plan_node(made.view().node("n1"), made.now), names.EVENT_UNASSIGNED_DEVICE)
    assert "n1 (AwaitingApproval): 2 cards" in note.message
    made.settle()
    assert not told(plan_node(made.view().node("n1"), made.now), names.EVENT_UNASSIGNED_DEVICE)


def test_what_is_to_be_decided_is_told_again_when_it_is_something_else() -> None:
    made = Cluster()
    made.node("n1", 2)
    made.settle()
    made.card("n1", 2)
    assert not told(plan_node(made.view().node("n1"), made.now), names.EVENT_NODE_WITHOUT_POOL)
    made.pool("a")
    (note,) = told(plan_node(made.view().node("n1"), made.now), names.EVENT_UNASSIGNED_DEVICE)
    assert "n1 (AwaitingApproval): 3 cards" in note.message
    made.settle()
    made.card("n1", 3)
    planned = plan_node(made.view().node("n1"), made.now)
    assert planned.writes
    assert not told(planned, names.EVENT_UNASSIGNED_DEVICE)


def test_a_driver_that_goes_is_told_of_once() -> None:
    made = bootstrap.Cluster()
    made.prepare()
    made.report(driver="")
    (note,) = told(made.step(), names.EVENT_DRIVER_MISSING)
    assert note.type == "Warning"
    assert not told(made.step(), names.EVENT_DRIVER_MISSING)


def test_a_report_that_goes_is_told_of() -> None:
    made = inventory.Cluster()
    made.node(**{names.LABEL_PRESENT: "true"})
    made.report([reported(0)])
    made.settle()
    made.silence()
    assert told(made.step(), names.EVENT_NODE_FEATURE_MISSING)
    assert not made.step().actions


class Silent:
    """A client that takes everything."""

    async def create(self, *_: Any, **__: Any) -> bytes:
        return b"{}"


@pytest.mark.parametrize(("kind", "level"), [("Warning", "warning"), ("Normal", "info")])
async def test_an_event_that_is_sent_is_a_line_in_the_log(kind: Any, level: str) -> None:
    recorder = Recorder(Silent(), "tested", "instance")  # type: ignore[arg-type]
    with structlog.testing.capture_logs() as lines:
        task = asyncio.create_task(recorder.run())
        for _ in range(2):  # the same twice is one event, and one line
            recorder.enqueue(EmitEvent(Ref(NODE, "n1"), kind, "GPUFuseHeld", "Too many."))
        await recorder.drain(10)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    assert [(one["event"], one["log_level"], one["kind"], one["name"], one["message"]) for one in lines] == [
        ("GPUFuseHeld", level, "Node", "n1", "Too many.")
    ]


def test_reservations_that_ran_out_are_counted_with_their_pool() -> None:
    made = Cluster()
    made.node("n1", 1)
    made.pool("counted", deviceAssignment={"requireAnnotation": False})
    made.settle()
    (member,) = made.view().pool("counted").members
    plan = Plan((EmitEvent(Ref(NODE, member.name), "Warning", names.EVENT_RESERVATION_EXPIRED, "It ran out."),) * 2)
    before = metrics.EXPIRED.labels("counted")._value.get()
    metrics.count_expired(member, plan)
    metrics.count_expired(member, reservations.plan_card(made.view().card(member.name), made.now))
    assert metrics.EXPIRED.labels("counted")._value.get() == before + 2
