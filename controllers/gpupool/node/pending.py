"""Cards of a Node that await a decision: `pools.pending` of its inventory, and condition UnassignedDevice. Pure."""

from __future__ import annotations

from itertools import chain, islice
from typing import TYPE_CHECKING

from controllers.api import names
from controllers.api.conditions import IGNORED, UNASSIGNED_DEVICE, condition
from controllers.api.gpunodeinventory import InventoryPools, PendingCard, PendingReason
from controllers.api.resources import GPUNODEINVENTORY
from controllers.domain.approval import is_automatic
from controllers.domain.assignment import annotation_hint, assigned_pool
from controllers.domain.clock import stamp
from controllers.domain.eligibility import POOL_DELETING, POOL_UNKNOWN, check_free_card, serves
from controllers.gpupool.membership.approval import count_cards_by_pool
from controllers.gpupool.membership.obstacles import MatchedCard, check_annotation
from controllers.runtime.plan import EmitEvent, ref

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Iterator

    from controllers.api.gpudevice import GPUDevice
    from controllers.api.gpunodeinventory import Decision
    from controllers.api.meta import Condition
    from controllers.gpupool.views import ObservedNode


def pending_cards(view: ObservedNode) -> tuple[PendingCard, ...]:
    """Cards in no pool, each with every pool that would take it, and why it waits."""
    taken = count_cards_by_pool(view)
    entries = chain.from_iterable(_pending_entries(view, device, taken) for device in view.unassigned)
    # Made one by one: thousands of pools that match every card would be a second's work, to be cut off.
    return tuple(islice(entries, names.LIST_MAX))


def _pending_entries(view: ObservedNode, device: GPUDevice, taken: Counter[str]) -> Iterator[PendingCard]:
    inventory_id, named = device.status.inventory_id, assigned_pool(device)
    if inventory_id is None:
        return
    if (hindered := check_free_card(device, ready=view.facts.ready)) is not None:
        # Only cards that could be pooled now wait for a decision; one that is declined is listed as decided.
        if hindered.kind == IGNORED:
            yield PendingCard(pool=named, inventory_id=inventory_id, reason="Declined")
        return
    if named is not None:
        found = check_annotation(view, device)
        if found is not None and found.lasting:  # elsewhere time will do it
            yield PendingCard(pool=named, inventory_id=inventory_id, reason=_pending_reason(found.kind))
        return
    takers = [pool for pool in view.matching_pools.get(device.name, ()) if serves(pool)]
    if not takers:
        yield PendingCard(inventory_id=inventory_id, reason="NoPoolMatched")
    card = MatchedCard(view, device)
    found_of = [(pool, card.check_pool(pool, taken[pool.name])) for pool in takers]
    can = [pool for pool, found in found_of if found is None]
    for pool in can:
        yield PendingCard(
            pool=pool.name,
            inventory_id=inventory_id,
            auto_approved=is_automatic(pool, device, view.settings),
            reason="AwaitingApproval",
            annotation_hint=annotation_hint(pool.name),
        )
    # Pools that have all they may of this node, or cannot serve the card as it is divided, have nothing to decide, but
    # the card idles: whoever could change that or decline it is told, as of a card that is annotated for such a pool.
    # One that others have, or another pool's plugin still offers, comes without a decision once that ends.
    for pool, found in () if can else found_of:
        if found is not None and found.lasting:
            yield PendingCard(pool=pool.name, inventory_id=inventory_id, reason="OutOfSelector")


def _pending_reason(reason: str) -> PendingReason:
    """What somebody has to decide about a card whose annotation is not followed."""
    return "NoPoolMatched" if reason in (POOL_UNKNOWN, POOL_DELETING) else "OutOfSelector"


def unassigned_device(view: ObservedNode, pools: InventoryPools, now: float) -> Condition:
    """The condition UnassignedDevice: whether ready cards of the node are in no pool."""
    existing = view.facts.inventory.status.conditions if view.facts.inventory else ()
    waiting = sorted({entry.inventory_id for entry in pools.pending if not entry.is_declined})
    decision = _first_decision(pools)
    if decision is None:
        return condition(
            existing,
            UNASSIGNED_DEVICE,
            status=False,
            reason="AllDecided",
            message="Every card that can be pooled is in a pool or declined.",
            now=stamp(now),
        )
    return condition(
        existing,
        UNASSIGNED_DEVICE,
        status=True,
        reason=decision,
        message=f"{len(waiting)} cards are in no pool, {waiting[0]} first; status.pools.pending says why.",
        now=stamp(now),
    )


def _first_decision(pools: InventoryPools) -> Decision | None:
    """What is to be decided first about cards of a node; None where nothing is."""
    undecided = pools.undecided
    return "AwaitingApproval" if "AwaitingApproval" in undecided else min(undecided, default=None)


def unassigned_events(view: ObservedNode, pools: InventoryPools, unassigned: Condition) -> list[EmitEvent]:
    """The event of a ready node whose cards wait for a person, once for each thing that there is to decide first."""
    inventory, decision = view.facts.inventory, _first_decision(pools)
    if inventory is None or decision is None:
        return []
    about, before = ref(GPUNODEINVENTORY, inventory), inventory.status.pools
    if before is not None and _first_decision(before) == decision:
        return []
    if decision != "NoPoolMatched":
        message = f"Node {view.name} ({unassigned.reason}): {unassigned.message}"
        return [EmitEvent(about, "Normal", names.EVENT_UNASSIGNED_DEVICE, message)]
    message = (
        f"Node {view.name} is ready and no GPUPool matches its free cards. Create a pool, widen the selectors of one,"
        f" or decline the cards: kubectl label gpudevice <card> {names.LABEL_IGNORE}=true"
    )
    return [EmitEvent(about, "Warning", names.EVENT_NODE_WITHOUT_POOL, message)]
