"""What is counted of a fleet: as nodes change one by one it stays what a count from the start comes to."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from controllers.driver.loops.reconciler import Reconciler
from controllers.driver.world import World
from tests.driver.rollout.cluster import RolledOut
from tests.driver.world import NEXT


def follow(world: World, made: RolledOut) -> None:
    """Have a process that runs on see what is there now."""
    fresh = made.view().caches
    for old, new in (
        (world.caches.nodes, fresh.nodes),
        (world.caches.devices, fresh.devices),
        (world.caches.inventories, fresh.inventories),
        (world.caches.drivers, fresh.drivers),
    ):
        store: Any = old
        there = {one.key for one in new}
        for gone in [one for one in store if one.key not in there]:
            store.on_watch_event(gone, deleted=True)
        for one in new:
            store.on_watch_event(one)


def counted(world: World) -> tuple[object, ...]:
    return (*world.roster.totals(), world.decisions.nodes_of("main"), world.decisions.nodes_of("other"))


async def test_nodes_are_counted_anew_one_by_one_as_from_the_start() -> None:
    made = RolledOut()
    made.fleet(4, waves=[50, 100])
    process: Any = SimpleNamespace(executor=SimpleNamespace(execute=None))
    world = made.view()
    Reconciler(process, world).watch()
    most_out, lost = 0, "n2"
    assert counted(world) == counted(made.view())

    made.retarget(NEXT)
    for turn in range(30):
        for key in made.all_keys():
            made.reconcile(*key)
            follow(world, made)
            assert counted(world) == counted(made.view())
            most_out = max(most_out, world.roster.totals()[0].planned)
        made.outside()
        made.now += 30
        if turn == 5:
            made.drop_node(lost)
        elif turn == 10:
            made.driver("other", priority=5)

    cluster, pools = world.roster.totals()
    assert most_out > 0
    assert (cluster.nodes, {name: group.nodes for name, group in pools.items()}) == (3, {"a": 3})
    assert (world.decisions.nodes_of("main"), world.decisions.nodes_of("other")) == (set(), {"n0", "n1", "n3"})
