"""The GPUNodeInventory of a node: its cards' summary and conditions as writes. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from controllers.api import conditions as kinds
from controllers.api import names
from controllers.api.gpunodeinventory import GPUNodeInventory, InventoryCard, InventoryHardware
from controllers.api.record import to_json
from controllers.api.resources import GPUNODEINVENTORY
from controllers.inventory import identity
from controllers.inventory.record.card_status import transitions
from controllers.inventory.record.desired import Decision
from controllers.inventory.record.events import condition_event
from controllers.runtime.plan import Apply, Delete, PlanBuilder, Ref, ref

if TYPE_CHECKING:
    from controllers.inventory.views import ObservedNode


def delete_inventory(found: GPUNodeInventory | None, absent: tuple[Ref, ...] = ()) -> tuple[Delete, ...]:
    """Delete the object of a node without cards; `absent`: objects that a quorum read must not find first."""
    if found is None or found.metadata.deletion_timestamp is not None:
        return ()
    return (Delete(ref(GPUNODEINVENTORY, found), found.metadata.resource_version, absent),)


def write_inventory(draft: PlanBuilder, seen: ObservedNode, decision: Decision, at: str) -> None:
    """Add the writes of the node's GPUNodeInventory, and the Events about its conditions."""
    found = seen.inventory
    if found is not None and found.metadata.deletion_timestamp is not None:
        return
    about = Ref(GPUNODEINVENTORY, seen.name, uid=found.metadata.uid if found else None)
    if found is None or found.spec is None or found.spec.node_name != seen.name:
        draft.add(Apply(about, {"spec": {"nodeName": seen.name}}))
    hardware = _hardware(seen.name, decision)
    old = found.status if found else None
    made = transitions(
        decision.conditions, old.conditions if old else (), at, found.metadata.generation if found else 1
    )
    if old is not None and old.hw == hardware and all(one in old.conditions for one in made):
        return
    status = {"hw": to_json(hardware), "conditions": [to_json(one) for one in made]}
    draft.add(Apply(about, {"status": status}, "status"))
    for one in made:
        before = kinds.find(old.conditions, one.type) if old else None
        if (note := condition_event(about, before, one, decision.report)) is not None:
            draft.add(note)


def _hardware(node: str, decision: Decision) -> InventoryHardware:
    devices = tuple(
        InventoryCard(
            name=identity.device_name(node, card.address),
            inventory_id=identity.inventory_id(node, card.address),
            address=card.address,
            product=card.hardware.product if card.hardware else None,
            memory_mib=card.hardware.memory_mib if card.hardware else None,
        )
        for card in decision.cards[: names.CARDS_MAX]
    )
    return InventoryHardware(present=decision.present, devices=devices)
