"""Scenarios in which pods wait in their pools' queues: nobody is refused, and everybody gets cards in the end."""

from __future__ import annotations

from typing import TYPE_CHECKING

from controllers.api.gangs import GANG, GANG_SIZE
from reliability.faults import later_webhook
from reliability.faults.scenarios import FIRST, GATE, SECOND

if TYPE_CHECKING:
    from reliability.faults.actors import Actors

GANG_OF_TWO: dict[str, str] = {GANG: "run", GANG_SIZE: "2"}


async def _full(actors: Actors, pool: str) -> None:
    """A pool of one card, which a pod has."""
    await actors.pool(pool)
    await actors.assign(actors.cards(FIRST)[0], pool)
    await actors.offered(pool, 1)
    await actors.pod("has", pool)
    await actors.runs("has")


async def queue(actors: Actors) -> None:
    """Two pods wait for the one card of a pool, and get it one after the other."""
    await _full(actors, "line")
    for name in ("one", "two"):
        await actors.pod(name, "line")
        await actors.waits(name, "Waiting")
    await actors.delete_pods("has")
    await actors.runs("one")
    await actors.delete_pods("one")
    await actors.runs("two")
    await actors.capacity("line", 1, 1, 0)


async def gang(actors: Actors) -> None:
    """Two pods that are of use only together wait for each other, and then until there are cards for both."""
    pool = "together"
    await actors.pool(pool)
    for node in (FIRST, SECOND):
        await actors.assign(actors.cards(node)[0], pool)
    await actors.offered(pool, 2)
    await actors.pod("p-1", pool, metadata={"annotations": GANG_OF_TWO})
    await actors.waits("p-1", "WaitingForGang")
    await actors.pod("has", pool)
    await actors.runs("has")
    await actors.pod("p-2", pool, metadata={"annotations": GANG_OF_TWO})
    await actors.waits("p-2", "Waiting")
    await actors.delete_pods("has")
    await actors.runs("p-1", "p-2")
    await actors.capacity(pool, 2, 2, 0)


async def foreign(actors: Actors) -> None:
    """Pods behind gates of others hold no card, and another has it meanwhile.

    One brings its gate, the other gets it from a webhook that is asked when ours has reserved a card.
    """
    pool, card = "theirs", actors.cards(FIRST)[0]
    await actors.pool(pool)
    await actors.assign(card, pool)
    await actors.offered(pool, 1)
    await actors.pod("brought", pool, **GATE)
    await actors.waits("brought", "OtherGates")
    await actors.pod("later", pool, metadata={"labels": later_webhook.LABEL})
    await actors.unreserved(card)
    await actors.pod("ours", pool)
    await actors.runs("ours")
    await actors.delete_pods("ours")
    await actors.ungate("brought", GATE["schedulingGates"][0]["name"])
    await actors.runs("brought")
    await actors.delete_pods("brought")
    await actors.ungate("later", later_webhook.GATE)
    await actors.runs("later")
    await actors.capacity(pool, 1, 1, 0)


async def limit(actors: Actors) -> None:
    """A namespace has as much of a pool as its limit, though more is free."""
    pool, limits = "capped", [{"name": "team", "limit": 1}]
    await actors.pool(pool, queue={"namespaces": limits})
    for card in actors.cards(FIRST):
        await actors.assign(card, pool)
    await actors.offered(pool, 2)
    await actors.pod("p-1", pool)
    await actors.runs("p-1")
    await actors.pod("p-2", pool)
    await actors.waits("p-2", "OverLimit")
    await actors.delete_pods("p-1")
    await actors.runs("p-2")
    await actors.delete_pods("p-2")
    await actors.capacity(pool, 2, 0, 0)


async def disable(actors: Actors) -> None:
    """The module is disabled while a pod waits: it keeps its place, and has the card once the module is enabled."""
    await _full(actors, "closed")
    await actors.pod("waits", "closed")
    await actors.waits("waits", "Waiting")
    await actors.settings(enabled=False)
    await actors.unready(FIRST)
    await actors.undeployed()
    await actors.delete_pods("has")
    await actors.settings()
    await actors.ready(FIRST, SECOND)
    await actors.offered("closed", 1)
    await actors.runs("waits")


async def pool_gone(actors: Actors) -> None:
    """A pool is deleted while a pod waits for it, and comes back: the pod gets its card."""
    await _full(actors, "leaves")
    await actors.pod("waits", "leaves")
    await actors.waits("waits", "Waiting")
    await actors.delete_pool("leaves")
    await actors.waits("waits", "PoolClosed")
    await actors.delete_pods("has")
    await actors.no_pool("leaves")
    await actors.pool("leaves")
    await actors.offered("leaves", 1)
    await actors.runs("waits")
    await actors.capacity("leaves", 1, 1, 0)
