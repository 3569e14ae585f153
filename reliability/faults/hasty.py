"""Stories in which people do not wait: they take back what they asked for before anybody can have followed.

Whether a controller ever sees the state in between is luck (Sieve calls it an unobserved state), and no end depends on
it: each story goes on to a state that follows from its last steps alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from reliability.faults.stories import FIRST, GATE, SECOND, SHARED

if TYPE_CHECKING:
    from reliability.faults.hands import Hands


async def assign(hands: Hands) -> None:
    """A card is confirmed for a pool, that is taken back, and it is confirmed again."""
    card = hands.cards(FIRST)[0]
    await hands.pool("again")
    await hands.assign(card, "again")
    await hands.assign(card, None)
    await hands.assign(card, "again")
    await hands.offered("again", 1)
    await hands.assign(card, None)
    await hands.assign(card, "again")
    await hands.offered("again", 1)
    await hands.pod("one", "again")
    await hands.runs("one")


async def pool(hands: Hands) -> None:
    """A pool that serves a pod is deleted and made again, under its name."""
    card = hands.cards(FIRST)[0]
    await hands.pool("anew")
    await hands.assign(card, "anew")
    await hands.offered("anew", 1)
    await hands.pod("one", "anew")
    await hands.runs("one")
    await hands.delete_pods("one")
    await hands.pool_anew("anew")
    await hands.offered("anew", 1)
    await hands.pod("two", "anew")
    await hands.runs("two")


async def allocation(hands: Hands) -> None:
    """A pool's cards are to be shared, and at once not any more; once more while a pod runs."""
    await hands.pool("turns")
    await hands.assign(hands.cards(FIRST)[0], "turns")
    await hands.offered("turns", 1)
    await hands.allocation("turns", **SHARED)
    await hands.allocation("turns", mode="Exclusive")
    await hands.maintenance("turns", "False")
    await hands.offered("turns", 1)
    await hands.pod("one", "turns")
    await hands.runs("one")
    await hands.allocation("turns", **SHARED)
    await hands.allocation("turns", mode="Exclusive")
    await hands.maintenance("turns", "False")
    await hands.capacity("turns", 1, 1, 0)


async def disable(hands: Hands) -> None:
    """The module is disabled and enabled again at once, while a pod runs."""
    await hands.pool("rests")
    await hands.assign(hands.cards(FIRST)[0], "rests")
    await hands.offered("rests", 1)
    await hands.pod("one", "rests")
    await hands.runs("one")
    await hands.settings(enabled=False)
    await hands.settings()
    await hands.ready(FIRST, SECOND)
    await hands.offered("rests", 1)
    await hands.runs("one")
    await hands.capacity("rests", 1, 1, 0)


async def pods(hands: Hands) -> None:
    """Pods are created and deleted at once; the card is for the next one."""
    card = hands.cards(FIRST)[0]
    await hands.pool("swift")
    await hands.assign(card, "swift")
    await hands.offered("swift", 1)
    await hands.pod("held", "swift", **GATE)
    await hands.delete_pods("held")
    await hands.pod("bound", "swift")
    await hands.delete_pods("bound")
    await hands.capacity("swift", 1, 0, 0)
    await hands.pod("next", "swift")
    await hands.runs("next")
