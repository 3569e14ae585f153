"""GPUDevices in no GPUPool: their status, and the removal of annotations that name no pool. Pure.

`autoAttach`, `offer`, `missingPool` and the condition Configured are one apply, for a card in a pool (see
`pool.card_status`) as for one in none: an apply with one alone would take the others away.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from controllers.api import names
from controllers.api.conditions import CONFIGURED, Finding, carried, condition_for, find
from controllers.api.gpudevice import MissingPool
from controllers.api.record import to_json
from controllers.api.resources import GPUDEVICE, GPUPOOL
from controllers.domain.approval import is_automatic
from controllers.domain.assignment import assigned_pool
from controllers.domain.clock import lies_ahead, seconds, stamp
from controllers.domain.eligibility import POOL_UNKNOWN, serves
from controllers.domain.wording import short
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
    from controllers.domain.eligibility import Ineligible
    from controllers.gpupool.views import ObservedNode


def applied_status(
    configured: Condition | None, *, auto_attach: bool | None, offer: Offer | None, missing: MissingPool | None = None
) -> dict[str, Any]:
    """Everything that this process applies of a card's status."""
    status: dict[str, Any] = {"conditions": [to_json(configured)] if configured is not None else []}
    if auto_attach is not None:
        status["autoAttach"] = auto_attach
    if offer is not None:
        status["offer"] = offer
    if missing is not None:
        status["missingPool"] = to_json(missing)
    return {"status": status}


def plan_unassigned_status(view: ObservedNode, device: GPUDevice, now: float) -> list[Action]:
    """The status of a card in no pool, where it differs; the event goes with the write, so it comes once."""
    if device.status.inventory_id is None:
        return []  # inventory has yet to fill it in
    if view.enabled and (is_annotation_withdrawn(view, device) or loses_annotation_with_pool(view, device)):
        return []  # the annotation goes now, and with it the condition
    found = check_annotation(view, device)
    if found is None and assigned_pool(device) is not None:
        return []  # it is about to come in, and its pool writes its status
    automatic = any(
        serves(pool) and is_automatic(pool, device, view.settings) for pool in view.matching_pools.get(device.name, ())
    )
    known, wanted = find(device.status.conditions, CONFIGURED), _not_followed(device, found, now)
    offer, missing = _offer(found), _missing_pool(device, found, now)
    fields = (device.status.offer, bool(device.status.auto_attach), device.status.missing_pool)
    if wanted == known and (offer, automatic, missing) == fields:
        return []
    about = ref(GPUDEVICE, device)
    body = applied_status(wanted, auto_attach=automatic or None, offer=offer, missing=missing)
    actions: list[Action] = [Apply(about, body, "status")]
    if wanted is not None and (known is None or carried(known) != carried(wanted)):
        actions.append(EmitEvent(about, "Warning", names.EVENT_ANNOTATION_MISMATCH, wanted.message))
    return actions


def _offer(found: Ineligible | None) -> Offer | None:
    """Field `offer` of a card in no pool, by what keeps it out of the one that it names."""
    if found is None:
        return None
    return "PoolUnknown" if found.kind == POOL_UNKNOWN else "KeptOut"


def _missing_pool(device: GPUDevice, found: Ineligible | None, now: float) -> MissingPool | None:
    """Field `missingPool`: since when the pool that the annotation names is missing; None where it is not.

    It is kept as it is for as long as the annotation names that pool, so a restart of this process does not begin the
    wait anew; a card that the version before has seen to, which had no such field, waits as from now.
    """
    if found is None or found.kind != POOL_UNKNOWN:
        return None
    named, known = short(assigned_pool(device) or ""), device.status.missing_pool
    # A time from a clock that was wrong by then would put the annotation's end off by as much.
    if known is not None and known.name == named and not lies_ahead(known.since, now):
        return known
    return MissingPool(name=named, since=stamp(now))


def seconds_until_removal(view: ObservedNode, device: GPUDevice, now: float) -> float | None:
    """Seconds until the card's annotation may go since its pool does not exist; None where it does."""
    known = device.status.missing_pool
    if known is None or known != _missing_pool(device, check_annotation(view, device), now):
        return None
    return seconds(known.since) + view.settings.pools.dangling_after - now


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


def _not_followed(device: GPUDevice, found: Ineligible | None, now: float) -> Condition | None:
    """The condition of a card whose annotation is not followed; where there is no such pool its status is Unknown."""
    if found is None:
        return None
    status = None if found.kind == POOL_UNKNOWN else False
    finding = Finding(status, found.kind, not_followed_message(device, found))
    return condition_for(device.status.conditions, CONFIGURED, finding, now=stamp(now))
