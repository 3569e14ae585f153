"""Scenarios in which users take back a request before a controller can have followed it.

Whether a controller ever sees the state in between is luck (Sieve calls it an unobserved state), and no end depends on
it: each story goes on to a state that follows from its last steps alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from reliability.faults.scenarios import FIRST, GATE, SECOND, SHARED

if TYPE_CHECKING:
    from reliability.faults.actors import Actors


async def assign(actors: Actors) -> None:
    """A card is confirmed for a pool, that is taken back, and it is confirmed again."""
    card = actors.cards(FIRST)[0]
    await actors.pool("again")
    await actors.assign(card, "again")
    await actors.assign(card, None)
    await actors.assign(card, "again")
    await actors.offered("again", 1)
    await actors.assign(card, None)
    await actors.assign(card, "again")
    await actors.offered("again", 1)
    await actors.pod("one", "again")
    await actors.runs("one")


async def pool(actors: Actors) -> None:
    """A pool that serves a pod is deleted and made again, under its name."""
    card = actors.cards(FIRST)[0]
    await actors.pool("anew")
    await actors.assign(card, "anew")
    await actors.offered("anew", 1)
    await actors.pod("one", "anew")
    await actors.runs("one")
    await actors.delete_pods("one")
    await actors.pool_anew("anew")
    await actors.offered("anew", 1)
    await actors.pod("two", "anew")
    await actors.runs("two")


async def allocation(actors: Actors) -> None:
    """A pool's cards are to be shared, and at once not any more; once more while a pod runs."""
    await actors.pool("turns")
    await actors.assign(actors.cards(FIRST)[0], "turns")
    await actors.offered("turns", 1)
    await actors.allocation("turns", **SHARED)
    await actors.allocation("turns", mode="Exclusive")
    await actors.maintenance("turns", "False")
    await actors.offered("turns", 1)
    await actors.pod("one", "turns")
    await actors.runs("one")
    await actors.allocation("turns", **SHARED)
    await actors.allocation("turns", mode="Exclusive")
    await actors.maintenance("turns", "False")
    await actors.capacity("turns", 1, 1, 0)


async def disable(actors: Actors) -> None:
    """The module is disabled and enabled again at once, while a pod runs."""
    await actors.pool("rests")
    await actors.assign(actors.cards(FIRST)[0], "rests")
    await actors.offered("rests", 1)
    await actors.pod("one", "rests")
    await actors.runs("one")
    await actors.settings(enabled=False)
    await actors.settings()
    await actors.ready(FIRST, SECOND)
    await actors.offered("rests", 1)
    await actors.runs("one")
    await actors.capacity("rests", 1, 1, 0)


async def pods(actors: Actors) -> None:
    """Pods are created and deleted at once; the card is for the next one."""
    card = actors.cards(FIRST)[0]
    await actors.pool("swift")
    await actors.assign(card, "swift")
    await actors.offered("swift", 1)
    await actors.pod("held", "swift", **GATE)
    await actors.delete_pods("held")
    await actors.pod("bound", "swift")
    await actors.delete_pods("bound")
    await actors.capacity("swift", 1, 0, 0)
    await actors.pod("next", "swift")
    await actors.runs("next")
