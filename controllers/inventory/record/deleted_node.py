"""A Node that was deleted: its GPUDevices are deleted, or kept for a while where a person annotated them. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from controllers.api import conditions as kinds
from controllers.api.resources import GPUDEVICE, NODE
from controllers.domain.approval import is_ignored
from controllers.inventory.record import conditions
from controllers.inventory.record.card_status import status_apply, transitions
from controllers.inventory.record.inventory_status import delete_inventory
from controllers.inventory.record.remembered import Retention
from controllers.runtime.plan import Apply, Delete, Plan, PlanBuilder, Precondition, Ref, ref

if TYPE_CHECKING:
    from controllers.api.gpudevice import GPUDevice
    from controllers.inventory.views import ObservedNode


def forget_node(seen: ObservedNode, memory: Retention, at: str) -> Plan:
    """The node is gone: so are its records, once a quorum read confirms it, but those of which a person said something.

    Those are marked first: whatever of this comes to pass, what was said is not lost.
    """
    draft, absent = PlanBuilder(), (Ref(NODE, seen.name),)
    there = [device for device in seen.devices if device.metadata.deletion_timestamp is None]
    kept = [device for device in there if memory.keeps(device)]
    if marks := [mark for device in kept if (mark := _mark_node_gone(device, memory, at)) is not None]:
        draft.add(Precondition(NODE, frozenset(), fields=f"metadata.name={seen.name}"), *marks)
    for device in there:
        if device not in kept:
            draft.add(Delete(ref(GPUDEVICE, device), device.metadata.resource_version, absent))
    draft.add(*delete_inventory(seen.inventory, absent))
    for device in kept:
        draft.requeue_within(max(1.0, memory.seconds_left(device)))
    return draft.build()


def _mark_node_gone(device: GPUDevice, memory: Retention, at: str) -> Apply | None:
    """The write that says of a card that its Node is gone; None where it is said."""
    since, old = memory.since(device), device.status
    of_card = {
        kinds.INVENTORY_INCOMPLETE: conditions.gone(device, since, memory.until(device)),
        kinds.IGNORED: conditions.IGNORED if is_ignored(device.metadata) else conditions.NOT_IGNORED,
    }
    made = transitions(of_card, old.conditions, at, device.metadata.generation)
    # Of a Node that is not there nobody can say whether it is managed: it stays as it was.
    made += [one for one in old.conditions if one.type == kinds.MANAGED_DISABLED]
    if old.node_gone_since == since and all(one in old.conditions for one in made):
        return None
    said = {"nodeName": old.node_name, "inventoryID": old.inventory_id, "managed": old.managed, "nodeGoneSince": since}
    return status_apply(ref(GPUDEVICE, device), said, old.hardware, made)
