"""The state of a GPUPool between what its spec asks for and what its nodes are configured for.

A change takes every card off the allowed lists, waits until the plugins have withdrawn them and nobody uses or awaits
one, has the nodes apply the layout where the mode needs that, and only then becomes `status.appliedAllocation`; from
then on the cards are offered anew. Until then everything else goes by what is applied. All of it is decided from what
is there, so a controller that dies goes on where it was, a spec that is put back ends the change, and of two changes
the newer wins (docs/dev/design.md, Maintenance). Pure.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from controllers.api.conditions import (
    FAULTED,
    INVENTORY_INCOMPLETE,
    MANAGED_DISABLED,
    MISCONFIGURED,
    find,
    is_true,
)
from controllers.domain.allocation import applied, division_of, is_applied, mig_key, wanted
from controllers.domain.approval import is_declined
from controllers.domain.eligibility import SERVED_MODES
from controllers.domain.pool_lifecycle import BEHAVIOUR, PoolFacts, last_phase, phase_of
from controllers.domain.usage import pool_users
from controllers.gpupool.mig.handler import LayoutProgress, maintenance_since
from controllers.gpupool.operands.device_plugin import cards_in, offer
from controllers.gpupool.pool.layouts import layout_progress

if TYPE_CHECKING:
    from controllers.api.gpudevice import GPUDevice
    from controllers.api.gpupool import AllocationSpec
    from controllers.domain.pool_lifecycle import Phase
    from controllers.gpupool.views import ObservedPool

LOST = (FAULTED, INVENTORY_INCOMPLETE)
"""Conditions of a card that no plugin can be asked to withdraw."""
RECHECK_MIN = 0.05
"""Seconds: a key that comes back at a deadline is not to come a moment before it."""


@dataclass(frozen=True, slots=True)
class PoolState:
    """The phase of a pool, and what decides about it."""

    phase: Phase
    applied: AllocationSpec
    """What the nodes are configured for."""
    desired: AllocationSpec
    """What the spec asks for."""
    has_applied_layout: bool
    """Whether the pool's status has `appliedAllocation`: nothing is offered before."""
    still_offered: tuple[str, ...] = ()
    """Cards (inventoryIDs) whose plugin has yet to withdraw them."""
    using_pods: tuple[str, ...] = ()
    """Pods (namespace/name) that have a card or a reservation."""
    progress: LayoutProgress = field(default_factory=LayoutProgress)
    maintenance_since: float | None = None
    """When Maintenance began, in epoch seconds; None outside it."""
    deadline_exceeded: bool = False
    """Whether Maintenance lasts longer than `maintenance.deadline`."""
    unpartitionable: str = ""
    """Why a pool without cards will get none: none that its selectors match can be partitioned as it asks."""

    @property
    def offers(self) -> bool:
        """Whether cards are on the allowed lists."""
        return self.has_applied_layout and BEHAVIOUR[self.phase].offers

    @property
    def maintenance(self) -> bool:
        """Whether condition Maintenance is true."""
        return BEHAVIOUR[self.phase].maintenance

    @property
    def misconfigured(self) -> bool:
        """Whether condition Misconfigured is true."""
        return BEHAVIOUR[self.phase].misconfigured or bool(self.unpartitionable)


def evaluate_pool(view: ObservedPool, now: float) -> PoolState:
    """The state of a pool at `now`, in epoch seconds."""
    pool = view.pool
    facts = PoolFacts(
        disabled=not view.enabled,
        deleting=pool.metadata.deletion_timestamp is not None,
        served=pool.spec.allocation.mode in SERVED_MODES,
        changed=not is_applied(pool),
    )
    state = PoolState(phase_of(facts), applied(pool), wanted(pool), pool.status.applied_allocation is not None)
    if facts.disabled:
        return replace(state, still_offered=_still_offered(view), maintenance_since=maintenance_since(pool))
    if facts.deleting or not facts.served:
        return state
    progress = layout_progress(view, now)
    facts = replace(facts, failed=progress.all_failed, built=progress.done)
    if not facts.changed and not facts.failed:
        return replace(state, progress=progress, unpartitionable=_why_unpartitionable(view))
    return _evaluate_maintenance(view, replace(state, progress=progress), facts, now)


def _evaluate_maintenance(view: ObservedPool, state: PoolState, facts: PoolFacts, now: float) -> PoolState:
    """The state of a pool whose layout changes, or has failed."""
    began = maintenance_since(view.pool)
    exceeded = began is not None and now >= began + view.settings.maintenance.deadline
    offered, users = _still_offered(view, overdue=exceeded), pool_users(view.members, view.pods, now)
    if not state.has_applied_layout and offered and _are_offered_as_desired(view):
        offered, users = (), ()  # the status was lost: what the plugins offer is what was applied
    return replace(
        state,
        phase=phase_of(replace(facts, drained=not offered and not users)),
        still_offered=offered,
        using_pods=users,
        maintenance_since=began,
        deadline_exceeded=exceeded,
    )


def seconds_to_deadline(view: ObservedPool, state: PoolState, now: float) -> float | None:
    """Seconds until pods that drain, or nodes that apply a layout, have had their time; None where nothing runs."""
    if state.phase in ("Serving", "Rebuilding") and state.progress.due is not None:
        return max(RECHECK_MIN, state.progress.due - now)
    if state.phase != "Draining" or state.deadline_exceeded:
        return None
    began = state.maintenance_since if state.maintenance_since is not None else now
    return max(RECHECK_MIN, began + view.settings.maintenance.deadline - now)


def _why_unpartitionable(view: ObservedPool) -> str:
    """Why no card can come into a pool of mode MIG that has none; empty where one can, or none is known at all."""
    if view.members or view.pool.spec.allocation.mode != "MIG":
        return ""
    if view.mig_fit is None:  # not all nodes have been looked at: the condition stays as it is
        current = find(view.pool.status.conditions, MISCONFIGURED)
        # Nothing else makes a pool in phase Serving Misconfigured.
        is_current = current is not None and current.status == "True" and last_phase(view.pool) == "Serving"
        return f"{current.message}" if current is not None and is_current else ""
    if view.mig_fit.able or not view.mig_fit.unable:
        return ""
    return (
        f"None of the {view.mig_fit.unable} cards that the pool's selectors match can be divided into"
        f" {division_of(view.pool.spec.allocation)}"
        f" ({view.mig_fit.explanation}). Change {mig_key(view.pool.spec.allocation)}, or the selectors."
    )


def _still_offered(view: ObservedPool, *, overdue: bool = False) -> tuple[str, ...]:
    """Cards that a plugin offers, or is told to offer by a list that has yet to be rewritten.

    `overdue`: the deadline is over; what an administrator has taken out of service is waited for no more.
    """
    listed = frozenset(card for config in view.configs for card in cards_in(config))
    found = (device for device in view.members if _may_be_offered(view, device, listed, overdue=overdue))
    return tuple(sorted(device.status.inventory_id or device.name for device in found))


def _is_out_of_service(device: GPUDevice) -> bool:
    """Whether an administrator has taken the card out of service."""
    return is_declined(device) or is_true(device.status.conditions, MANAGED_DISABLED)


def _may_be_offered(view: ObservedPool, device: GPUDevice, listed: frozenset[str], *, overdue: bool) -> bool:
    if device.status.inventory_id in listed:
        return True
    if device.status.published is None:
        return False
    # Nobody can withdraw a card in the name of a node that is away, nor has to for one that is lost: no new pod
    # comes to them. Who is there is among the users, or the card is kept off the lists
    # (`offering.is_withheld_for_unknown_pods`).
    node = view.facts(device.status.node_name).node
    is_lost = any(is_true(device.status.conditions, kind) for kind in LOST)
    return node is not None and node.ready and not is_lost and not (overdue and _is_out_of_service(device))


def _are_offered_as_desired(view: ObservedPool) -> bool:
    """Whether every card that is offered is offered as the spec asks."""
    offered = [device for device in view.members if device.status.published is not None]
    settings = offer(view.pool.name, wanted(view.pool), offered)
    return all(device.status.published == settings.of(device.status.inventory_id or "") for device in offered)
