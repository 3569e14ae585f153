"""Status of a GPUPool's member cards that this process applies: condition Configured, `offer`, `autoAttach`. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from controllers.api.conditions import CONFIGURED, carried, condition_for, find
from controllers.api.resources import GPUDEVICE
from controllers.domain.approval import is_automatic
from controllers.domain.clock import stamp
from controllers.gpupool.membership.assignment import releasable_cards
from controllers.gpupool.membership.unassigned import applied_status
from controllers.gpupool.operands import device_plugin
from controllers.gpupool.pool.configured import evaluate_configured
from controllers.gpupool.pool.offering import should_offer
from controllers.gpupool.pool.state import evaluate_pool
from controllers.runtime.plan import Action, Apply, Plan, PlanBuilder, ref

if TYPE_CHECKING:
    from controllers.api.gpudevice import GPUDevice
    from controllers.gpupool.views import ObservedPool

WRITES_MAX = 200
"""Card statuses that one plan writes: the pool's status does not wait for thousands of them."""


def plan_card_status(view: ObservedPool, now: float) -> Plan:
    """The status of the pool's cards, where it differs from what it should be."""
    draft = PlanBuilder()
    if not view.members:
        return draft.build()
    state = evaluate_pool(view, now)
    settings = device_plugin.offer(view.pool.name, state.applied, view.members)
    leaving = {device.name for device in releasable_cards(view, now)}  # `membership.unassigned` writes theirs
    actions: list[Action] = []
    for device in view.members:
        if device.name in leaving:
            continue
        offered = settings.of(device.status.inventory_id or "") if should_offer(view, state, device) else None
        finding = evaluate_configured(view, state, device, offered, now)
        known, automatic = find(device.status.conditions, CONFIGURED), is_automatic(view.pool, device, view.settings)
        fields = (device.status.offer, device.status.auto_attach)
        if known is not None and carried(known) == finding.finding and fields == (finding.offer, automatic):
            continue
        if known is None and finding.offer == "AwaitingPlugin" and (left := _plugin_grace(view, device, now)) > 0:
            # A card that is offered by then costs one write less; `status.nodes` of the pool tells who is waited for.
            draft.requeue_within(left)
            continue
        if len(actions) >= WRITES_MAX:
            draft.requeue_within(0.0)
            break
        desired = condition_for(device.status.conditions, CONFIGURED, finding.finding, now=stamp(now))
        body = applied_status(desired, auto_attach=automatic, offer=finding.offer)
        actions.append(Apply(ref(GPUDEVICE, device), body, "status", parallel_safe=True))
    draft.add(*actions)
    return draft.build()


def _plugin_grace(view: ObservedPool, device: GPUDevice, now: float) -> float:
    """Seconds that a plugin still has to offer a card which has just come in; not positive where it has had them."""
    return view.joined_at.get(device.name, float("-inf")) + view.settings.pools.plugin_patience - now
