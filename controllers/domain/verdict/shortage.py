"""Why a pool has no cards for a pod now, as a part of a sentence that names no card and no pod. Pure.

Webhook, queue and `kubectl gpu` say it in these words.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from controllers.domain.verdict.records import REASONS, FreeSlots
from controllers.domain.wording import short

if TYPE_CHECKING:
    from collections.abc import Iterable

    from controllers.domain.placement.capacity import NodeCapacity
    from controllers.domain.verdict.records import CardReason, Summary


def free_slots_of(capacities: Iterable[NodeCapacity]) -> FreeSlots:
    """What the nodes of a pool have left in slots; of each those that are kept count apart."""
    total = free = most = kept = both = 0
    for capacity in capacities:
        total += capacity.total
        free += capacity.free
        kept += capacity.reserved_for_pending
        most = max(most, capacity.free)
        both = max(both, capacity.free + capacity.reserved_for_pending)
    return FreeSlots(total, free, most, kept, both, most_anywhere=most)


THEN: Final = " When this was written: "
"""What comes before the numbers of a moment, at the end of a condition's message."""
SCARCE: Final = "there are not enough free ones"
ADMITTED: Final = "pods that were admitted earlier and are still waiting to be scheduled"
"""Whom the webhook keeps free slots for."""


def shortage(
    slots: FreeSlots,
    units: int,
    *,
    named: tuple[str, int] | None = None,
    pool_affinity: bool = False,
    before: str = ADMITTED,
) -> str:
    """Why no node has so many slots for the pod.

    `named`: the node that the pod itself names, with the slots that are free there; `pool_affinity`: whether the pool
    adds a node affinity of its own; `before`: whom free slots are kept for.
    """
    if not slots.total:
        return "no card has been assigned to it yet"
    if slots.kept and slots.most_with_kept >= units > slots.most:
        return f"{slots.kept} free ones are kept for {before}"
    if slots.most_anywhere >= units:
        if named is not None and named[1] < units:
            return f"the pod names node {short(named[0])} (spec.nodeName), which has {named[1]} free"
        pools = " or the pool's affinity" if pool_affinity else ""
        return f"the nodes with enough free ones do not match the pod's node selector, affinity or tolerations{pools}"
    if slots.free >= units:
        return f"a pod's cards are on one node, and no node has more than {slots.most} free"
    return SCARCE


_WORDS: Final[dict[CardReason, str]] = {
    "OtherPool": "in other pools",
    "Leaving": "leaving the pool",
    "Faulted": "faulted",
    "Ignored": "ignored",
    "ManagedDisabled": "on nodes that are not managed",
    "InventoryIncomplete": "not known well enough",
    "NotPublished": "not offered",
    "NodeAway": "on nodes that are away",
    "NodeRefused": "on nodes that refuse the pod",
    "InUse": "in use",
    "Promised": "promised",
    "KeptFor": "kept for others",
    "TooFewHere": "free on nodes that have too few",
    "Free": "free",
}


def counted(summary: Summary) -> str:
    """`8 cards: 5 in use, 2 free on nodes that have too few, 1 faulted`; the most frequent first."""
    found = sorted(summary.cards.items(), key=lambda each: (-each[1], REASONS.index(each[0])))
    total = sum(summary.cards.values())
    noun = "card" if total == 1 else "cards"
    return (
        f"{total} {noun}: {', '.join(f'{number} {_WORDS[reason]}' for reason, number in found)}" if total else "no card"
    )


def spelled(summary: Summary) -> str:
    """The sentence with the counts, of a pod in the queue; the counts alone say that there are not enough."""
    why, numbers = shortage(summary.slots, summary.units, before="pods that are before it"), counted(summary)
    return numbers if why == SCARCE else f"{why} ({numbers})"
