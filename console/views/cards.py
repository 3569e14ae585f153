"""A card as the pages show it: the state of its square, and who has it. Pure."""

from __future__ import annotations

from collections import defaultdict
from math import inf
from typing import TYPE_CHECKING, Any, Literal

from console.views.common import less
from controllers.domain.clock import seconds
from controllers.domain.issuing import blocked_by, not_issued
from controllers.domain.lifecycle import live
from controllers.domain.near import locations

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from console.records import Row, Seen
    from controllers.api.gpudevice import Allocation, ForeignAllocation, GPUDevice, Reservation
    from controllers.api.gpunodeinventory import GPUNodeInventory

Square = Literal["Free", "InUse", "Promised", "Faulted", "Blocked", "NotOffered", "Leaving", "Pending", "Unassigned"]
"""What a card's square shows, the first that holds of: kept out of service, in no pool, leaving, used, promised."""


def square(card: GPUDevice, now: float) -> Square:
    """The state of a card's square; whether it waits for a person is not known to the card itself."""
    status, blocked = card.status, blocked_by(card)
    if blocked is not None:
        return "Faulted" if blocked.type == "Faulted" else "Blocked"
    if status.foreign_allocations:
        return "Blocked"
    if status.pool_ref is None:
        return "Unassigned"
    kept = not_issued(card, status.pool_ref.name)
    return "Leaving" if kept == "Leaving" else _in_service(card, now, is_offered=kept is None)


def _in_service(card: GPUDevice, now: float, *, is_offered: bool) -> Square:
    if card.status.allocations:
        return "InUse"
    if not is_offered:
        return "NotOffered"
    return "Promised" if any(live(one, now) for one in card.status.reservations) else "Free"


def changes_at(card: GPUDevice, now: float) -> float:
    """Until when time alone does not change a card's square, epoch seconds; infinity where it never does."""
    ends = (seconds(one.expires_at) for one in card.status.reservations if live(one, now))
    return min(ends, default=inf)


def awaiting(inventory: GPUNodeInventory | None) -> frozenset[str]:
    """The inventoryIDs of a node's cards that wait for somebody to confirm them."""
    pools = inventory.status.pools if inventory is not None else None
    return frozenset(
        entry.inventory_id for entry in (pools.pending if pools else ()) if entry.reason == "AwaitingApproval"
    )


def square_row(card: GPUDevice, pending: Collection[str], link: str, now: float) -> Row:
    """A card's square, with what the fleet is filtered by."""
    status, shown = card.status, square(card, now)
    if shown == "Unassigned" and status.inventory_id in pending:
        shown = "Pending"
    hardware, published = status.hardware, status.published
    slots = published.slots if published is not None else 0
    return less(
        state=shown,
        pool=status.pool_ref.name if status.pool_ref else None,
        product=hardware.product if hardware else None,
        link=link,
        slots=slots if slots > 1 else None,
        used=sum(one.slots for one in status.allocations) if slots > 1 else None,
    )


def links(cards: Iterable[GPUDevice]) -> dict[str, str]:
    """For cards of one node that share an NVLink group with another: the group's number, by the card's name."""
    groups: dict[str, list[str]] = defaultdict(list)
    for name, location in locations(cards).items():
        groups[location.link].append(name)
    shared = sorted(names for names in groups.values() if len(names) > 1)
    return {name: str(at) for at, names in enumerate(shared) for name in names}


def holders(card: GPUDevice, seen: Seen, now: float) -> dict[str, Row]:
    """Who has the card or is promised it, those in namespaces that may not be read counted in one row."""
    found: dict[str, Row] = {}
    others = 0
    for row in _holders(card, now):
        if seen.may_read(row.get("namespace", "")):
            cells = (row["how"], row["namespace"], row["pod"], row.get("container", ""))
            found["/".join(("holder", *cells))] = row
        else:
            others += 1
    if others:
        found["holder/?"] = {"kind": "hidden", "of": "Pod", "count": others}
    return found


def _holders(card: GPUDevice, now: float) -> Iterator[Row]:
    """Who has it by the module's resource or another one's, and who is promised it."""
    for one in card.status.allocations:
        yield _holder("has", one, container=one.container, slots=one.slots)
    for taken in card.status.foreign_allocations:
        yield _holder("foreign", taken, container=taken.container, resource=taken.resource)
    for held in card.status.reservations:
        if live(held, now):
            yield _holder("promised", held, slots=held.slots, since=held.since, until=held.expires_at)


def _holder(how: str, one: Allocation | ForeignAllocation | Reservation, **more: Any) -> Row:
    return less(kind="holder", how=how, namespace=one.namespace, pod=one.pod, **more)
