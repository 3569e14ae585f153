"""One node: its pool labels, and what of it waits for a decision. Pure.

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
from controllers.domain.lifecycle import live
from controllers.domain.slots import slots_of
from controllers.gpupool import free, miglayout
from controllers.gpupool.approve import approvals, stays, withdrawals, write_off
from controllers.gpupool.pending import pending, unassigned_device, undecided
from controllers.runtime.labels import set_labels
from controllers.runtime.plan import Action, Apply, Merge, Plan, PlanBuilder, ref

if TYPE_CHECKING:
    from controllers.api.gpudevice import GPUDevice
    from controllers.gpupool.observe import ObservedNode

POOL_LABEL = names.pool_node_label("")


def plan(seen: ObservedNode, now: float, *, status_in: float = 0.0) -> Plan:
    """Plan for one node. `status_in`: seconds until what is only said, not acted on, may be written."""
    draft = PlanBuilder()
    node = seen.facts.node
    # Not by poolRef: a Node that came back in the name of one that was deleted is no pool's before its cards are known.
    members = [device for device in seen.devices if device.home is not None]
    if node is not None:
        here = {device.home for device in members if device.home is not None}
        # A plugin withdraws its cards before it goes, and the label is what keeps it there.
        served = here if seen.enabled else here & seen.operated
        wanted = dict.fromkeys(map(names.pool_node_label, sorted(served)), "true")
        ours = [key for key in node.metadata.labels if key.startswith(POOL_LABEL)]
        if (write := set_labels(ref(NODE, node), node.metadata, wanted, ours)) is not None:
            draft.add(write)
    draft.add(*_unvouched(seen, members))
    if seen.enabled:
        draft.add(*withdrawals(seen), *approvals(seen))
    said = [*_summary(seen, members, now), *(action for device in seen.free for action in free.say(seen, device, now))]
    if said and status_in > 0:
        draft.requeue_within(status_in)
    elif said:
        draft.add(*said)
    if not seen.enabled:
        return draft.build()
    for device in (one for one in seen.devices if not one.is_remembered):
        is_free = device.home is None
        left = free.dangles_for(seen, device, now) if is_free else stays(seen, device, now)
        if left is None:
            continue
        if left > 0:
            draft.requeue_within(left)
        else:
            draft.add(*(free.forget(device) if is_free else [write_off(device)]))
    draft.add(*miglayout.writes(seen, now))
    return draft.build()


def _unvouched(seen: ObservedNode, members: list[GPUDevice]) -> list[Merge]:
    """Take back what plugins said of others' pods: with the node's last card in a pool they go, and nobody looks on.

    It would keep the cards out of every pool for ever. What is true of it the plugin of the next pool finds again,
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
        for device in seen.devices
        # Of a remembered card only its inventory says anything, until it is known again.
        if device.status.foreign_allocations and not members and device.status.pool_ref is None
    ]


def _summary(seen: ObservedNode, members: list[GPUDevice], now: float) -> list[Action]:
    """What the node's inventory says of pools, where it does not say so yet."""
    inventory = seen.facts.inventory
    if inventory is None:
        return []
    pools = InventoryPools(assigned=_assigned(seen, members, now), pending=pending(seen))
    unassigned = unassigned_device(seen, pools, now)
    if pools == inventory.status.pools and unassigned == find(inventory.status.conditions, UNASSIGNED_DEVICE):
        return []
    status = {"pools": to_json(pools), "conditions": [to_json(unassigned)]}
    return [Apply(ref(GPUNODEINVENTORY, inventory), {"status": status}, "status"), *undecided(seen, unassigned)]


def _assigned(seen: ObservedNode, members: list[GPUDevice], now: float) -> tuple[AssignedPool, ...]:
    """The pools that have cards here, with the slots of those cards."""
    old = seen.facts.inventory.status.pools if seen.facts.inventory else None
    since = {entry.name: entry.since for entry in old.assigned} if old else {}
    here = {device.home for device in members if device.home is not None}
    allocations = {name: applied(seen.by_name[name]) for name in here if name in seen.by_name}
    made: dict[str, AssignedPool] = {}
    for device in members:
        if (pool := device.status.pool_ref) is None:
            continue
        allocation = allocations.get(pool.name)
        slots = slots_of(device, allocation) if allocation else 0
        reserved = sum(r.slots for r in device.status.reservations if live(r, now))
        before = made.get(pool.name)
        made[pool.name] = AssignedPool(
            name=pool.name,
            resource=pool.resource,
            slots=slots + (before.slots if before else 0),
            slots_reserved=reserved + (before.slots_reserved if before else 0),
            since=since.get(pool.name) or stamp(now),
        )
    return tuple(made[name] for name in sorted(made))
