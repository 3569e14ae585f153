"""Refusals InsufficientCapacity: no room in the pool, or too many reservations of the namespace without a pod. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from controllers.api import names
from controllers.domain import refusals
from controllers.domain.verdict.shortage import free_slots_of, shortage
from webhook.decision.verdict import Denied

if TYPE_CHECKING:
    from collections.abc import Collection

    from controllers.api.gpupool import GPUPool
    from controllers.domain.placement.capacity import NodeCapacity
    from controllers.domain.request import PoolRequest

SOMETHING: Final = "something after this webhook, such as a ResourceQuota (exceeded quota), refuses its pods."
SHARE: Final = 4
"""A namespace with a record has one part in so many of a pool for pods that have not appeared."""
PAUSE: Final = 60.0
"""Seconds for which a large request that ended unseen counts against others as large; four times `unseenTTL`."""


@dataclass(frozen=True, slots=True)
class UnseenHistory:
    """What counts against a namespace that has a record."""

    slots: int
    """Of the pool, that are reserved now for pods of the namespace which have not appeared."""
    age: float
    """Seconds since the last reservation ended unseen."""
    largest: int = 0
    """Slots of the largest request for the pool that ended unseen in the last `PAUSE` seconds."""


def check_unseen_limit(namespace: str, unseen: int, cap: int) -> Denied | None:
    """Refuse a namespace that has too many reservations whose pods should have appeared by now."""
    if unseen < cap:
        return None
    begin = refusals.UNSEEN_LIMIT.begin(namespace=namespace, unseen=unseen)
    return Denied(
        names.INSUFFICIENT_CAPACITY,
        f"{begin}and admission.maxUnseen allows"
        f" {cap}: {SOMETHING} Mend that; the reservations end by themselves in seconds.",
    )


def check_unseen_share(
    wanted: PoolRequest, namespace: str, capacities: Collection[NodeCapacity], history: UnseenHistory | None
) -> Denied | None:
    """Refuse a namespace with a record more than a share of the pool for pods that have not appeared.

    One that is larger than the share by itself comes through alone, unless one so large was lost a moment ago.
    """
    share = max(1, sum(node.total for node in capacities) // SHARE)
    if history is None or history.slots + wanted.units <= share or (history.slots == 0 and history.largest <= share):
        return None
    begin = refusals.UNSEEN_SHARE.begin(
        namespace=namespace, age=f"{history.age:.0f}", slots=history.slots, pool=wanted.pool
    )
    return Denied(
        names.INSUFFICIENT_CAPACITY,
        f"{begin} {share} may be so at once: {SOMETHING} Mend that; what"
        f" asks for more than {share} comes through alone, {PAUSE:g} s after the last that was lost so.",
    )


def insufficient_capacity(
    wanted: PoolRequest, pool: GPUPool, capacities: Collection[NodeCapacity], node_name: str | None = None
) -> Denied:
    """Refuse a pod for which there is no room. `node_name`: the node that the pod itself names."""
    total = sum(node.total for node in capacities)
    used = sum(card.used for node in capacities for card in node.slots.cards) + sum(
        s.slots.overflow for s in capacities
    )
    reserved = sum(card.reserved for node in capacities for card in node.slots.cards) + sum(
        s.in_flight for s in capacities
    )
    free = sum(node.free for node in capacities)
    unavailable = sum(card.unavailable for node in capacities for card in node.slots.cards)
    unavailable += sum(node.slots.hidden for node in capacities)
    return Denied(
        names.INSUFFICIENT_CAPACITY,
        f"{refusals.NO_CAPACITY.begin(pool=pool.name, units=wanted.units)}{why(wanted, pool, capacities, node_name)}"
        f" (total {total}, used {used}, reserved {reserved}, unavailable {unavailable}, free {free})."
        " A controller such as ReplicaSet or Job tries again by itself, and so do Argo and Tekton (exceeded quota);"
        " a pod created by hand has to be created again when cards are free.",
    )


def why(wanted: PoolRequest, pool: GPUPool, capacities: Collection[NodeCapacity], node_name: str | None) -> str:
    """Why the pool has no cards for a pod now, as a part of a sentence."""
    named = (node_name, sum(node.free for node in capacities if node.slots.node == node_name)) if node_name else None
    has_affinity = bool(pool.spec.scheduling and pool.spec.scheduling.affinity)
    return shortage(free_slots_of(capacities), wanted.units, named=named, pool_affinity=has_affinity)
