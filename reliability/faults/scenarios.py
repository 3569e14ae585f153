"""Scenarios in which users wait for what they asked for before they ask for more."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from controllers.api import names

if TYPE_CHECKING:
    from reliability.faults.actors import Actors

NEW = "extra-1"
FIRST, SECOND = "base-1", "base-2"
SHARED: dict[str, Any] = {"mode": "TimeSlice", "timeSlice": {"maxSlicesPerDevice": 2}}
DIVIDED: dict[str, Any] = {"mode": "MIG", "migProfile": "3g.20gb"}
GATE: dict[str, Any] = {"schedulingGates": [{"name": "test/hold"}]}
BIG = "0000:d8:00.0"
"""The card of a node that can be divided."""


async def join(actors: Actors) -> None:
    """A node joins with two cards."""
    await actors.join(NEW)
    await actors.recorded(NEW, 2)
    await actors.ready(NEW)


async def vanish(actors: Actors) -> None:
    """A card falls off the bus and is forgotten; it comes back as new."""
    await actors.breaks(FIRST, f"card-lost:{BIG}")
    await actors.recorded(FIRST, 1)
    await actors.breaks(FIRST, None)
    await actors.recorded(FIRST, 2)
    await actors.ready(FIRST)


async def lost(actors: Actors) -> None:
    """A card that is in a pool falls off the bus, is kept as lost, and comes back."""
    await actors.join(NEW)  # what a card has been through stays on record: it goes with its node
    await actors.ready(NEW)
    card = actors.cards(NEW)[-1]
    await actors.pool("keep")
    await actors.assign(card, "keep")
    await actors.offered("keep", 1)
    await actors.breaks(NEW, f"card-lost:{BIG}")
    await actors.until(lambda: state(actors, card) == "Faulted", lambda: state(actors, card))
    await actors.breaks(NEW, None)
    await actors.until(lambda: state(actors, card) == "Assigned", lambda: state(actors, card))
    await actors.offered("keep", 1)


async def recreate(actors: Actors) -> None:
    """A node is deleted and comes back under its name."""
    await actors.join(NEW)
    await actors.recorded(NEW, 2)
    await actors.leave(NEW)
    await actors.forgotten(NEW)
    await actors.join(NEW)
    await actors.recorded(NEW, 2)
    await actors.ready(NEW)


async def again(actors: Actors) -> None:
    """A node with a card in a pool is deleted and comes back: the pool is without the card, and has it again."""
    await actors.join(NEW)
    await actors.recorded(NEW, 2)
    await actors.ready(NEW)
    await actors.pool("kept")
    await actors.assign(actors.cards(NEW)[0], "kept")
    await actors.offered("kept", 1)
    await actors.leave(NEW)
    await actors.forgotten(NEW, kept=1)
    await actors.capacity("kept", 0, 0, 0)
    await actors.join(NEW)
    await actors.recorded(NEW, 2)
    await actors.ready(NEW)
    await actors.offered("kept", 1)
    await actors.capacity("kept", 1, 0, 0)


async def driver(actors: Actors) -> None:
    """A node loses its driver and gets it back."""
    await actors.breaks(FIRST, "no-driver")
    await actors.unready(FIRST)
    await actors.breaks(FIRST, None)
    await actors.ready(FIRST)


async def pool(actors: Actors) -> None:
    """A pool is made, serves, grows, and is deleted while a pod runs."""
    first, second = actors.cards(FIRST)[0], actors.cards(SECOND)[0]
    await actors.pool("train")
    await actors.assign(first, "train")
    await actors.offered("train", 1)
    await actors.pod("one", "train")
    await actors.runs("one")
    await actors.assign(second, "train")
    await actors.offered("train", 2)
    await actors.delete_pool("train")
    await actors.delete_pods("one")
    await actors.no_pool("train")


async def reassign(actors: Actors) -> None:
    """A card goes into a pool, out of it, and into another."""
    card = actors.cards(FIRST)[0]
    await actors.pool("left")
    await actors.pool("right")
    await actors.assign(card, "left")
    await actors.offered("left", 1)
    await actors.assign(card, None)
    await actors.in_pool(card, None)
    await actors.assign(card, "right")
    await actors.offered("right", 1)


async def handover(actors: Actors) -> None:
    """A card that serves a pod is taken out of its pool, which it leaves when the pod has ended; another gets it."""
    card = actors.cards(FIRST)[0]
    await actors.pool("gives")
    await actors.pool("takes")
    await actors.assign(card, "gives")
    await actors.offered("gives", 1)
    await actors.pod("busy", "gives")
    await actors.runs("busy")
    await actors.assign(card, None)
    await actors.delete_pods("busy")
    await actors.in_pool(card, None)
    await actors.assign(card, "takes")
    await actors.offered("takes", 1)


async def burst(actors: Actors) -> None:
    """Four pods come at once for four cards."""
    await actors.pool("all", deviceAssignment={"requireAnnotation": False})
    await actors.offered("all", 4)
    await asyncio.gather(*(actors.pod(f"p-{number}", "all") for number in range(4)))
    await actors.runs(*(f"p-{number}" for number in range(4)))
    await actors.capacity("all", 4, 4, 0)


async def pairs(actors: Actors) -> None:
    """Two pods come at once, each for all cards of a node: it gets both or none."""
    await actors.pool("both", deviceAssignment={"requireAnnotation": False})
    await actors.offered("both", 4)
    await asyncio.gather(*(actors.pod(f"p-{number}", "both", 2) for number in range(2)))
    await actors.runs("p-0", "p-1")
    await actors.capacity("both", 4, 4, 0)


async def expiry(actors: Actors) -> None:
    """A card is reserved for a pod that never comes; the card is for others then."""
    card = actors.cards(FIRST)[0]
    # One that refuses always reserves at once; in another a pod whose write is slow waits, and nothing is reserved.
    await actors.pool("wait", queue={"onShortage": "Refuse"})
    await actors.assign(card, "wait")
    await actors.offered("wait", 1)
    await actors.ghost("never", "wait")
    await actors.released(card)
    await actors.capacity("wait", 1, 0, 0)
    await actors.pod("next", "wait")
    await actors.runs("next")


async def maintenance(actors: Actors) -> None:
    """A pool's cards are to be shared; a pod ends, the nodes follow, two pods share a card."""
    await actors.pool("mode")
    await actors.assign(actors.cards(FIRST)[0], "mode")
    await actors.offered("mode", 1)
    await actors.pod("runs", "mode")
    await actors.runs("runs")
    await actors.allocation("mode", **SHARED)
    await actors.maintenance("mode", "True", "WaitingForPods")
    await actors.delete_pods("runs")
    await actors.offered("mode", 2)
    await actors.maintenance("mode", "False")
    await actors.pod("one", "mode")
    await actors.pod("two", "mode")
    await actors.runs("one", "two")
    await actors.capacity("mode", 2, 2, 0)


async def layout(actors: Actors) -> None:
    """A card cannot be divided; it is mended, a person says so, and it is."""
    await actors.pool("mig")
    await actors.assign(actors.cards(FIRST)[-1], "mig")
    await actors.offered("mig", 1)
    await actors.breaks(FIRST, f"mig-fails:{BIG}")
    await actors.allocation("mig", **DIVIDED)
    await actors.misconfigured("mig", "True")
    await actors.breaks(FIRST, None)
    await actors.resume("mig")
    await actors.offered("mig", 2)
    await actors.maintenance("mig", "False")


async def settings(actors: Actors) -> None:
    """The settings say that cards need no confirmation, and then that they do again."""
    await actors.pool("auto")
    await actors.settings(deviceApproval={"mode": "Automatic"})
    await actors.offered("auto", 4)
    await actors.settings(deviceApproval={"mode": "Manual"})
    # Both cards of a node: which one of four alike it got would be luck, and decide how often each is written.
    await actors.pod("one", "auto", 2, nodeSelector={names.LABEL_HOSTNAME: FIRST})
    await actors.runs("one")
    await actors.delete_pods("one")
    await actors.capacity("auto", 4, 0, 0)


async def disable(actors: Actors) -> None:
    """The module is disabled and enabled again; the pool is as it was."""
    await actors.pool("stays")
    await actors.assign(actors.cards(FIRST)[0], "stays")
    await actors.offered("stays", 1)
    await actors.settings(enabled=False)
    await actors.unready(FIRST)
    await actors.undeployed()
    await actors.settings()
    await actors.ready(FIRST, SECOND)
    await actors.offered("stays", 1)


async def dangling(actors: Actors) -> None:
    """A pool goes and leaves its name on a card, from which it is taken in time."""
    card = actors.cards(FIRST)[0]
    await actors.settings(pools={"danglingAfter": "3s"})
    await actors.pool("brief")
    await actors.assign(card, "brief")
    await actors.offered("brief", 1)
    await actors.delete_pool("brief")
    await actors.no_pool("brief")
    await actors.until(
        lambda: not marked(actors, card, names.ASSIGNMENT), lambda: marked(actors, card, names.ASSIGNMENT)
    )


async def shrink(actors: Actors) -> None:
    """A pool with a pod on one of its cards gives the other back."""
    stays, goes = actors.cards(FIRST)[0], actors.cards(SECOND)[0]
    await actors.pool("less")
    await actors.assign(stays, "less")
    await actors.offered("less", 1)
    await actors.pod("one", "less")
    await actors.runs("one")
    await actors.assign(goes, "less")
    await actors.offered("less", 2)
    await actors.assign(goes, None)
    await actors.in_pool(goes, None)
    await actors.offered("less", 1)
    await actors.capacity("less", 1, 1, 0)


async def exporter(actors: Actors) -> None:
    """A node's exporter takes requests and says nothing; then it speaks again."""
    await actors.breaks(FIRST, "exporter-silent")
    await actors.unready(FIRST)
    await actors.breaks(FIRST, None)
    await actors.ready(FIRST)


async def ignored(actors: Actors) -> None:
    """A person takes a card out of an automatic pool, and lets it go back."""
    card = actors.cards(FIRST)[0]
    await actors.pool("picks", deviceAssignment={"requireAnnotation": False})
    await actors.offered("picks", 4)
    await actors.mark(card, names.LABEL_IGNORE, "true")
    await actors.in_pool(card, None)
    await actors.offered("picks", 3)
    await actors.mark(card, names.LABEL_IGNORE, None)
    await actors.offered("picks", 4)


async def returned(actors: Actors) -> None:
    """A card in a pool fails; it is mended, and a person says that it is well."""
    await actors.settings(health={"recoveryScrapes": 1000})  # only the person's word brings it back
    await actors.join(NEW)  # what a card has been through stays on record: it goes with its node
    await actors.ready(NEW)
    card = actors.cards(NEW)[-1]
    await actors.pool("keep")
    await actors.assign(card, "keep")
    await actors.offered("keep", 1)
    await actors.breaks(NEW, f"xid:{BIG}=79")
    await actors.until(lambda: state(actors, card) == "Faulted", lambda: state(actors, card))
    await actors.breaks(NEW, None)
    await actors.mark(card, names.RETURN, "true")
    await actors.until(lambda: state(actors, card) == "Assigned", lambda: state(actors, card))
    await actors.until(lambda: not marked(actors, card, names.RETURN), lambda: marked(actors, card, names.RETURN))
    await actors.offered("keep", 1)


def marked(actors: Actors, card: str, mark: str) -> str | None:
    """A card's annotation."""
    found = actors.card(card)
    return found.metadata.annotations.get(mark) if found else None


def state(actors: Actors, card: str) -> str | None:
    """A card's state."""
    found = actors.card(card)
    return found.status.state if found else None
