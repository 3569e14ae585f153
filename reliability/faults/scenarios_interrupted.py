"""Scenarios of nodes whose driver others meddle with: people, and programs that are away."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reliability.faults.driver_actors import CARDS
from reliability.faults.scenarios_driver import DRIVER, FIRST, NEWER, SECOND, WANTED
from reliability.faults.scenarios_roll import served, used

if TYPE_CHECKING:
    from reliability.faults.driver_actors import DriverActors


async def meddled(actors: DriverActors) -> None:
    """NFD's labels are taken off a node, which changes nothing; its driver's pod is deleted, and comes again."""
    await actors.join_bare(FIRST)
    await actors.recorded(FIRST, CARDS)
    await actors.driver(DRIVER, WANTED)
    await actors.serves(FIRST, WANTED)
    await actors.installed(DRIVER, 1)
    pods = actors.driver_pods(FIRST)
    await actors.without_features(FIRST)
    await actors.delete_driver_pod(FIRST)
    await actors.until(lambda: _replaced(pods, actors.driver_pods(FIRST)), lambda: (pods, actors.driver_pods(FIRST)))
    await actors.serves(FIRST, WANTED)
    await actors.installed(DRIVER, 1)


def _replaced(former: list[str], now: list[str]) -> bool:
    return len(now) == 1 and not set(now) & set(former)


async def remade(actors: DriverActors) -> None:
    """A node that waits for its pod is deleted and made again: it gets the new version as a new node."""
    await served(actors)
    pods = await used(actors, FIRST)
    await actors.version(DRIVER, NEWER)
    await actors.serves(SECOND, NEWER)
    await actors.works(FIRST, "Draining", "PodsRemain")
    await actors.leave(FIRST)
    await actors.delete_pods(*pods)
    await actors.capacity("rolled", 0, 0, 0)
    await actors.join_bare(FIRST)
    await actors.serves(FIRST, NEWER)
    await actors.installed(DRIVER, 2)


async def uncontrolled(actors: DriverActors) -> None:
    """Kubernetes' own controllers stand still as a node is to be cleared: it waits for them."""
    await served(actors)
    await actors.controllers(stopped=True)
    await actors.version(DRIVER, NEWER)
    await actors.one_works("Clearing")
    await actors.controllers(stopped=False)
    for node in (FIRST, SECOND):
        await actors.serves(node, NEWER)
    await actors.installed(DRIVER, 2)
