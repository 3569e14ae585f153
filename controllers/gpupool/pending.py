"""What of a node waits for a decision, and why: its `pools.pending` and UnassignedDevice. Pure."""

from __future__ import annotations

from itertools import chain, islice
from typing import TYPE_CHECKING

from controllers.api import names
from controllers.api.conditions import IGNORED, UNASSIGNED_DEVICE, condition, find, is_true
from controllers.api.gpunodeinventory import InventoryPools, PendingCard, PendingReason
from controllers.api.resources import GPUNODEINVENTORY
from controllers.domain.approval import is_automatic, is_ignored
from controllers.domain.clock import stamp
from controllers.gpupool import claims
from controllers.gpupool.approve import has_room, is_hindered, taking
from controllers.gpupool.migcards import MIG_ENABLED, MIG_STATE_UNKNOWN
from controllers.gpupool.select import claim, hint, serves, unfit
from controllers.runtime.plan import Note, ref

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Iterator

    from controllers.api.gpudevice import GPUDevice
    from controllers.api.meta import Condition
    from controllers.gpupool.observe import ObservedNode

UNDECIDED: dict[str, PendingReason] = {
    claims.POOL_UNKNOWN: "NoPoolMatched",
    claims.POOL_DELETING: "NoPoolMatched",
    claims.POOL_NOT_SERVED: "OutOfSelector",
    claims.OUT_OF_SELECTOR: "OutOfSelector",
    claims.NODE_FULL: "OutOfSelector",
    MIG_ENABLED: "OutOfSelector",
    MIG_STATE_UNKNOWN: "OutOfSelector",
}
"""What somebody has to decide about a card whose annotation is not followed; elsewhere time will do it."""


def pending(seen: ObservedNode) -> tuple[PendingCard, ...]:
    """Cards in no pool, each with every pool that would take it, and why it waits."""
    taken = taking(seen)
    entries = chain.from_iterable(_waits(seen, device, taken) for device in seen.free)
    # Made one by one: thousands of pools that mean every card would be a second's work, to be cut off.
    return tuple(islice(entries, names.LIST_MAX))


def _waits(seen: ObservedNode, device: GPUDevice, taken: Counter[str]) -> Iterator[PendingCard]:
    inventory_id, named = device.status.inventory_id, claim(device)
    if inventory_id is None:
        return
    if is_ignored(device.metadata) or is_true(device.status.conditions, IGNORED):
        yield PendingCard(pool=named, inventory_id=inventory_id, reason="Declined")
        return
    if unfit(device, seen.facts) is not None:
        return  # only cards that could be pooled now wait for a decision
    if named is not None:
        found = claims.obstacle(seen, device)
        if found and (reason := UNDECIDED.get(found.reason)):
            yield PendingCard(pool=named, inventory_id=inventory_id, reason=reason)
        return
    takers = [pool for pool in seen.takers.get(device.name, ()) if serves(pool)]
    if not takers:
        yield PendingCard(inventory_id=inventory_id, reason="NoPoolMatched")
    can = [pool for pool in takers if has_room(pool, taken) and not is_hindered(seen, pool, device)]
    for pool in can:
        yield PendingCard(
            pool=pool.name,
            inventory_id=inventory_id,
            auto_approved=is_automatic(pool, device, seen.settings),
            reason="AwaitingApproval",
            annotation_hint=hint(pool.name),
        )
    # Pools that have all they may of this node, or cannot serve the card as it is divided, have nothing to decide, but
    # the card idles: whoever could change that or decline it is told, as of a card that is annotated for such a pool.
    for pool in () if can else takers:
        yield PendingCard(pool=pool.name, inventory_id=inventory_id, reason=UNDECIDED[claims.NODE_FULL])


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
        f"Node {seen.name} is ready and no GPUPool means its free cards. Create a pool, widen the selectors of one,"
        f" or decline the cards: kubectl label gpudevice <card> {names.LABEL_IGNORE}=true"
    )
    return [Note(about, "Warning", names.EVENT_NODE_WITHOUT_POOL, message)]
