"""Scenarios of nodes that get their driver from the module."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from reliability.faults.driver_actors import CARDS

if TYPE_CHECKING:
    from reliability.faults.driver_actors import DriverActors

FIRST, SECOND = "bare-1", "bare-2"
WANTED, NEWER = "580.178.04", "595.91.07"
UNHEARD, UNBUILT = "599.1.1", "598.1.1"
"""Versions of which there are no images."""
DRIVER = "main"
ROLLOUT: Final[dict[str, Any]] = {
    "canary": {"soak": "1s", "evidence": "None"},
    "waveSoak": "1s",
    "waves": [100],
    "maxUnavailable": {"nodes": "1", "perPool": "1", "cards": 4},
}
"""One node after another, and none of them for long."""


async def install(actors: DriverActors) -> None:
    """A bare node is there; a GPUDriver comes, and the node gets its driver. A pod uses a card of it."""
    await actors.join_bare(FIRST)
    await actors.recorded(FIRST, CARDS)
    await actors.driver(DRIVER, WANTED)
    await actors.serves(FIRST, WANTED)
    await actors.installed(DRIVER, 1)
    await actors.pool("fresh")
    await actors.assign(actors.cards(FIRST)[0], "fresh")
    await actors.offered("fresh", 1)
    await actors.pod("one", "fresh")
    await actors.runs("one")


async def new_node(actors: DriverActors) -> None:
    """A GPUDriver is there; two bare nodes join, the second as the first is served."""
    await actors.driver(DRIVER, WANTED)
    await actors.join_bare(FIRST)
    await actors.serves(FIRST, WANTED)
    await actors.join_bare(SECOND)
    await actors.serves(SECOND, WANTED)
    await actors.installed(DRIVER, 2)


async def retarget(actors: DriverActors) -> None:
    """A GPUDriver asks for a version that does not exist, for another such, and for one that does.

    While that is installed it asks for yet another one, which follows once that serves.
    """
    await actors.join_bare(FIRST)
    await actors.driver(DRIVER, UNHEARD, rollout=ROLLOUT)
    await actors.works(FIRST, "Blocked", "ImageMissing")
    # Whether a revision is on record that goes at once would be luck.
    await actors.remembers(DRIVER, 1)
    await actors.version(DRIVER, UNBUILT)
    await actors.remembers(DRIVER, 2)
    await actors.version(DRIVER, NEWER)
    await actors.remembers(DRIVER, 3)
    await actors.works(FIRST, "Installing")
    await actors.version(DRIVER, WANTED)
    await actors.serves(FIRST, WANTED)
    await actors.installed(DRIVER, 1)


async def delete(actors: DriverActors) -> None:
    """A GPUDriver is deleted: its node keeps its driver, and serves on; it comes back, and has the node.

    First it is deleted while its node gets the driver, which comes to its end.
    """
    await actors.join_bare(FIRST)
    await actors.driver(DRIVER, WANTED)
    await actors.works(FIRST, "Installing")
    await actors.delete_driver(DRIVER)
    await actors.no_driver(DRIVER)
    await actors.serves(FIRST, WANTED)
    await actors.driver(DRIVER, WANTED)
    await actors.installed(DRIVER, 1)
    pods = actors.driver_pods(FIRST)
    await actors.delete_driver(DRIVER)
    await actors.no_driver(DRIVER)
    await actors.serves(FIRST, WANTED)
    await actors.driver(DRIVER, WANTED)
    await actors.installed(DRIVER, 1)
    await actors.until(lambda: actors.driver_pods(FIRST) == pods, lambda: (pods, actors.driver_pods(FIRST)))
