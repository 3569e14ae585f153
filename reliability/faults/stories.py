"""Stories in which people wait for what they asked for before they ask for more."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from controllers.api import names

if TYPE_CHECKING:
    from reliability.faults.hands import Hands

NEW = "extra-1"
FIRST, SECOND = "base-1", "base-2"
SHARED: dict[str, Any] = {"mode": "TimeSlice", "timeSlice": {"maxSlicesPerDevice": 2}}
DIVIDED: dict[str, Any] = {"mode": "MIG", "migProfile": "3g.20gb"}
GATE: dict[str, Any] = {"schedulingGates": [{"name": "test/hold"}]}
BIG = "0000:d8:00.0"
"""The card of a node that can be divided."""


async def join(hands: Hands) -> None:
    """A node joins with two cards."""
    await hands.join(NEW)
    await hands.recorded(NEW, 2)
    await hands.ready(NEW)


async def vanish(hands: Hands) -> None:
    """A card falls off the bus and is forgotten; it comes back as new."""
    await hands.breaks(FIRST, f"card-lost:{BIG}")
    await hands.recorded(FIRST, 1)
    await hands.breaks(FIRST, None)
    await hands.recorded(FIRST, 2)
    await hands.ready(FIRST)


async def lost(hands: Hands) -> None:
    """A card that is in a pool falls off the bus, is kept as lost, and comes back."""
    card = hands.cards(FIRST)[-1]
    await hands.pool("keep")
    await hands.assign(card, "keep")
    await hands.offered("keep", 1)
    await hands.breaks(FIRST, f"card-lost:{BIG}")
    await hands.until(lambda: state(hands, card) == "Faulted", lambda: state(hands, card))
    await hands.breaks(FIRST, None)
    await hands.until(lambda: state(hands, card) == "Assigned", lambda: state(hands, card))
    await hands.offered("keep", 1)


async def recreate(hands: Hands) -> None:
    """A node is deleted and comes back under its name."""
    await hands.join(NEW)
    await hands.recorded(NEW, 2)
    await hands.leave(NEW)
    await hands.forgotten(NEW)
    await hands.join(NEW)
    await hands.recorded(NEW, 2)
    await hands.ready(NEW)


async def again(hands: Hands) -> None:
    """A node with a card in a pool is deleted and comes back: the pool is without the card, and has it again."""
    await hands.join(NEW)
    await hands.recorded(NEW, 2)
    await hands.ready(NEW)
    await hands.pool("kept")
    await hands.assign(hands.cards(NEW)[0], "kept")
    await hands.offered("kept", 1)
    await hands.leave(NEW)
    await hands.recorded(NEW, 1)
    await hands.capacity("kept", 0, 0, 0)
    await hands.join(NEW)
    await hands.recorded(NEW, 2)
    await hands.ready(NEW)
    await hands.offered("kept", 1)
    await hands.capacity("kept", 1, 0, 0)


async def driver(hands: Hands) -> None:
    """A node loses its driver and gets it back."""
    await hands.breaks(FIRST, "no-driver")
    await hands.unready(FIRST)
    await hands.breaks(FIRST, None)
    await hands.ready(FIRST)


async def pool(hands: Hands) -> None:
    """A pool is made, serves, grows, and is deleted while a pod runs."""
    first, second = hands.cards(FIRST)[0], hands.cards(SECOND)[0]
    await hands.pool("train")
    await hands.assign(first, "train")
    await hands.offered("train", 1)
    await hands.pod("one", "train")
    await hands.runs("one")
    await hands.assign(second, "train")
    await hands.offered("train", 2)
    await hands.delete_pool("train")
    await hands.delete_pods("one")
    await hands.no_pool("train")


async def reassign(hands: Hands) -> None:
    """A card goes into a pool, out of it, and into another."""
    card = hands.cards(FIRST)[0]
    await hands.pool("left")
    await hands.pool("right")
    await hands.assign(card, "left")
    await hands.offered("left", 1)
    await hands.assign(card, None)
    await hands.in_pool(card, None)
    await hands.assign(card, "right")
    await hands.offered("right", 1)


async def handover(hands: Hands) -> None:
    """A card that serves a pod is taken out of its pool, which it leaves when the pod has ended; another gets it."""
    card = hands.cards(FIRST)[0]
    await hands.pool("gives")
    await hands.pool("takes")
    await hands.assign(card, "gives")
    await hands.offered("gives", 1)
    await hands.pod("busy", "gives")
    await hands.runs("busy")
    await hands.assign(card, None)
    await hands.delete_pods("busy")
    await hands.in_pool(card, None)
    await hands.assign(card, "takes")
    await hands.offered("takes", 1)


async def burst(hands: Hands) -> None:
    """Four pods come at once for four cards."""
    await hands.pool("all", deviceAssignment={"requireAnnotation": False})
    await hands.offered("all", 4)
    await asyncio.gather(*(hands.pod(f"p-{number}", "all") for number in range(4)))
    await hands.runs(*(f"p-{number}" for number in range(4)))
    await hands.capacity("all", 4, 4, 0)


async def pairs(hands: Hands) -> None:
    """Two pods come at once, each for all cards of a node: it gets both or none."""
    await hands.pool("both", deviceAssignment={"requireAnnotation": False})
    await hands.offered("both", 4)
    await asyncio.gather(*(hands.pod(f"p-{number}", "both", 2) for number in range(2)))
    await hands.runs("p-0", "p-1")
    await hands.capacity("both", 4, 4, 0)


async def expiry(hands: Hands) -> None:
    """A card is reserved for a pod that never comes; the card is for others then."""
    card = hands.cards(FIRST)[0]
    await hands.pool("wait")
    await hands.assign(card, "wait")
    await hands.offered("wait", 1)
    await hands.ghost("never", "wait")
    await hands.released(card)
    await hands.capacity("wait", 1, 0, 0)
    await hands.pod("next", "wait")
    await hands.runs("next")


async def maintenance(hands: Hands) -> None:
    """A pool's cards are to be shared; a pod ends, the nodes follow, two pods share a card."""
    await hands.pool("mode")
    await hands.assign(hands.cards(FIRST)[0], "mode")
    await hands.offered("mode", 1)
    await hands.pod("runs", "mode")
    await hands.runs("runs")
    await hands.allocation("mode", **SHARED)
    await hands.maintenance("mode", "True", "WaitingForPods")
    await hands.delete_pods("runs")
    await hands.offered("mode", 2)
    await hands.maintenance("mode", "False")
    await hands.pod("one", "mode")
    await hands.pod("two", "mode")
    await hands.runs("one", "two")
    await hands.capacity("mode", 2, 2, 0)


async def layout(hands: Hands) -> None:
    """A card cannot be divided; it is mended, a person says so, and it is."""
    await hands.pool("mig")
    await hands.assign(hands.cards(FIRST)[-1], "mig")
    await hands.offered("mig", 1)
    await hands.breaks(FIRST, f"mig-fails:{BIG}")
    await hands.allocation("mig", **DIVIDED)
    await hands.misconfigured("mig", "True")
    await hands.breaks(FIRST, None)
    await hands.resume("mig")
    await hands.offered("mig", 2)
    await hands.maintenance("mig", "False")


async def settings(hands: Hands) -> None:
    """The settings say that cards need no confirmation, and then that they do again."""
    await hands.pool("auto")
    await hands.settings(deviceApproval={"mode": "Automatic"})
    await hands.offered("auto", 4)
    await hands.settings(deviceApproval={"mode": "Manual"})
    await hands.pod("one", "auto")
    await hands.runs("one")
    await hands.delete_pods("one")
    await hands.capacity("auto", 4, 0, 0)


async def disable(hands: Hands) -> None:
    """The module is disabled and enabled again; the pool is as it was."""
    await hands.pool("stays")
    await hands.assign(hands.cards(FIRST)[0], "stays")
    await hands.offered("stays", 1)
    await hands.settings(enabled=False)
    await hands.unready(FIRST)
    await hands.undeployed()
    await hands.settings()
    await hands.ready(FIRST, SECOND)
    await hands.offered("stays", 1)


async def dangling(hands: Hands) -> None:
    """A pool goes and leaves its name on a card, from which it is taken in time."""
    card = hands.cards(FIRST)[0]
    await hands.settings(pools={"danglingAfter": "3s"})
    await hands.pool("brief")
    await hands.assign(card, "brief")
    await hands.offered("brief", 1)
    await hands.delete_pool("brief")
    await hands.no_pool("brief")
    await hands.until(lambda: not marked(hands, card, names.ASSIGNMENT), lambda: marked(hands, card, names.ASSIGNMENT))


async def shrink(hands: Hands) -> None:
    """A pool with a pod on one of its cards gives the other back."""
    stays, goes = hands.cards(FIRST)[0], hands.cards(SECOND)[0]
    await hands.pool("less")
    await hands.assign(stays, "less")
    await hands.offered("less", 1)
    await hands.pod("one", "less")
    await hands.runs("one")
    await hands.assign(goes, "less")
    await hands.offered("less", 2)
    await hands.assign(goes, None)
    await hands.in_pool(goes, None)
    await hands.offered("less", 1)
    await hands.capacity("less", 1, 1, 0)


async def exporter(hands: Hands) -> None:
    """A node's exporter takes requests and says nothing; then it speaks again."""
    await hands.breaks(FIRST, "exporter-silent")
    await hands.unready(FIRST)
    await hands.breaks(FIRST, None)
    await hands.ready(FIRST)


async def ignored(hands: Hands) -> None:
    """A person takes a card out of an automatic pool, and lets it go back."""
    card = hands.cards(FIRST)[0]
    await hands.pool("picks", deviceAssignment={"requireAnnotation": False})
    await hands.offered("picks", 4)
    await hands.mark(card, names.LABEL_IGNORE, "true")
    await hands.in_pool(card, None)
    await hands.offered("picks", 3)
    await hands.mark(card, names.LABEL_IGNORE, None)
    await hands.offered("picks", 4)


async def returned(hands: Hands) -> None:
    """A card in a pool fails; it is mended, and a person says that it is well."""
    await hands.settings(health={"recoveryScrapes": 1000})  # only the person's word brings it back
    await hands.join(NEW)  # what a card has been through stays on record: it goes with its node
    await hands.ready(NEW)
    card = hands.cards(NEW)[-1]
    await hands.pool("keep")
    await hands.assign(card, "keep")
    await hands.offered("keep", 1)
    await hands.breaks(NEW, f"xid:{BIG}=79")
    await hands.until(lambda: state(hands, card) == "Faulted", lambda: state(hands, card))
    await hands.breaks(NEW, None)
    await hands.mark(card, names.RETURN, "true")
    await hands.until(lambda: state(hands, card) == "Assigned", lambda: state(hands, card))
    await hands.until(lambda: not marked(hands, card, names.RETURN), lambda: marked(hands, card, names.RETURN))
    await hands.offered("keep", 1)


def marked(hands: Hands, card: str, mark: str) -> str | None:
    """A card's annotation."""
    found = hands.card(card)
    return found.metadata.annotations.get(mark) if found else None


def state(hands: Hands, card: str) -> str | None:
    """A card's state."""
    found = hands.card(card)
    return found.status.state if found else None
