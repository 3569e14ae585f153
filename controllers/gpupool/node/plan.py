"""Plans for one Node: its pool labels, approvals, its MIG layout, and `pools` of its inventory. Pure.

The labels of all pools on a node are one plan, because one field manager applies them: an
apply for one pool alone would take the others' labels away.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from controllers.api import names
from controllers.api.conditions import UNASSIGNED_DEVICE, find
from controllers.api.gpunodeinventory import AssignedPool, InventoryPools
from controllers.api.record import to_json
from controllers.api.resources import GPUDEVICE, GPUNODEINVENTORY, NODE
from controllers.domain.allocation import applied
from controllers.domain.clock import stamp
from controllers.domain.driver.node_work import work_on
from controllers.domain.lifecycle import live
from controllers.domain.slots import slots_of
from controllers.domain.usage import holds_driver
from controllers.gpupool.membership import unassigned
from controllers.gpupool.membership.approval import (
    approve_cards,
    seconds_until_write_off,
    withdraw_annotations,
    write_off_lost_card,
)
from controllers.gpupool.mig import layout
from controllers.gpupool.node.pending import pending_cards, unassigned_device, unassigned_events
from controllers.runtime.labels import set_labels
from controllers.runtime.plan import Action, Apply, Merge, Plan, PlanBuilder, ref

if TYPE_CHECKING:
    from controllers.api.gpudevice import GPUDevice
    from controllers.api.kube import Node
    from controllers.gpupool.views import ObservedNode

POOL_LABEL = names.pool_node_label("")


def plan_node(view: ObservedNode, now: float, *, status_in: float = 0.0) -> Plan:
    """The plan for one node. `status_in`: seconds until statuses, for which nobody waits, may be written."""
    draft = PlanBuilder()
    node = view.facts.node
    # Not by poolRef: a Node that came back in the name of one that was deleted is no pool's before its cards are known.
    members = [device for device in view.devices if device.home is not None]
    if node is not None:
        _label(draft, view, node, members, now)
    draft.add(*_remove_foreign_allocations(view, members))
    if view.enabled:
        draft.add(*withdraw_annotations(view), *approve_cards(view))
    status_writes = [
        *_write_inventory_pools(view, members, now),
        *(action for device in view.unassigned for action in unassigned.plan_unassigned_status(view, device, now)),
    ]
    if status_writes and status_in > 0:
        draft.requeue_within(status_in)
    elif status_writes:
        draft.add(*status_writes)
    if not view.enabled:
        return draft.build()
    for device in (one for one in view.devices if not one.is_remembered):
        is_free = device.home is None
        left = (
            unassigned.seconds_until_removal(view, device, now)
            if is_free
            else seconds_until_write_off(view, device, now)
        )
        if left is None:
            continue
        if left > 0:
            draft.requeue_within(left)
        else:
            draft.add(*(unassigned.remove_dangling_annotation(device) if is_free else [write_off_lost_card(device)]))
    draft.add(*layout.plan_layout(view, now))
    return draft.build()


def _label(draft: PlanBuilder, view: ObservedNode, node: Node, members: list[GPUDevice], now: float) -> None:
    """The labels of the pools that have cards here, by which their plugins run on the node."""
    inventory = view.facts.inventory
    work = work_on(inventory.status.driver_work if inventory is not None else None, node, now)
    if work.is_closed and work.left > 0:
        draft.requeue_within(work.left)
    # A plugin withdraws its cards before it goes, MPS daemons end, and the label is what keeps them there. Then it goes
    # where the driver is changed, which they hold open.
    there = [device for device in members if _is_held(device) or not work.is_closed]
    here = {device.home for device in there if device.home is not None}
    served = here if view.enabled else here & view.pools_with_daemonsets
    labels = dict.fromkeys(map(names.pool_node_label, sorted(served)), "true")
    ours = [key for key in node.metadata.labels if key.startswith(POOL_LABEL)]
    if (write := set_labels(ref(NODE, node), node.metadata, labels, ours)) is not None:
        draft.add(write)


def _is_held(device: GPUDevice) -> bool:
    """Whether a plugin offers the card still, or an MPS daemon runs on it.

    Nobody waits for the compute mode that a daemon has left: it ends with the driver, and without a driver it could not
    be put back.
    """
    return device.status.published is not None or holds_driver(device)


def _remove_foreign_allocations(view: ObservedNode, members: list[GPUDevice]) -> list[Merge]:
    """Remove `foreignAllocations` with the node's last card in a pool: no plugin is left to keep them true.

    They would keep the cards out of every pool for ever. What is true of them the plugin of the next pool finds again,
    before it offers a card.
    """
    return [
        Merge(
            ref(GPUDEVICE, device),
            device.metadata.resource_version,
            {"status": {"foreignAllocations": None}},
            "status",
            parallel_safe=True,
        )
        for device in view.devices
        # Of a remembered card only inventory writes anything, until it is recognised.
        if device.status.foreign_allocations and not members and device.status.pool_ref is None
    ]


def _write_inventory_pools(view: ObservedNode, members: list[GPUDevice], now: float) -> list[Action]:
    """`pools` of the node's inventory and condition UnassignedDevice, where they differ."""
    inventory = view.facts.inventory
    if inventory is None:
        return []
    pools = InventoryPools(assigned=_assigned_pools(view, members, now), pending=pending_cards(view))
    unassigned = unassigned_device(view, pools, now)
    if pools == inventory.status.pools and unassigned == find(inventory.status.conditions, UNASSIGNED_DEVICE):
        return []
    status = {"pools": to_json(pools), "conditions": [to_json(unassigned)]}
    return [
        Apply(ref(GPUNODEINVENTORY, inventory), {"status": status}, "status"),
        *unassigned_events(view, pools, unassigned),
    ]


def _assigned_pools(view: ObservedNode, members: list[GPUDevice], now: float) -> tuple[AssignedPool, ...]:
    """The pools that have cards here, with the slots of those cards."""
    old = view.facts.inventory.status.pools if view.facts.inventory else None
    since = {entry.name: entry.since for entry in old.assigned} if old else {}
    here = {device.home for device in members if device.home is not None}
    allocations = {name: applied(view.by_name[name]) for name in here if name in view.by_name}
    entries: dict[str, AssignedPool] = {}
    for device in members:
        if (pool := device.status.pool_ref) is None:
            continue
        allocation = allocations.get(pool.name)
        slots = slots_of(device, allocation) if allocation else 0
        reserved = sum(r.slots for r in device.status.reservations if live(r, now))
        before = entries.get(pool.name)
        entries[pool.name] = AssignedPool(
            name=pool.name,
            resource=pool.resource,
            slots=slots + (before.slots if before else 0),
            slots_reserved=reserved + (before.slots_reserved if before else 0),
            since=since.get(pool.name) or stamp(now),
        )
    return tuple(entries[name] for name in sorted(entries))
