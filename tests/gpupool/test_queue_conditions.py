"""The condition of a pod that waits: written when the reason changes, and not of one that waits for a moment only."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from controllers.api import names
from controllers.api.record import adapter
from controllers.api.tenant import TenantPod
from controllers.domain.clock import stamp
from controllers.gpupool.loops import pod_conditions
from controllers.gpupool.loops.pod_conditions import PodConditionController
from controllers.gpupool.queue.wait import SETTLE, Wait, plan_condition
from controllers.runtime.plan import Action, Apply, EmitEvent
from tests.kit.objects import NOW
from tests.kit.pods import pod_body

OURS = {"name": names.CARDS_GATE}


def queued(
    reason: str | None = None,
    *,
    age: float = 60.0,
    gates: tuple[dict[str, str], ...] = (OURS,),
    devices: str = "",
    **said: str,
) -> TenantPod:
    """A pod; `reason`, and `said`: what its condition says."""
    body: dict[str, Any] = pod_body(
        "p", 2, devices=devices, meta={"creationTimestamp": stamp(NOW - age)}, schedulingGates=list(gates)
    )
    if reason is not None:
        found = {"type": names.QUEUED, "status": "True", "reason": reason, "lastTransitionTime": stamp(NOW - 9), **said}
        body["status"]["conditions"] = [{"type": "PodScheduled", "status": "False"}, found]
    return adapter(TenantPod).validate_python(body)


def said(pod: TenantPod, wait: Wait | None, numbers: Callable[[], str] = lambda: "") -> dict[str, Any] | None:
    plan = plan_condition(pod, "a", wait, NOW, numbers)
    if not plan.writes:
        return None
    write, event = plan.actions
    assert isinstance(write, Apply)
    assert isinstance(event, EmitEvent)
    (found,) = write.body["status"]["conditions"]
    assert event.message == found["message"]
    assert write.subresource == "status"
    return dict(found)


@pytest.mark.parametrize(
    ("wait", "part"),
    [
        (Wait("Waiting", 2), "2 slots of GPUPool a"),
        (Wait("OverLimit", 1), "allows it (spec.queue.namespaces)"),
        (Wait("NoNodeFits", 9), "no node could ever take it"),
        (Wait("PoolClosed", 1), "kubectl describe gpupool a"),
        (Wait("ReleaseDenied", 1, "namespace t may not use it"), "namespace t may not use it"),
    ],
)
def test_it_says_why(wait: Wait, part: str) -> None:
    found = said(queued(), wait)
    assert found is not None
    assert (found["type"], found["status"], found["reason"]) == (names.QUEUED, "True", wait.cause)
    assert part in found["message"]


def test_gates_of_others_are_named() -> None:
    found = said(queued(gates=({"name": "kueue.x-k8s.io/admission"}, OURS)), Wait("OtherGates", 1))
    assert found is not None
    assert "kueue.x-k8s.io/admission" in found["message"]
    assert names.CARDS_GATE not in found["message"]


def test_the_same_reason_is_written_once() -> None:
    written = said(queued(), Wait("Waiting", 2))
    assert written is not None
    assert said(queued(**written), Wait("Waiting", 2)) is None
    changed = said(queued("Waiting"), Wait("OverLimit", 2))
    assert changed is not None
    assert changed["lastTransitionTime"] == stamp(NOW - 9)  # its status is as it was


def test_the_numbers_are_those_of_the_moment_and_are_asked_for_only_to_be_written() -> None:
    asked: list[str] = []

    def found() -> str:
        asked.append("")
        return f"{len(asked)} of 8 cards free"

    written = said(queued(), Wait("Waiting", 2), found)
    assert written is not None
    assert written["message"].endswith("When this was written: 1 of 8 cards free.")
    assert said(queued(**written), Wait("Waiting", 2), found) is None, "a queue that moves costs no writes"
    assert asked == [""]
    assert said(queued(**written), Wait("NoNodeFits", 2), found) is not None


def test_what_was_written_without_numbers_stays() -> None:
    """By a version before this one: an upgrade writes no pod."""
    written = said(queued(), Wait("Waiting", 2))
    assert written is not None
    assert said(queued(**written), Wait("Waiting", 2), lambda: "1 card: 1 free") is None


def test_a_limit_that_changes_writes_nothing_and_what_was_said_is_of_its_moment() -> None:
    written = said(queued(), Wait("OverLimit", 2), lambda: "4 are allowed")
    assert written is not None
    assert written["message"].endswith("(spec.queue.namespaces). When this was written: 4 are allowed.")
    assert said(queued(**written), Wait("OverLimit", 2), lambda: "6 are allowed") is None


def test_a_pod_that_there_was_no_time_for_stays_what_it_was_said_to_be() -> None:
    """Which pods of a namespace are held against the nodes changes from look to look; each change was a write."""
    unlooked = Wait("Waiting", 2, unlooked=True)
    for cause in ("NoNodeFits", "Waiting"):
        written = said(queued(), Wait(cause, 2), lambda: "1 card: 1 free")
        assert written is not None
        assert said(queued(**written), unlooked) is None
    closed = said(queued(), Wait("PoolClosed", 2))
    assert closed is not None
    assert said(queued(**closed), unlooked) is not None, "the pool is open again"
    first = said(queued(), unlooked)
    assert first is not None
    assert first["reason"] == "Waiting"
    assert said(queued(**first), Wait("NoNodeFits", 2)) is not None, "somebody has looked"


def test_nothing_is_said_of_a_pod_that_has_just_come() -> None:
    plan = plan_condition(queued(age=0.0), "a", Wait("Waiting", 2), NOW)
    assert not plan.writes
    assert plan.requeue_after == pytest.approx(SETTLE, abs=1.0)


@pytest.mark.parametrize(("devices", "reason"), [("n1-0", "Released"), ("", "ReleasedWithoutCards")])
def test_of_a_released_pod_it_says_so_where_it_said_that_it_waits(devices: str, reason: str) -> None:
    found = said(queued("Waiting", gates=(), devices=devices), None)
    assert found is not None
    assert (found["status"], found["reason"]) == ("False", reason)
    assert said(queued(None, gates=()), None) is None
    assert said(queued("Waiting"), None) is None  # its release is on its way


@pytest.mark.parametrize(
    "found",
    [
        [{"type": names.QUEUED, "status": "Maybe", "reason": "X"}],
        [{"type": names.QUEUED, "status": "True", "reason": "no word"}],
        [{"type": names.QUEUED}],
        None,
    ],
)
def test_a_condition_that_others_spoiled_is_none(found: Any) -> None:
    body: dict[str, Any] = pod_body("p")
    body["status"]["conditions"] = [{**each, "status": each.get("status", "")} for each in found] if found else found
    if body["status"]["conditions"] is None:
        del body["status"]["conditions"]
    assert adapter(TenantPod).validate_python(body).status.queued is None


async def test_a_look_at_the_queue_is_kept_until_all_are_told_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """All cards and nodes hang on its numbers: in a quiet cluster they would be kept for hours."""
    monkeypatch.setattr(pod_conditions, "time", SimpleNamespace(time=lambda: NOW))
    pods = {"t/old": queued(), "t/young": queued(age=0.0)}
    written: list[Apply] = []

    async def execute(actions: Sequence[Action]) -> None:
        written.extend(each for each in actions if isinstance(each, Apply))

    process = SimpleNamespace(executor=SimpleNamespace(execute=execute))
    world = SimpleNamespace(pods=pods, pod_cards=lambda *_, **__: None)
    conditions = PodConditionController(process, world)  # type: ignore[arg-type]
    told = {key: Wait("Waiting", 2) for key in pods}
    conditions.tell("a", told, lambda key: f"numbers of {key}")
    await conditions._reconcile("t/old")
    assert await conditions._reconcile("t/young"), "it is too young for a word"
    assert [str(each.body).count("numbers of t/old") for each in written] == [1]
    conditions.tell("a", told, lambda _: "later numbers")
    assert conditions._numbers["a"].left == {"t/young"}
    pods["t/young"] = queued()
    await conditions._reconcile("t/young")
    assert "later numbers" in str(written[-1].body)
    assert not conditions._numbers
    conditions.tell("a", told, lambda _: "numbers that nobody waits for")
    assert not conditions._numbers
