"""What of a node waits for a decision, and why: its `pools.pending` and UnassignedDevice. Pure."""

from __future__ import annotations

from itertools import chain, islice
from typing import TYPE_CHECKING

from controllers.api import names
from controllers.api.conditions import IGNORED, UNASSIGNED_DEVICE, condition, find, is_true
from controllers.api.gpunodeinventory import InventoryPools, PendingCard, PendingReason
from controllers.api.resources import GPUNODEINVENTORY
from controllers.domain.approval import is_automatic, is_ignored
from controllers.domain.assignment import annotation_hint, assigned_pool
from controllers.domain.clock import stamp
from controllers.domain.eligibility import POOL_DELETING, POOL_UNKNOWN, serves, unfit
from controllers.gpupool.approve import taking
from controllers.gpupool.claims import obstacle, obstacle_to
from controllers.runtime.plan import Note, ref

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Iterator

    from controllers.api.gpudevice import GPUDevice
    from controllers.api.meta import Condition
    from controllers.gpupool.observe import ObservedNode


def pending(seen: ObservedNode) -> tuple[PendingCard, ...]:
    """Cards in no pool, each with every pool that would take it, and why it waits."""
    taken = taking(seen)
    entries = chain.from_iterable(_waits(seen, device, taken) for device in seen.free)
    # Made one by one: thousands of pools that mean every card would be a second's work, to be cut off.
    return tuple(islice(entries, names.LIST_MAX))


def _waits(seen: ObservedNode, device: GPUDevice, taken: Counter[str]) -> Iterator[PendingCard]:
    inventory_id, named = device.status.inventory_id, assigned_pool(device)
    if inventory_id is None:
        return
    if is_ignored(device.metadata) or is_true(device.status.conditions, IGNORED):
        yield PendingCard(pool=named, inventory_id=inventory_id, reason="Declined")
        return
    if unfit(device, ready=seen.facts.ready) is not None:
        return  # only cards that could be pooled now wait for a decision
    if named is not None:
        found = obstacle(seen, device)
        if found is not None and found.lasting:  # elsewhere time will do it
            yield PendingCard(pool=named, inventory_id=inventory_id, reason=_undecided(found.kind))
        return
    takers = [pool for pool in seen.takers.get(device.name, ()) if serves(pool)]
    if not takers:
        yield PendingCard(inventory_id=inventory_id, reason="NoPoolMatched")
    found_of = [(pool, obstacle_to(seen, device, pool, taken[pool.name])) for pool in takers]
    can = [pool for pool, found in found_of if found is None]
    for pool in can:
        yield PendingCard(
            pool=pool.name,
            inventory_id=inventory_id,
            auto_approved=is_automatic(pool, device, seen.settings),
            reason="AwaitingApproval",
            annotation_hint=annotation_hint(pool.name),
        )
    # Pools that have all they may of this node, or cannot serve the card as it is divided, have nothing to decide, but
    # the card idles: whoever could change that or decline it is told, as of a card that is annotated for such a pool.
    # One that others have, or another pool's plugin still offers, comes without a decision once that ends.
    for pool, found in () if can else found_of:
        if found is not None and found.lasting:
            yield PendingCard(pool=pool.name, inventory_id=inventory_id, reason="OutOfSelector")


def _undecided(reason: str) -> PendingReason:
    """What somebody has to decide about a card whose annotation is not followed."""
    return "NoPoolMatched" if reason in (POOL_UNKNOWN, POOL_DELETING) else "OutOfSelector"


def unassigned_device(seen: ObservedNode, pools: InventoryPools, now: float) -> Condition:
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


def undecided(seen: ObservedNode, unassigned: Condition) -> list[Note]:
    """The event of a ready node whose cards wait for a person, once: where its condition comes to say so."""
    inventory = seen.facts.inventory
    if inventory is None or unassigned.status != "True":
        return []
    known, about = find(inventory.status.conditions, UNASSIGNED_DEVICE), ref(GPUNODEINVENTORY, inventory)
    if known is not None and known.reason == unassigned.reason:
        return []
    if unassigned.reason != "NoPoolMatched":
        message = f"Node {seen.name} ({unassigned.reason}): {unassigned.message}"
        return [Note(about, "Normal", names.EVENT_UNASSIGNED_DEVICE, message)]
    message = (
        f"Node {seen.name} is ready and no GPUPool matches its free cards. Create a pool, widen the selectors of one,"
        f" or decline the cards: kubectl label gpudevice <card> {names.LABEL_IGNORE}=true"
    )
    return [Note(about, "Warning", names.EVENT_NODE_WITHOUT_POOL, message)]
