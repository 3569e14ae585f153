"""The page To confirm: cards that wait for a person, and those that no pool takes. Pure."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from console.views.common import less, notes

if TYPE_CHECKING:
    from collections.abc import Mapping

    from console.records import Row, Seen
    from controllers.api.gpudevice import GPUDevice
    from controllers.api.gpunodeinventory import PendingCard

ORDER = ("AwaitingApproval", "OutOfSelector", "NoPoolMatched", "Declined")
"""Decisions, those first that a person can take here."""


def rows(seen: Seen, params: Mapping[str, str], now: float) -> Mapping[str, Row]:
    """A row for each card that is in no pool, by its name, those first that can be confirmed; parameters: none."""
    del params, now
    cards = {card.status.inventory_id: card for card in seen.cards.values()}
    entries: dict[str, list[PendingCard]] = defaultdict(list)
    for inventory in seen.inventories.values():
        for entry in inventory.status.pools.pending if inventory.status.pools else ():
            entries[entry.inventory_id].append(entry)
    made = [_row(cards[where], of) for where, of in entries.items() if where in cards]
    found = {row["card"]: row for row in sorted(made, key=lambda row: (ORDER.index(row["reason"]), row["card"]))}
    return found | notes(seen, "GPUDevice", "GPUNodeInventory")


def _row(card: GPUDevice, entries: list[PendingCard]) -> Row:
    hardware = card.status.hardware
    reason = min((entry.reason for entry in entries), key=ORDER.index)
    return less(
        kind="pending",
        card=card.name,
        uid=card.metadata.uid,
        inventoryID=card.status.inventory_id,
        node=card.status.node_name,
        product=hardware.product if hardware else None,
        memoryMiB=hardware.memory_mib if hardware else None,
        reason=reason,
        pools=sorted({entry.pool for entry in entries if entry.reason == reason and entry.pool}),
        since=card.metadata.creation_timestamp,
    )
