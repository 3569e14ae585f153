"""The page Card: what it is, its conditions, who has it and had it, its health, and commands to copy. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from console.views.cards import awaiting, holders, square
from console.views.common import cells_of, condition_row, explanation_row, less, missing, notes
from console.views.timeline import timeline
from controllers.api import names
from controllers.api.record import to_json
from controllers.domain.approval import is_ignored
from controllers.domain.assignment import assigned_pool
from controllers.domain.eligibility.checks import unmarking
from controllers.explain import card as explain
from controllers.explain.records import Unreadable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from console.records import Row, Seen
    from controllers.api.gpudevice import GPUDevice
    from controllers.api.gpunodeinventory import GPUNodeInventory


def rows(seen: Seen, params: Mapping[str, str], now: float) -> Mapping[str, Row]:
    """`card`, its conditions, holders, time line, decisions, health and commands; parameter `card`."""
    (name,) = cells_of(params, "card")
    card = seen.cards.get(name)
    if card is None:
        return missing("GPUDevice", name, seen.cards) | notes(seen, "GPUDevice")
    found: dict[str, Row] = {"card": _card(card, seen, now)}
    found |= {f"condition/{c.type}": condition_row("GPUDevice", name, c) for c in card.status.conditions}
    found |= holders(card, seen, now)
    found |= timeline(card, seen)
    found |= _pending(card, seen)
    if card.status.health is not None:
        found["health"] = {"kind": "health"} | to_json(card.status.health)
    found |= {f"command/{what}": _command(what, command) for what, command in _commands(card, seen).items()}
    return found | notes(seen, "GPUNodeInventory")


def _card(card: GPUDevice, seen: Seen, now: float) -> Row:
    status, hardware = card.status, card.status.hardware
    inventory = _inventory(card, seen)
    verdict = explanation_row(explain.explained(explain.CardSeen(card, inventory, now)), seen)["verdict"]
    shown, waiting = square(card, now), awaiting(seen.inventories.get(status.node_name or ""))
    return less(
        kind="card",
        card=card.name,
        inventoryID=status.inventory_id,
        node=status.node_name,
        state="Pending" if shown == "Unassigned" and status.inventory_id in waiting else shown,
        pool=status.pool_ref.name if status.pool_ref else None,
        assigned=assigned_pool(card),
        verdict=verdict,
        product=hardware.product if hardware else None,
        memoryMiB=hardware.memory_mib if hardware else None,
        uuid=hardware.uuid if hardware else None,
        numaNode=hardware.numa_node if hardware else None,
        pci=hardware.pci.address if hardware else None,
        peers=list(hardware.nvlink.peers) if hardware and hardware.nvlink else None,
        mig=[f"{each.count} x {each.name}" for each in hardware.mig.types] if hardware and hardware.mig else None,
        slots=status.published.slots if status.published else None,
        offer=status.offer,
        lostSince=status.lost_since,
        created=card.metadata.creation_timestamp,
    )


def _inventory(card: GPUDevice, seen: Seen) -> GPUNodeInventory | Unreadable | None:
    refused = seen.refused.get("GPUNodeInventory")
    return Unreadable(refused) if refused is not None else seen.inventories.get(card.status.node_name or "")


def _pending(card: GPUDevice, seen: Seen) -> dict[str, Row]:
    """What somebody has yet to decide about it."""
    inventory = seen.inventories.get(card.status.node_name or "")
    pools = inventory.status.pools if inventory is not None else None
    return {
        f"pending/{entry.pool or ''}": less(kind="pending", pool=entry.pool, reason=entry.reason)
        for entry in (pools.pending if pools is not None else ())
        if entry.inventory_id == card.status.inventory_id
    }


def _command(what: str, command: str) -> Row:
    return {"kind": "command", "what": what, "command": command}


def _commands(card: GPUDevice, seen: Seen) -> dict[str, str]:
    """Commands that change something about the card, or say more, by what they do."""
    name, home = card.name, assigned_pool(card)
    wanted = [row["pool"] for row in _pending(card, seen).values() if row["reason"] == "AwaitingApproval"]
    found = {"explain": f"kubectl gpu explain card {name}"}
    if home is not None:
        found["unassign"] = f"kubectl gpu unassign {name}"
    else:
        found["assign"] = f"kubectl gpu assign {name} {wanted[0] if wanted else '<pool>'}"
    if is_ignored(card.metadata):
        found["unignore"] = unmarking(card)
    else:
        found["ignore"] = f"kubectl label gpudevice {name} {names.LABEL_IGNORE}=true"
    return found
