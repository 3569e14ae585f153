"""The loop over nodes: what settles before it is written, and how often candidates wake a pool."""

from __future__ import annotations

import asyncio
import time
from types import SimpleNamespace
from typing import Any

import pytest

from controllers.api import names, resources
from controllers.api.gpudevice import GPUDevice
from controllers.gpupool.loops import nodes
from controllers.gpupool.loops.nodes import NodeController
from controllers.runtime.controller import Controller
from controllers.runtime.plan import Action
from tests.gpupool.world import KINDS, Cluster
from tests.kit.clock import Clock
from tests.kit.waiting import until

SETTLE = 0.15
DELAY, PERIOD = 0.02, 1.0


class Bench:
    """NodeController over the caches of a cluster in memory, whose writes come back at once."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster, self.world = cluster, cluster.view()
        self.written: list[str] = []
        self.woken: list[str] = []
        process: Any = SimpleNamespace(executor=SimpleNamespace(execute=self._execute))
        self.controller = NodeController(process, self.world, self.woken.append)
        self.world.candidates.complete = False

    async def _execute(self, actions: tuple[Action, ...]) -> None:
        before = self.cluster.writes
        self.cluster.execute(actions, names.MANAGER_POOL)
        self.written += [a.ref.resource.kind for a in actions if hasattr(a, "ref")][: self.cluster.writes - before]
        self.refresh()

    def refresh(self) -> None:
        """The caches learn what the cluster has."""
        for name, (resource, record) in KINDS.items():
            store = getattr(self.world, name)
            store.replace(self.cluster.all(resource, record), store.observed + 1)

    async def node(self, name: str) -> float | None:
        return await self.controller._reconcile(name)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """By which it settles; for who asks for it."""
    return Clock(monkeypatch, nodes)


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Bench:
    monkeypatch.setattr(nodes, "SETTLE", SETTLE)
    monkeypatch.setattr(nodes, "CANDIDATES_DELAY", DELAY)
    monkeypatch.setattr(nodes, "CANDIDATES_PERIOD", PERIOD)
    cluster = Cluster()
    cluster.node("n1", 4)
    cluster.node("n2", 1)
    cluster.pool("a")
    cluster.settle()
    return Bench(cluster)


async def test_four_cards_that_come_in_are_one_write_of_their_node(bench: Bench, clock: Clock) -> None:
    for device in bench.cluster.all(resources.GPUDEVICE, GPUDevice)[:4]:
        status = bench.cluster.objects["GPUDevice", device.name]["status"]
        status["poolRef"] = {"name": "a", "resource": names.resource_name("a")}
        bench.cluster.annotate(device.name, "a")
        bench.refresh()
        again = await bench.node("n1")
        assert again is not None
        assert 0 < again <= SETTLE
    assert bench.written == ["Node"]  # the label, which the plugin waits for, at once

    clock.now += SETTLE
    assert await bench.node("n1") is None
    assert bench.written == ["Node", "GPUNodeInventory"]
    assert await bench.node("n1") is None
    assert bench.written == ["Node", "GPUNodeInventory"]


async def test_a_state_that_passes_is_not_written(bench: Bench, clock: Clock) -> None:
    del clock  # no time passes
    bench.cluster.unready("n1")
    bench.refresh()
    assert await bench.node("n1") is not None
    bench.cluster.unready("n1", ready=True)
    bench.refresh()

    assert await bench.node("n1") is None
    assert bench.written == []


async def test_lists_are_complete_when_every_node_has_been_looked_at(bench: Bench) -> None:
    bench.controller.start()
    await bench.node("n1")
    assert bench.world.candidates.of("a") is None
    assert bench.woken == []

    await bench.node("n2")
    found = bench.world.candidates.of("a")
    assert found is not None
    assert len(found) == 5
    await until(lambda: bench.woken == ["a"], "pool a to be woken")


async def test_candidates_wake_a_pool_at_a_pace_of_their_own(bench: Bench) -> None:
    bench.controller.start()
    for node in ("n1", "n2"):
        await bench.node(node)
    await until(lambda: bench.woken == ["a"], "pool a to be woken")
    first = bench.controller._due["a"]

    for ready in (False, True) * 3:
        bench.cluster.unready("n1", ready=ready)
        bench.refresh()
        await bench.node("n1")

    assert bench.woken == ["a"]  # once more, in a while, and then it will see the last of them
    assert bench.controller._due["a"] >= first + PERIOD
    await until(lambda: len(bench.woken) == 2, "pool a to be woken again")


async def test_a_pool_that_was_looked_at_for_another_reason_is_still_woken_for_its_candidates(bench: Bench) -> None:
    """A queue keeps the earliest of a key's times; what changes between that one and a later one is not lost."""
    looked: list[float] = []

    async def look(_: str) -> None:
        looked.append(time.monotonic())

    statuses = Controller("statuses", look)
    bench.controller._enqueue_pool = statuses.add
    running = asyncio.create_task(statuses.run())
    bench.controller.start()
    for node in ("n1", "n2"):
        await bench.node(node)
    await until(lambda: looked, "the pool to be looked at")

    bench.cluster.unready("n1")
    bench.refresh()
    await bench.node("n1")  # the pool is to be woken after PERIOD
    statuses.add_after("a", DELAY)  # something else has changed, and settles sooner
    await until(lambda: len(looked) == 2, "the pool to be looked at for it")
    bench.cluster.unready("n1", ready=True)
    bench.refresh()
    await bench.node("n1")
    changed = time.monotonic()
    await until(lambda: looked[-1] > changed, "the last change to be seen")
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def test_nodes_look_at_a_pool_that_changed_after_they_did(bench: Bench) -> None:
    looked: list[str] = []

    async def look(name: str) -> None:
        looked.append(name)

    nodes = bench.controller.controller = Controller("nodes", look)
    running = asyncio.create_task(nodes.run())
    bench.controller.enqueue_all(PERIOD)
    nodes.add_after("n1", DELAY)  # it has something to say, which settles sooner
    await until(lambda: looked == ["n1"], "n1 to be looked at")
    bench.controller.enqueue_all(PERIOD)  # another pool changes: all are to be looked at already
    await until(lambda: {"n1", "n2"} <= set(looked[1:]), "both nodes to be looked at after it")
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def test_a_cluster_without_nodes_has_complete_lists() -> None:
    bench = Bench(Cluster())
    bench.controller.start()

    assert bench.world.candidates.of("a") == ()


async def test_nothing_is_kept_of_a_pool_that_is_gone(bench: Bench) -> None:
    for name in ("n1", "n2"):
        await bench.node(name)
    bench.controller.start()
    bench.world.candidates.complete = True
    assert bench.world.candidates.of("a") is not None
    assert bench.world.candidates.of("none so far") == ()
    for pool in ("a", "none so far"):
        bench.controller.forget(pool)
    assert bench.world.candidates._listed == {}
