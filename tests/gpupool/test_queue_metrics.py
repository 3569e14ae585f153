"""What Prometheus reads of queues: who waits and why, for how long, and whom nobody lets go on in spite of room."""

from __future__ import annotations

import contextlib
from types import SimpleNamespace
from typing import Any

import pytest
from prometheus_client import REGISTRY

from controllers.api import names
from controllers.gpupool import metrics
from controllers.gpupool.loops import denials
from controllers.gpupool.loops import pending_pods as loops
from controllers.gpupool.loops.pending_pods import PendingPodController
from controllers.gpupool.queue_collector import QueueCollector
from controllers.runtime.errors import Forbidden, Unreachable
from controllers.runtime.plan import JSONPatch
from tests.gpupool.test_queued_pods import SCALE_UP, Queue
from tests.kit import objects

PODS, SLOTS = "gpupool_queue_pods", "gpupool_queue_slots"
OLDEST, STALLED = "gpupool_queue_oldest_seconds", "gpupool_queue_stalled_seconds"


class Process:
    """The loop over queues, and its metrics; what the API server says of releases is made up."""

    def __init__(self, queue: Queue, patch: pytest.MonkeyPatch) -> None:
        self.queue, self.says, self.world = queue, list[Exception](), queue.process()
        clock = SimpleNamespace(time=lambda: queue.now, monotonic=lambda: queue.now)
        for module in (loops, denials):
            patch.setattr(module, "time", clock)
        process: Any = SimpleNamespace(executor=SimpleNamespace(execute=self._execute))
        self.loop = PendingPodController(process, self.world)
        self.metrics = QueueCollector(self.world, lambda: queue.now)

    async def _execute(self, actions: Any) -> None:
        """Cards are written; of a pod's release the API server may say something else."""
        for action in actions:
            if isinstance(action, JSONPatch) and self.says:
                raise self.says[0]
            self.queue.execute((action,), names.MANAGER_POOL)

    async def look(self) -> None:
        """One look at the queue, and what the watches tell of it."""
        self.queue.process()
        with contextlib.suppress(Unreachable):
            await self.loop._reconcile("a")
        self.queue.process()

    def told(self, name: str) -> dict[tuple[str, ...], float]:
        (family,) = [one for one in self.metrics.collect() if one.name == name]
        return {tuple(sample.labels.values()): sample.value for sample in family.samples}

    @property
    def stalled(self) -> float:
        return self.told(STALLED)["a",]


@pytest.fixture
def queue() -> Queue:
    """A pool of one card."""
    return Queue({"n1": 1})


@pytest.fixture
def process(queue: Queue, monkeypatch: pytest.MonkeyPatch) -> Process:
    return Process(queue, monkeypatch)


async def test_pods_are_counted_by_why_they_wait(queue: Queue, process: Process) -> None:
    queue.queues("served", age=700)
    queue.queues("old", age=600)
    queue.queues("young", age=60)
    queue.queues("huge", 3, age=30)
    queue.queues("theirs", age=900, gates=("example.com/quota",))
    await process.look()
    assert process.told(PODS) == {("a", "Waiting"): 2, ("a", "NoNodeFits"): 1, ("a", "OtherGates"): 1}
    # One that waits for a gate of others is no demand yet, however old it is.
    assert process.told(SLOTS) == {("a",): 5}
    assert process.told(OLDEST) == {("a",): 600}
    assert process.told(STALLED) == {("a",): 0}


def test_a_pod_that_no_look_has_seen_simply_waits(queue: Queue, process: Process) -> None:
    queue.queues("new", age=1)
    queue.process()
    assert process.told(PODS) == {("a", "Waiting"): 1}


async def test_where_nobody_waits_nothing_is_told_but_noughts_and_of_a_pool_that_is_gone_not_even_these(
    queue: Queue, process: Process
) -> None:
    queue.queues("p")
    queue.pool("b")
    await process.look()
    assert queue.released() == {"p"}
    assert (process.told(PODS), process.told(OLDEST)) == ({}, {})
    assert process.told(SLOTS) == process.told(STALLED) == {("a",): 0, ("b",): 0}

    queue.queues("stays")
    del queue.objects["GPUPool", "a"]
    await process.look()
    for name in (PODS, SLOTS, OLDEST, STALLED):
        assert ("a",) not in {labels[:1] for labels in process.told(name)}
    assert process.world.queue_looks == {}


@pytest.mark.parametrize("error", [Forbidden(403, "Forbidden", "no"), Unreachable("away")], ids=["denied", "no answer"])
async def test_a_pod_that_is_not_let_go_on_is_told_with_the_time_since_there_was_room(
    queue: Queue, process: Process, error: Exception
) -> None:
    queue.queues("p", age=5)
    process.says = [error]
    await process.look()
    began = queue.now
    for _ in range(5):
        queue.now += 50
        queue.expire()  # its reservation runs out, and it is reserved for anew
        await process.look()
        assert process.stalled == queue.now - began
    process.says = []
    queue.now += denials.LONGEST
    queue.expire()
    for _ in range(3):
        await process.look()
    assert queue.released() == {"p"}
    assert process.stalled == 0


async def test_one_for_which_there_is_no_room_any_more_just_waits(queue: Queue, process: Process) -> None:
    queue.queues("p")
    process.says = [Unreachable("away")]
    await process.look()
    queue.now += 200
    queue.expire()
    assert process.stalled == 200
    with queue.edit("Node", "n1") as node:
        node["spec"]["unschedulable"] = True
    await process.look()
    assert process.told(PODS) == {("a", "Waiting"): 1}
    assert process.stalled == 0


def test_a_whole_promise_without_a_release_is_told_though_no_look_was_made(queue: Queue, process: Process) -> None:
    queue.queues("p")
    queue.queues("pair", 2)
    queue.reserve("n1-0", "p")
    queue.now += 70
    queue.process()
    assert process.stalled == 70


def test_half_a_promise_is_no_room(queue: Queue, process: Process) -> None:
    queue.queues("pair", 2)
    queue.reserve("n1-0", "pair")
    queue.now += 70
    queue.process()
    assert process.stalled == 0


async def test_a_pod_that_is_let_go_on_without_cards_had_no_room_and_got_none(monkeypatch: pytest.MonkeyPatch) -> None:
    process = Process(Queue({"n1": 1}, queue=SCALE_UP), monkeypatch)
    metrics.forget("a")
    process.queue.queues("big", 3, age=60)
    process.queue.queues("small", age=60)
    process.says = [Unreachable("away")]
    await process.look()
    assert set(process.world.queue_looks["a"].room_since) == {"default/small"}
    process.says = []
    await process.look()
    await process.look()
    assert process.queue.released() == {"big", "small"}
    assert REGISTRY.get_sample_value("gpupool_queue_released_total", {"pool": "a"}) == 1


def test_what_a_queue_has_given_is_counted_from_nought_until_the_pool_is_gone() -> None:
    def told() -> list[float | None]:
        series = ("gpupool_queue_released_total", "gpupool_queue_release_seconds_count")
        return [REGISTRY.get_sample_value(name, {"pool": "queue-metric"}) for name in series]

    metrics.record(objects.pool("queue-metric"), 1)
    assert told() == [0, 0]
    metrics.count_released("queue-metric", 2, 0.1)
    assert told() == [2, 2]
    metrics.forget("queue-metric")
    assert told() == [None, None]
