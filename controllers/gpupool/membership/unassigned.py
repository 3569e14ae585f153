"""GPUDevices in no GPUPool: their status, and the removal of annotations that name no pool. Pure.

`autoAttach` and the condition Configured are one apply, for a card in a pool (see `pool.card_status`) as
for one in none: an apply with one alone would take the other away.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from controllers.api import names
from controllers.api.conditions import CONFIGURED, Finding, carried, condition_for, find
from controllers.api.record import to_json
from controllers.api.resources import GPUDEVICE, GPUPOOL
from controllers.domain.approval import is_automatic
from controllers.domain.assignment import assigned_pool
from controllers.domain.clock import lies_ahead, seconds, stamp
from controllers.domain.eligibility import serves
from controllers.domain.issuing import offer_of
from controllers.gpupool.membership.approval import (
    REMOVE_ASSIGNMENT,
    is_annotation_withdrawn,
    loses_annotation_with_pool,
)
from controllers.gpupool.membership.obstacles import check_annotation, not_followed_message
from controllers.runtime.plan import Action, Apply, EmitEvent, Merge, Precondition, ref

if TYPE_CHECKING:
    from controllers.api.gpudevice import GPUDevice, Offer
    from controllers.api.meta import Condition
    from controllers.gpupool.views import ObservedNode


def applied_status(configured: Condition | None, *, auto_attach: bool | None, offer: Offer | None) -> dict[str, Any]:
    """Everything that this process applies of a card's status."""
    status: dict[str, Any] = {"conditions": [to_json(configured)] if configured is not None else []}
    if auto_attach is not None:
        status["autoAttach"] = auto_attach
    if offer is not None:
        status["offer"] = offer
    return {"status": status}


def plan_unassigned_status(view: ObservedNode, device: GPUDevice, now: float) -> list[Action]:
    """The status of a card in no pool, where it differs; the event goes with the write, so it comes once."""
    known, wanted = find(device.status.conditions, CONFIGURED), _not_followed(view, device, now)
    if device.status.inventory_id is None:
        return []  # inventory has yet to fill it in
    if view.enabled and (is_annotation_withdrawn(view, device) or loses_annotation_with_pool(view, device)):
        return []  # the annotation goes now, and with it the condition
    if wanted is None and assigned_pool(device) is not None:
        return []  # it is about to come in, and its pool writes its status
    automatic = any(
        serves(pool) and is_automatic(pool, device, view.settings) for pool in view.matching_pools.get(device.name, ())
    )
    offer = _offer(wanted)
    if wanted == known and (offer, automatic) == (device.status.offer, bool(device.status.auto_attach)):
        return []
    about = ref(GPUDEVICE, device)
    body = applied_status(wanted, auto_attach=automatic or None, offer=offer)
    actions: list[Action] = [Apply(about, body, "status")]
    if wanted is not None and (known is None or carried(known) != carried(wanted)):
        actions.append(EmitEvent(about, "Warning", names.EVENT_ANNOTATION_MISMATCH, wanted.message))
    return actions


def _offer(wanted: Condition | None) -> Offer | None:
    """Field `offer` of a card in no pool: an annotation that names no pool leaves open whether it is configured."""
    if wanted is None:
        return None
    return "PoolUnknown" if wanted.status == "Unknown" else "KeptOut"


def seconds_until_removal(view: ObservedNode, device: GPUDevice, now: float) -> float | None:
    """Seconds until the card's annotation may go since its pool does not exist; None where it does."""
    known = find(device.status.conditions, CONFIGURED)
    if known is None or offer_of(device) != "PoolUnknown" or known != _not_followed(view, device, now):
        return None
    return seconds(known.last_transition_time) + view.settings.pools.dangling_after - now


def remove_dangling_annotation(device: GPUDevice) -> list[Action]:
    """Remove an annotation that names no pool, once a quorum read confirms that there is none."""
    named, about = assigned_pool(device), ref(GPUDEVICE, device)
    message = (
        f"There has been no GPUPool {named} for a while, so the annotation {names.ASSIGNMENT}={named} was removed."
        " Annotate the card again once there is a pool for it."
    )
    return [
        Precondition(GPUPOOL, frozenset(), fields=f"metadata.name={named}"),
        Merge(about, device.metadata.resource_version, REMOVE_ASSIGNMENT),
        EmitEvent(about, "Normal", names.EVENT_ANNOTATION_REMOVED, message),
    ]


def _not_followed(view: ObservedNode, device: GPUDevice, now: float) -> Condition | None:
    """The condition of a card whose annotation is not followed.

    Where the pool is unknown, so is the condition's status: its transition time is then since when that
    pool is missing, and a restart of this process does not begin the wait anew.
    """
    found = check_annotation(view, device)
    if found is None:
        return None
    existing = device.status.conditions
    is_open = assigned_pool(device) not in view.by_name
    finding = Finding(None if is_open else False, found.kind, not_followed_message(device, found))
    if is_open:
        known = find(existing, CONFIGURED)
        # A time from a clock that was wrong by then would put the annotation's end off by as much.
        if known is None or carried(known) != finding or lies_ahead(known.last_transition_time, now):
            existing = ()
    return condition_for(existing, CONFIGURED, finding, now=stamp(now))
