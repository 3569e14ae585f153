"""Scenarios of nodes whose driver is replaced, or that are handed over to somebody."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from reliability.faults.driver_actors import CARDS
from reliability.faults.scenarios_driver import DRIVER, FIRST, NEWER, ROLLOUT, SECOND, WANTED

if TYPE_CHECKING:
    from reliability.faults.driver_actors import DriverActors

DRAIN: Final[dict[str, Any]] = {
    "strategy": "Drain",
    "drain": {"waitFor": "1s", "timeout": "10m", "bare": "Evict"},
}
POOL: Final = "rolled"
OPERATOR: Final = "ansible"


async def served(actors: DriverActors, **rollout: Any) -> None:
    """Two nodes have their driver from the module."""
    for node in (FIRST, SECOND):
        await actors.join_bare(node)
        await actors.recorded(node, CARDS)
    await actors.driver(DRIVER, WANTED, rollout=ROLLOUT | rollout)
    for node in (FIRST, SECOND):
        await actors.serves(node, WANTED)
    await actors.installed(DRIVER, 2)


async def used(actors: DriverActors, *nodes: str) -> list[str]:
    """A pod uses a card of each of these nodes; returns their names."""
    await actors.pool(POOL)
    for node in nodes:
        await actors.assign(actors.cards(node)[0], POOL)
    await actors.offered(POOL, len(nodes))
    pods = [f"p-{number}" for number, _ in enumerate(nodes)]
    for pod in pods:
        await actors.pod(pod, POOL)
    await actors.runs(*pods)
    return pods


async def roll(actors: DriverActors) -> None:
    """A new version comes onto the idle node, and onto the other one once its pod has ended, which stays on record."""
    await served(actors)
    pods = await used(actors, FIRST)
    await actors.version(DRIVER, NEWER)
    await actors.serves(SECOND, NEWER)
    await actors.works(FIRST, "Draining", "PodsRemain")
    await actors.runs(*pods)
    await actors.end_pods(*pods)
    await actors.serves(FIRST, NEWER)
    await actors.installed(DRIVER, 2)
    await actors.offered(POOL, 1)


async def second_thoughts(actors: DriverActors) -> None:
    """A new version is taken back while the first node soaks, and wanted again: it is proved before it rolls on."""
    await served(actors, canary={"soak": "5s", "evidence": "None"})
    await actors.version(DRIVER, NEWER)
    await actors.one_works("Soaking")
    await actors.version(DRIVER, WANTED)
    await actors.none_works("Soaking")
    await actors.version(DRIVER, NEWER)
    for node in (FIRST, SECOND):
        await actors.serves(node, NEWER)
    await actors.installed(DRIVER, 2)


async def bad(actors: DriverActors) -> None:
    """A new version does not load: the node that tries it gets the former one back, and the other is left alone."""
    await served(actors)
    for node in (FIRST, SECOND):
        await actors.breaks(node, f"driver@{NEWER}=insmod-fails")
    await actors.version(DRIVER, NEWER)
    await actors.halted(DRIVER, "UnknownSymbol")
    await actors.one_works("RolledBack", "UnknownSymbol")
    await actors.out(DRIVER, 0)
    await actors.version(DRIVER, WANTED)
    for node in (FIRST, SECOND):
        await actors.serves(node, WANTED)
    await actors.installed(DRIVER, 2)


async def drain(actors: DriverActors) -> None:
    """A new version comes onto two nodes whose pods are evicted."""
    await served(actors, **DRAIN)
    await used(actors, FIRST, SECOND)
    await actors.version(DRIVER, NEWER)
    for node in (FIRST, SECOND):
        await actors.serves(node, NEWER)
    await actors.installed(DRIVER, 2)
    await actors.offered(POOL, 2)


async def pause_resume(actors: DriverActors) -> None:
    """A rollout is paused while a node waits for its pod: the node is given back. It goes on, and comes to its end."""
    await served(actors)
    pods = await used(actors, FIRST, SECOND)
    await actors.version(DRIVER, NEWER)
    await actors.one_works("Draining", "PodsRemain")
    await actors.paused(DRIVER, paused=True)
    await actors.out(DRIVER, 0)
    await actors.offered(POOL, 2)
    await actors.runs(*pods)
    await actors.paused(DRIVER, paused=False)
    await actors.one_works("Draining", "PodsRemain")
    await actors.delete_pods(*pods)
    for node in (FIRST, SECOND):
        await actors.serves(node, NEWER)
    await actors.installed(DRIVER, 2)


async def hand_over(actors: DriverActors) -> None:
    """Somebody wants a node, gets it once its pod has ended, and gives it back with the driver that it had."""
    await served(actors)
    pods = await used(actors, FIRST)
    driver = actors.driver_pods(FIRST)
    await actors.hand_over(FIRST, OPERATOR)
    await actors.works(FIRST, "Draining", "PodsRemain")
    await actors.runs(*pods)
    await actors.delete_pods(*pods)
    await actors.works(FIRST, "HandedOver")
    await actors.hand_over(FIRST, None)
    await actors.serves(FIRST, WANTED)
    await actors.until(lambda: actors.driver_pods(FIRST) == driver, lambda: (driver, actors.driver_pods(FIRST)))
    await actors.installed(DRIVER, 2)
    await actors.offered(POOL, 1)
