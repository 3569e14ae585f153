"""What pending pods can use of a pool's free slots, which newcomers leave them. Pure."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from controllers.domain import waiting as queue

if TYPE_CHECKING:
    from collections.abc import Iterable

    from controllers.domain.placement.capacity import NodeCapacity
    from controllers.domain.waiting import PendingPod

PENDING_WORK_MAX: Final = 100_000
"""Labels, expressions, values and tolerations of pending pods that one review compares with nodes: tens of ms."""


def reserve_for_pending(capacities: Iterable[NodeCapacity], pending: Iterable[PendingPod]) -> list[NodeCapacity]:
    """The same nodes less what pending pods can use, the longest waiting first, as far as `PENDING_WORK_MAX` allows."""
    entries = {capacity.slots.node: capacity for capacity in capacities}
    there = (
        queue.NodeCapacity(capacity.node, capacity.free, capacity.total)
        for capacity in entries.values()
        if capacity.node is not None
    )
    rooms = queue.NodeCapacities(there, PENDING_WORK_MAX)
    for pod in pending:
        if not rooms:
            break
        if (room := rooms.take(pod)) is None:
            continue
        capacity, units = entries[room.node.name], min(pod.units, room.free)
        entries[room.node.name] = replace(
            capacity, free=capacity.free - units, reserved_for_pending=capacity.reserved_for_pending + units
        )
    return list(entries.values())
