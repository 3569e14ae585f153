"""A pool's capacity out of its nodes' slots (docs/dev/design.md, Capacity)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from controllers.api.gpupool import UNIT_OF_MODE, AllocationSpec, Capacity, ProfileCapacity

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from controllers.domain.slots import NodeSlots

LOW_SHARE = 0.1


def capacity(
    nodes: Iterable[NodeSlots], allocation: AllocationSpec, profiles: Mapping[str, Iterable[NodeSlots]] | None = None
) -> Capacity:
    """Add the nodes up. `profiles`: their slots of each profile, in a mixed layout."""
    apart = tuple(ProfileCapacity(profile=profile, **_sums(slots)) for profile, slots in (profiles or {}).items())
    return Capacity(unit=UNIT_OF_MODE[allocation.mode], **_sums(nodes), profiles=apart)


def _sums(nodes: Iterable[NodeSlots]) -> dict[str, int]:
    """What the nodes have together.

    used + reserved + unavailable + available = total, but where a node holds more than it has. What is too much on one
    node takes nothing from another, whose slots can be had all the same.
    """
    total = used = reserved = unavailable = available = 0
    for node in nodes:
        used += node.overflow
        available += node.free
        unavailable += node.hidden
        for card in node.cards:
            total += card.slots
            used += card.used
            reserved += card.reserved
            unavailable += card.unavailable
    return {
        "total": total,
        "used": used,
        "reserved": reserved,
        "unavailable": unavailable,
        "available": available,
    }


def is_low(value: Capacity) -> bool:
    """Whether less than a tenth of the slots is left."""
    return value.total > 0 and value.available < LOW_SHARE * value.total
