"""Thousands of pods that wait: one look at them is bounded, stands in nobody's way, and comes to each in the end."""

from __future__ import annotations

import asyncio
import threading
from types import SimpleNamespace
from typing import Any

import pytest

from controllers.domain import waiting as domain
from controllers.gpupool.loops import pending_pods as loops
from controllers.gpupool.loops.pending_pods import PendingPodController
from controllers.gpupool.queue import card_reservations, pending_pods
from controllers.gpupool.queue.records import ReservationRound
from controllers.runtime.plan import Plan
from tests.gpupool.test_pending_pods import Pool
from tests.kit.clock import Clock
from tests.kit.waiting import PATIENCE

NODES = 10


def only_on(node: str) -> dict[str, Any]:
    """Of the spec of a pod that names its node by affinity: of many such pods no two want the same."""
    term = {"matchExpressions": [{"key": "zone", "operator": "In", "values": [node]}]}
    required = {"nodeSelectorTerms": [term]}
    return {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}}


@pytest.fixture
def pool() -> Pool:
    """Thirty pods that can go nowhere, each for a reason of its own, and the youngest, which can."""
    made = Pool({f"n{number}": 1 for number in range(NODES)})
    for number in range(30):
        made.waits(f"p{number}", age=400.0 - number, **only_on(f"nowhere-{number}"))
    made.waits("young", age=200.0)
    return made


def test_one_look_is_bounded_and_goes_on_where_the_last_one_ended(pool: Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[str] = []

    def fits(wants: Any, node: Any) -> bool:
        looks.append(node.name)
        return domain_fits(wants, node)

    domain_fits = domain.node_fits
    monkeypatch.setattr(domain, "node_fits", fits)
    monkeypatch.setattr(card_reservations, "WORK", 200)
    rounds = []
    while "young" not in pool.reservations():
        assert len(rounds) < 40, "it is never looked at"
        looks.clear()
        pool.step()
        rounds.append(len(looks))
    assert max(rounds) <= 200 / 2  # a look at one node is two parts of work at least
    assert len(rounds) > 1


def test_one_pod_that_takes_all_the_work_keeps_nobody_from_being_looked_at(
    pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(card_reservations, "WORK", 20)  # no pod of the thirty can be held against all nodes
    for _ in range(40):
        pool.step()
    assert "young" in pool.reservations()


def test_a_short_queue_is_looked_at_as_a_whole_and_asks_for_no_other_look(pool: Pool) -> None:
    seen = pool.view().queue("a", {})
    assert seen is not None
    made = pending_pods.plan_pending_pods(seen, pool.now)
    assert (made.reserved, made.unreached) == (("r-young",), ())


class Process:
    """The loop over queues, over the caches of a cluster in memory."""

    def __init__(self, pool: Pool) -> None:
        self.fails = False
        process: Any = SimpleNamespace(executor=SimpleNamespace(execute=self._execute))
        self.queues = PendingPodController(process, pool.view())

    async def _execute(self, _actions: Any) -> None:
        """Nothing is written."""
        if self.fails:
            raise ConnectionError


async def test_a_long_queue_is_looked_at_beside_the_event_loop(pool: Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    loop_lives, looked = threading.Event(), []

    def plan(seen: Any, now: float) -> ReservationRound:
        looked.append(loop_lives.wait(PATIENCE))
        return ReservationRound(Plan(), {})

    monkeypatch.setattr(pending_pods, "plan_pending_pods", plan)
    monkeypatch.setattr(loops, "THREAD_SIZE", 10)
    look = asyncio.create_task(Process(pool).queues._reconcile("a"))
    await asyncio.sleep(0)
    loop_lives.set()  # which comes to be while it is looked at
    await look
    assert looked == [True]


async def test_after_a_long_look_the_queue_rests_whatever_changes(pool: Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch, loops)

    def plan(seen: Any, now: float) -> ReservationRound:
        clock.now += 2.0
        return ReservationRound(Plan(requeue_after=0.0), {})

    monkeypatch.setattr(pending_pods, "plan_pending_pods", plan)
    loop = Process(pool).queues
    woken: list[float] = []
    monkeypatch.setattr(loop.controller, "add_after", lambda _pool, seconds: woken.append(seconds))
    assert await loop._reconcile("a") == 2.0 * loops.RESTS
    loop._enqueue("a")
    clock.now += 2.0 * loops.RESTS
    loop._enqueue("a")
    assert woken == [2.0 * loops.RESTS, loops.DELAY]


async def test_what_changes_while_a_queue_is_planned_does_not_cut_its_rest_short(
    pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, looks = Clock(monkeypatch, loops), list[float]()
    loop = Process(pool).queues

    def plan(seen: Any, now: float) -> ReservationRound:
        looks.append(clock.now)
        loop._enqueue("a")  # by a time that is from before this look
        clock.now += 2.0
        return ReservationRound(Plan(), {})

    monkeypatch.setattr(pending_pods, "plan_pending_pods", plan)
    monkeypatch.setattr(loop.controller, "add_after", lambda _pool, _seconds: None)
    await loop._reconcile("a")
    clock.now += loops.DELAY
    assert await loop._reconcile("a") == pytest.approx(2.0 * loops.RESTS - loops.DELAY)
    assert len(looks) == 1
    clock.now += 2.0 * loops.RESTS
    await loop._reconcile("a")
    assert len(looks) == 2


@pytest.mark.parametrize(
    ("before", "made", "next_first"),
    [
        ((), ReservationRound(Plan(), {}, ("old",), ("young", "younger")), ("old", "young", "younger")),
        (("old", "x"), ReservationRound(Plan(), {}, ("old", "other"), ()), ("old",)),
        ((), ReservationRound(Plan(), {}, ("old",), ()), ()),
    ],
    ids=["a part was looked at", "the rest was looked at", "all were looked at"],
)
async def test_who_was_served_in_vain_does_not_come_after_younger_ones(
    pool: Pool,
    monkeypatch: pytest.MonkeyPatch,
    before: tuple[str, ...],
    made: ReservationRound,
    next_first: tuple[str, ...],
) -> None:
    """A write fails, and what was planned is not so: the next look begins with those that this one had begun with."""
    monkeypatch.setattr(loops, "RESTS", 0.0)
    told: list[frozenset[str]] = []

    def plan(seen: Any, now: float) -> ReservationRound:
        told.append(seen.unreached)
        return made

    monkeypatch.setattr(pending_pods, "plan_pending_pods", plan)
    process = Process(pool)
    process.queues._unreached["a"] = before
    process.fails = True
    with pytest.raises(ConnectionError):
        await process.queues._reconcile("a")
    process.fails = False
    await process.queues._reconcile("a")
    await process.queues._reconcile("a")
    assert told == [frozenset(before), frozenset(next_first), frozenset(made.unreached)]
