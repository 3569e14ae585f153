"""What is reserved for the pods of a pool's queue: for which it is enough, and what others have of theirs. Pure."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from controllers.domain.queue.supply import suffices
from controllers.explain.records import Unreadable

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from controllers.api.gpudevice import GPUDevice, Reservation
    from controllers.domain.queue.entry import Entry, Member
    from controllers.explain.queue_seen import QueueSeen

    Reservations = Mapping[str, list[tuple[GPUDevice, Reservation]]]
    """Live ones with their cards, by request."""


def split_served(
    seen: QueueSeen, queued: Iterable[Entry], by_request: Reservations
) -> tuple[list[Entry], dict[str, str]]:
    """The entries that are yet to be served; and the node of each pod whose cards are reserved, by the pod's key."""
    entries: list[Entry] = []
    promised: dict[str, str] = {}
    for entry in queued:
        nodes = [_promised_node(seen, member, by_request.get(member.request_id, [])) for member in entry.members]
        if all(node is not None for node in nodes):
            promised |= {member.key: node or "" for member, node in zip(entry.members, nodes, strict=True)}
        else:
            entries.append(entry)
    return entries, promised


def count_reserved(entries: Iterable[Entry], by_request: Reservations) -> dict[str, dict[str, int]]:
    """What is reserved for pods of the entries, which need more: slots by node, by the pod's key."""
    return {
        member.key: _by_node(by_request[member.request_id])
        for entry in entries
        for member in entry.members
        if member.request_id in by_request
    }


def _promised_node(seen: QueueSeen, member: Member, reserved: list[tuple[GPUDevice, Reservation]]) -> str | None:
    """The node on which a pod's cards are reserved, so that it is released next; None where they are not."""
    if isinstance(seen.nodes_read, Unreadable):
        is_promised = sum(each.slots for _, each in reserved) >= member.units
    else:
        is_promised = suffices(seen, member, reserved)
    return reserved[0][0].status.node_name or "" if is_promised else None


def _by_node(reserved: Iterable[tuple[GPUDevice, Reservation]]) -> dict[str, int]:
    """Slots of reservations by the node of their cards."""
    found: Counter[str] = Counter()
    for device, each in reserved:
        found[device.status.node_name or ""] += each.slots
    return found
