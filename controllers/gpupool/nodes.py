"""One node: its pool labels, and what of it waits for a decision. Pure.

The labels of all pools on a node are one plan, because one field manager applies them: an
apply for one pool alone would take the others' labels away.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from controllers.api import names
from controllers.api.conditions import IGNORED, UNASSIGNED_DEVICE, condition, find, is_true
from controllers.api.gpunodeinventory import AssignedPool, InventoryPools, PendingCard
from controllers.api.record import to_json
from controllers.api.resources import GPUNODEINVENTORY, NODE
from controllers.domain.clock import stamp
from controllers.domain.lifecycle import live
from controllers.domain.slots import slots_of
from controllers.gpupool.select import SERVED_MODES, claim, has_room, hint, is_automatic, selected, unfit
from controllers.runtime.labels import set_labels
from controllers.runtime.plan import Apply, Draft, Plan, ref

if TYPE_CHECKING:
    from controllers.api.gpudevice import GPUDevice
    from controllers.api.gpupool import GPUPool
    from controllers.api.meta import Condition
    from controllers.gpupool.observe import ObservedNode

POOL_LABEL = names.pool_node_label("")


def plan(seen: ObservedNode, now: float) -> Plan:
    """Plan for one node."""
    draft = Draft()
    node, inventory = seen.facts.node, seen.facts.inventory
    members = [device for device in seen.devices if device.status.pool_ref is not None]
    if node is not None:
        wanted = {names.pool_node_label(d.status.pool_ref.name): "true" for d in members if d.status.pool_ref}
        ours = [key for key in node.metadata.labels if key.startswith(POOL_LABEL)]
        if (write := set_labels(ref(NODE, node), node.metadata, wanted, ours)) is not None:
            draft.add(write)
    if inventory is not None:
        pools = InventoryPools(assigned=_assigned(seen, members, now), pending=_pending(seen))
        unassigned = _unassigned(seen, pools, now)
        known = find(inventory.status.conditions, UNASSIGNED_DEVICE)
        if pools != inventory.status.pools or unassigned != known:
            status = {"pools": to_json(pools), "conditions": [to_json(unassigned)]}
            draft.add(Apply(ref(GPUNODEINVENTORY, inventory), {"status": status}, "status"))
    return draft.done()


def _assigned(seen: ObservedNode, members: list[GPUDevice], now: float) -> tuple[AssignedPool, ...]:
    """The pools that have cards here, with the slots of those cards."""
    old = seen.facts.inventory.status.pools if seen.facts.inventory else None
    since = {entry.name: entry.since for entry in old.assigned} if old else {}
    allocations = {pool.name: pool.spec.allocation for pool in seen.pools}
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


def _pending(seen: ObservedNode) -> tuple[PendingCard, ...]:
    """Cards in no pool, each with every pool that would take it, and why it waits."""
    entries: list[PendingCard] = []
    for position, device in enumerate(seen.devices):
        if device.status.pool_ref is None:
            entries += _waits(seen, device, position)
    return tuple(entries[: names.LIST_MAX])


def _waits(seen: ObservedNode, device: GPUDevice, position: int) -> list[PendingCard]:
    inventory_id = device.status.inventory_id
    if inventory_id is None:
        return []
    if is_true(device.status.conditions, IGNORED):
        return [PendingCard(inventory_id=inventory_id, reason="Declined")]
    if unfit(device, seen.facts) is not None:
        return []  # only cards that could be pooled now wait for a decision
    takers = [pool for pool in seen.pools if _serves(pool) and selected(pool, device, seen.facts, position)]
    named = claim(device)
    if named is not None and all(pool.name != named for pool in takers):
        known = any(pool.name == named for pool in seen.pools)
        return [
            PendingCard(pool=named, inventory_id=inventory_id, reason="OutOfSelector" if known else "NoPoolMatched")
        ]
    if not takers:
        return [PendingCard(inventory_id=inventory_id, reason="NoPoolMatched")]
    return [
        PendingCard(
            pool=pool.name,
            inventory_id=inventory_id,
            auto_approved=is_automatic(pool, device, seen.settings),
            reason="AwaitingApproval",
            annotation_hint=hint(pool.name),
        )
        for pool in takers
        if has_room(pool, seen.devices)  # a pool that has all it may of this node has nothing to decide
    ]


def _serves(pool: GPUPool) -> bool:
    return pool.metadata.deletion_timestamp is None and pool.spec.allocation.mode in SERVED_MODES


def _unassigned(seen: ObservedNode, pools: InventoryPools, now: float) -> Condition:
    """The condition UnassignedDevice: whether ready cards of the node are in no pool."""
    existing = seen.facts.inventory.status.conditions if seen.facts.inventory else ()
    waiting = sorted({entry.inventory_id for entry in pools.pending if entry.reason != "Declined"})
    if not waiting:
        return condition(
            existing,
            UNASSIGNED_DEVICE,
            status=False,
            reason="AllDecided",
            message="Every card that can be pooled is in a pool or declined.",
            now=stamp(now),
        )
    reasons = {entry.reason for entry in pools.pending if entry.reason != "Declined"}
    reason = "AwaitingApproval" if "AwaitingApproval" in reasons else min(reasons)
    return condition(
        existing,
        UNASSIGNED_DEVICE,
        status=True,
        reason=reason,
        message=f"{len(waiting)} cards are in no pool, {waiting[0]} first; status.pools.pending says why.",
        now=stamp(now),
    )
