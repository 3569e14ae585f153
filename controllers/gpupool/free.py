"""Cards in no pool: what they say of themselves, and the end of annotations that name no pool. Pure.

`autoAttach` and the condition Configured are one apply, for a card in a pool (see `plan`) as
for a free one: an apply with one alone would take the other away.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from controllers.api import names
from controllers.api.conditions import CONFIGURED, Finding, carried, find, said
from controllers.api.record import to_json
from controllers.api.resources import GPUDEVICE, GPUPOOL
from controllers.domain.approval import is_automatic
from controllers.domain.assignment import assigned_pool
from controllers.domain.clock import lies_ahead, seconds, stamp
from controllers.domain.eligibility import serves
from controllers.domain.slots import offer_of
from controllers.gpupool.approve import UNASSIGNED, is_deserted, is_withdrawn
from controllers.gpupool.claims import obstacle, sentence
from controllers.runtime.plan import Action, Apply, EmitEvent, Merge, Precondition, ref

if TYPE_CHECKING:
    from controllers.api.gpudevice import GPUDevice, Offer
    from controllers.api.meta import Condition
    from controllers.gpupool.observe import ObservedNode


def own_status(configured: Condition | None, *, auto_attach: bool | None, offer: Offer | None) -> dict[str, Any]:
    """Everything that this process applies of a card's status."""
    status: dict[str, Any] = {"conditions": [to_json(configured)] if configured is not None else []}
    if auto_attach is not None:
        status["autoAttach"] = auto_attach
    if offer is not None:
        status["offer"] = offer
    return {"status": status}


def say(seen: ObservedNode, device: GPUDevice, now: float) -> list[Action]:
    """What a free card has to say and does not yet; the event goes with the write, so it comes once."""
    known, wanted = find(device.status.conditions, CONFIGURED), _mismatch(seen, device, now)
    if device.status.inventory_id is None:
        return []  # inventory has yet to fill it in
    if seen.enabled and (is_withdrawn(seen, device) or is_deserted(seen, device)):
        return []  # the annotation goes now, and with it what there would be to say
    if wanted is None and assigned_pool(device) is not None:
        return []  # it is about to come in, and its pool will say all of it
    automatic = any(
        serves(pool) and is_automatic(pool, device, seen.settings) for pool in seen.takers.get(device.name, ())
    )
    offer = _offer(wanted)
    if wanted == known and (offer, automatic) == (device.status.offer, bool(device.status.auto_attach)):
        return []
    about = ref(GPUDEVICE, device)
    body = own_status(wanted, auto_attach=automatic or None, offer=offer)
    actions: list[Action] = [Apply(about, body, "status")]
    if wanted is not None and (known is None or carried(known) != carried(wanted)):
        actions.append(EmitEvent(about, "Warning", names.EVENT_ANNOTATION_MISMATCH, wanted.message))
    return actions


def _offer(wanted: Condition | None) -> Offer | None:
    """Of a card in no pool: that its annotation names no pool leaves it open whether it is configured."""
    if wanted is None:
        return None
    return "PoolUnknown" if wanted.status == "Unknown" else "KeptOut"


def dangles_for(seen: ObservedNode, device: GPUDevice, now: float) -> float | None:
    """Seconds until the card's annotation may go because there is no such pool; None where it is not so."""
    known = find(device.status.conditions, CONFIGURED)
    if known is None or offer_of(device) != "PoolUnknown" or known != _mismatch(seen, device, now):
        return None
    return seconds(known.last_transition_time) + seen.settings.pools.dangling_after - now


def forget(device: GPUDevice) -> list[Action]:
    """Remove an annotation that names no pool, once a quorum read confirms that there is none."""
    named, about = assigned_pool(device), ref(GPUDEVICE, device)
    message = (
        f"There has been no GPUPool {named} for a while, so the annotation {names.ASSIGNMENT}={named} was removed."
        " Annotate the card again once there is a pool for it."
    )
    return [
        Precondition(GPUPOOL, frozenset(), fields=f"metadata.name={named}"),
        Merge(about, device.metadata.resource_version, UNASSIGNED),
        EmitEvent(about, "Normal", names.EVENT_ANNOTATION_REMOVED, message),
    ]


def _mismatch(seen: ObservedNode, device: GPUDevice, now: float) -> Condition | None:
    """The condition of a card whose annotation is not followed.

    Where the pool is unknown, so is the condition's status: its time then tells since when that
    pool is missing, and a restart of this process does not begin the wait anew.
    """
    found = obstacle(seen, device)
    if found is None:
        return None
    existing = device.status.conditions
    is_open = assigned_pool(device) not in seen.by_name
    made = Finding(None if is_open else False, found.kind, sentence(device, found))
    if is_open:
        known = find(existing, CONFIGURED)
        # A time from a clock that was wrong by then would put the annotation's end off by as much.
        if known is None or carried(known) != made or lies_ahead(known.last_transition_time, now):
            existing = ()
    return said(existing, CONFIGURED, made, now=stamp(now))
