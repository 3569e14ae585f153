"""What is only said has a loop of its own: nobody waits for it, it settles first, and nothing old comes over it."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from prometheus_client import REGISTRY

from controllers.api import names, resources
from controllers.api.gpudevice import GPUDevice
from controllers.api.gpupool import GPUPool
from controllers.api.kube import ConfigMap
from controllers.api.selector import LabelSelector
from controllers.gpupool.loops import pools, status
from controllers.gpupool.loops.reconciler import Reconciler
from controllers.gpupool.membership.selector_index import SelectorIndex
from controllers.gpupool.pool.plan import plan_pool, writes_status
from controllers.runtime import pace
from controllers.runtime.errors import Conflict
from controllers.runtime.plan import Action, Apply, Plan
from tests.gpupool.world import KINDS, Cluster
from tests.kit.clock import Clock
from tests.kit.waiting import PATIENCE

PERIOD = 0.25
FIRST, SECOND = "n1-0000-00-00-0", "n1-0000-01-00-0"


class Process:
    """The loops over the caches of a cluster in memory; the first write of a status ends once `open` is set."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster, self.world = cluster, cluster.view()
        self.open = asyncio.Event()
        self.held, self.statuses = True, 0
        process: Any = SimpleNamespace(executor=SimpleNamespace(execute=self._execute))
        self.loops = Reconciler(process, self.world)

    async def _execute(self, actions: tuple[Action, ...]) -> None:
        if writes_status(Plan(actions)):
            held, self.held = self.held, False
            if held:
                await self.open.wait()
            self.statuses += 1
        self.cluster.execute(actions, names.MANAGER_POOL)
        self.refresh()

    def refresh(self) -> None:
        for name, (resource, record) in KINDS.items():
            store = getattr(self.world, name)
            store.replace(self.cluster.all(resource, record), store.observed + 1)

    def annotate(self, card: str, pool: str | None) -> None:
        self.cluster.annotate(card, pool)
        self.refresh()

    async def act(self) -> float | None:
        return await self.loops.pools._reconcile("a")

    async def say(self) -> float | None:
        return await self.loops.status._reconcile("a")

    @property
    def listed(self) -> set[str]:
        configs = self.cluster.all(resources.CONFIGMAP, ConfigMap)
        return {card for config in configs for card in config.data[names.ALLOWED_DEVICES].splitlines()}

    def pool_of(self, card: str) -> str | None:
        (found,) = (d for d in self.cluster.all(resources.GPUDEVICE, GPUDevice) if d.name == card)
        return found.status.pool_ref.name if found.status.pool_ref else None


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """By which statuses and lists are written once in a while."""
    return Clock(monkeypatch, pace)


@pytest.fixture
def process(monkeypatch: pytest.MonkeyPatch, clock: Clock) -> Process:
    del clock  # it is set
    monkeypatch.setattr(status, "STATUS_PERIOD", PERIOD)
    monkeypatch.setattr(pools, "LISTS_PERIOD", PERIOD)
    cluster = Cluster()
    cluster.node("n1", 3)
    cluster.pool("a")
    cluster.settle()
    return Process(cluster)


async def test_a_list_does_not_wait_for_the_pools_status(process: Process) -> None:
    process.annotate(FIRST, "a")
    await process.act()
    saying = asyncio.create_task(process.say())
    await asyncio.sleep(0)  # now its status is being written, and that takes as long as it takes
    async with asyncio.timeout(PATIENCE):
        await process.act()
    assert process.listed == {"n1-0000:00:00.0"}
    assert not saying.done()
    process.open.set()
    await saying
    assert process.statuses == 1


async def test_a_status_that_closes_the_pool_waits_for_the_one_before_and_looks_again(process: Process) -> None:
    process.annotate(FIRST, "a")
    for _ in range(2):
        await process.act()
    process.cluster.plugin()
    process.refresh()
    saying = asyncio.create_task(process.say())
    await asyncio.sleep(0)
    process.cluster.objects["GPUPool", "a"]["spec"]["allocation"] = {"mode": "TimeSlice"}
    process.cluster.touch(("GPUPool", "a"))
    process.refresh()
    acting = asyncio.create_task(process.act())
    for _ in range(10):
        await asyncio.sleep(0)
    assert process.statuses == 0  # else the one that hangs would open the pool again
    process.open.set()
    await asyncio.gather(saying, acting)
    (pool,) = process.cluster.all(resources.GPUPOOL, GPUPool)
    told = {condition.type: condition.status for condition in pool.status.conditions}
    assert (process.statuses, told["Maintenance"]) == (2, "True")
    assert [device.inventory_id for device in pool.status.devices] == ["n1-0000:00:00.0"]  # the first is not lost


async def test_a_status_is_written_once_in_a_while(process: Process, clock: Clock) -> None:
    process.open.set()
    process.annotate(FIRST, "a")
    await process.act()
    await process.say()
    process.annotate(SECOND, "a")
    await process.act()
    again = await process.say()
    assert process.statuses == 1
    assert again is not None
    assert 0 < again <= PERIOD
    clock.now += again
    await process.say()
    assert process.statuses == 2


async def test_cards_that_come_in_share_a_write_of_the_list_and_one_that_leaves_does_not_wait(
    process: Process,
) -> None:
    process.annotate(FIRST, "a")
    await process.act()
    await process.act()
    assert process.listed == {"n1-0000:00:00.0"}
    process.annotate(SECOND, "a")
    await process.act()
    again = await process.act()
    assert process.listed == {"n1-0000:00:00.0"}
    assert again is not None
    assert 0 < again <= PERIOD

    process.annotate(FIRST, None)
    await process.act()  # no plugin has offered it: it is off the list, and out of the pool only then
    assert process.listed == {"n1-0000:01:00.0"}
    assert process.pool_of(FIRST) is None


async def test_a_list_was_written_though_what_came_after_it_was_refused(process: Process) -> None:
    process.annotate(FIRST, "a")
    await process.act()

    async def refused(actions: tuple[Action, ...]) -> None:
        await process._execute(actions)
        raise Conflict(409, "Conflict", "a card that is to come in")

    process.loops.pools._execute = refused
    process.loops.pools._listed.forget("a")
    with pytest.raises(Conflict):
        await process.act()
    assert process.listed == {"n1-0000:00:00.0"}
    process.loops.pools._execute = process._execute
    process.annotate(SECOND, "a")
    await process.act()
    again = await process.act()
    assert process.listed == {"n1-0000:00:00.0"}
    assert again is not None


def test_no_card_is_let_go_while_a_list_still_names_it() -> None:
    cluster = Cluster()
    cluster.node("n1", 3)
    cluster.pool("a")
    cluster.annotate(FIRST, "a")
    cluster.settle()
    cluster.plugin()
    for name in (FIRST, SECOND):
        cluster.objects["GPUDevice", name]["status"].pop("published", None)
    cluster.annotate(FIRST, None)
    cluster.annotate(SECOND, "a")
    seen = cluster.view().pool("a")
    assert seen is not None
    made = plan_pool(seen, cluster.now, lists_in=0.5)
    kinds = [action.ref.resource for action in made.writes if isinstance(action, Apply)]
    released = [a.ref.name for a in made.writes if not isinstance(a, Apply) and a.ref.name == FIRST]
    assert (kinds, released) == ([resources.CONFIGMAP], [FIRST])
    last = [action.ref.name for action in made.writes]
    assert last.index(FIRST) > last.index(names.plugin_object("a"))


def test_a_pool_that_comes_to_mean_other_nodes_is_judged_anew() -> None:
    cluster = Cluster()
    cluster.node("n1", 1)
    cluster.pool("a")
    cluster.pool("b")
    devices = cluster.all(resources.GPUDEVICE, GPUDevice)
    first, second = cluster.all(resources.GPUPOOL, GPUPool)
    labels = {"rack": "1"}

    def takers(selection: SelectorIndex) -> list[str]:
        return [pool.name for pool in selection.matching_pools(devices, labels)[FIRST]]

    before = SelectorIndex((first, second))
    assert takers(before) == ["a", "b"]
    said = replace(second, status=replace(second.status, truncated=True))
    after = SelectorIndex((first, said), before)
    assert after.matching_pools(devices, labels)[FIRST][1] is said  # the pool as it is now
    elsewhere = replace(first, spec=replace(first.spec, node_selector=LabelSelector(match_labels={"rack": "2"})))
    assert takers(SelectorIndex((elsewhere, said), after)) == ["b"]
    assert takers(SelectorIndex((said,), after)) == ["b"]


async def test_nothing_is_told_of_a_pool_that_went_while_its_status_was_written(process: Process) -> None:
    process.open.set()
    process.annotate(FIRST, "a")
    await process.act()

    async def execute(actions: tuple[Action, ...]) -> None:
        await process._execute(actions)
        if writes_status(Plan(actions)):  # it goes before the answer is here
            process.cluster.drop(resources.GPUPOOL, "a")
            process.refresh()
            await process.act()

    process.loops.status._execute = execute
    await process.say()
    await process.say()  # its going has it look again
    assert REGISTRY.get_sample_value("gpupool_assignments", {"pool": "a"}) is None
    assert not process.loops.status._locks
    assert not process.loops.status._written


async def test_a_pod_whose_label_names_no_pool_moves_no_card(process: Process) -> None:
    heard: list[Action] = []

    async def execute(actions: tuple[Action, ...]) -> None:
        heard.extend(actions)

    process.loops.pools._execute = execute
    await process.loops.pools._reconcile("")
    assert heard == []
