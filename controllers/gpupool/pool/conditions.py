"""Conditions of a GPUPool: Available, Maintenance, Misconfigured, CapacityLow. Pure."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from controllers.api import names
from controllers.api.conditions import AVAILABLE, CAPACITY_LOW, MAINTENANCE, MISCONFIGURED, Finding, is_true
from controllers.domain.allocation import spelled
from controllers.domain.assignment import annotation_hint
from controllers.domain.capacity import is_low
from controllers.domain.eligibility import SERVED_MODES
from controllers.domain.wording import SHOWN, listed

if TYPE_CHECKING:
    from controllers.api.gpupool import Capacity
    from controllers.gpupool.pool.state import PoolState
    from controllers.gpupool.views import ObservedPool


SLOTS_NOT_SHOWN: Final = "SlotsNotShown"
"""Available of a pool whose plugins offer what kubelet does not show."""
LAYOUT_DRIFTED: Final = "LayoutDrifted"
"""Configured of a card that was partitioned as asked, and is no longer."""
PODS_UNKNOWN: Final = "PodsUnknown"
LEAVE_OUT: Final = f"kubectl label gpudevice <card> {names.LABEL_IGNORE}=true"
"""How an administrator takes a card out, so that it is waited for no more."""

_DISABLED = (
    "The module is disabled: its programs leave the nodes and no card is given out. Pods that run keep their cards, and"
    f" the pool keeps its own. spec.enabled: true in ModuleConfig {names.MODULE} brings all of it back."
)


def pool_findings(
    view: ObservedPool, state: PoolState, total: Capacity, *, offered: int, coming: int, unshown: int
) -> dict[str, Finding]:
    """Every condition of a pool by its type.

    `offered`: its cards that plugins offer as they should. `coming`: slots of those that are about to be offered.
    `unshown`: free slots that plugins offer, and that kubelet should have shown by now.
    """
    return {
        AVAILABLE: _available(view, state, total, offered, unshown),
        MAINTENANCE: _maintenance(view, state),
        MISCONFIGURED: _misconfigured(view, state),
        CAPACITY_LOW: _capacity_low(view, state, total, coming),
    }


def _available(view: ObservedPool, state: PoolState, total: Capacity, offered: int, unshown: int) -> Finding:
    members = len(view.members)
    if offered and unshown:
        patience = view.settings.pools.plugin_patience
        message = (
            f"{offered} of {members} cards are offered, but kubelet has not shown {unshown} free slots of them"
            f" (status.allocatable of the Nodes) within pools.pluginPatience ({patience:g} s): nobody is promised"
            " these. status.nodes says where, and what to do."
        )
        return Finding(total.available + total.used + total.reserved > 0, SLOTS_NOT_SHOWN, message)
    if offered:
        return Finding(True, "CardsOffered", f"{offered} of {members} cards are offered.")
    if members and state.maintenance:
        return Finding(False, "InMaintenance", f"{members} cards are in the pool; condition Maintenance says why.")
    if members:
        message = f"{members} cards are in the pool and none is offered yet; status.nodes says why."
        return Finding(False, "NotYetOffered", message)
    to_do = f"Confirm candidates: kubectl annotate gpudevice <card> {annotation_hint(view.pool.name)}"
    if state.unpartitionable:
        to_do = "None can come in; condition Misconfigured says why."
    return Finding(False, "NoCards", f"No card is in the pool. {to_do}")


def _maintenance(view: ObservedPool, state: PoolState) -> Finding:
    if not state.maintenance:
        configured = f"The nodes are configured for {spelled(state.applied)}."
        none = "The pool has no cards, and no node is configured for it."
        return Finding(False, "AsExpected", none if state.unpartitionable else configured)
    if state.phase == "Halted":
        return Finding(True, names.REASON_LAYOUT_FAILED, _failures(view, state))
    if state.phase == "Disabled":
        return Finding(True, names.REASON_MODULE_DISABLED, _DISABLED)
    goal = f"spec.allocation asks for {spelled(state.desired)}; nodes are configured for {spelled(state.applied)}."
    if state.phase == "Rebuilding":
        return Finding(True, "Rebuilding", f"{goal} Nodes at work: {listed(state.progress.pending) or 'none yet'}.")
    if state.phase == "Applying":
        return Finding(True, "Applying", f"{goal} Nobody uses a card; they are about to be offered anew.")
    return _draining(view, state, goal)


def _draining(view: ObservedPool, state: PoolState, goal: str) -> Finding:
    """Who is waited for: pods before plugins, since only people can do something about them."""
    pods, cards = state.using_pods, state.still_offered
    parts = [goal]
    if pods:
        # Counted, not named: whoever may ask for cards may read a pool.
        find = f"kubectl get pods -A -l {names.LABEL_POOL}={view.pool.name}"
        parts.append(
            f"Waiting for pods that hold cards or are promised some ({len(pods)}). To find them: {find}; those"
        )
        parts.append("without that label stand in status.allocations of the cards.")
    if cards:
        parts.append(f"Waiting for device plugins to withdraw cards ({len(cards)}): {listed(cards)}.")
    if not state.deadline_exceeded:
        return Finding(True, "WaitingForPods" if pods else "AwaitingWithdrawal", " ".join(parts))
    parts.append(f"That takes longer than maintenance.deadline ({view.settings.maintenance.deadline:g} s).")
    if cards:
        parts.append(f"A card that its node does not let go of can be left out: {LEAVE_OUT}.")
    parts.append(f"Nothing is killed: end what is in the way, or set the spec back to {spelled(state.applied)}.")
    return Finding(True, "PodsOverdue" if pods else "PluginsOverdue", " ".join(parts))


def _misconfigured(view: ObservedPool, state: PoolState) -> Finding:
    if state.phase == "Halted":
        return Finding(True, names.REASON_LAYOUT_FAILED, _failures(view, state))
    if state.phase == "NotServed":
        mode, served = view.pool.spec.allocation.mode, ", ".join(SERVED_MODES)
        now = f" Pods that run stay; the nodes go on as {spelled(state.applied)}." if state.has_applied_layout else ""
        message = f"spec.allocation.mode is {mode}; this version of the module hands out {served} only.{now}"
        return Finding(True, "ModeNotServed", message)
    if state.unpartitionable:
        return Finding(True, names.INVALID_MIG_PROFILE, state.unpartitionable)
    return Finding(False, "AsExpected", "The pool is served as it is written.")


def _failures(view: ObservedPool, state: PoolState) -> str:
    failed = state.progress.failed
    parts = "; ".join(f"{node}: {why}" for node, why in sorted(failed.items())[:SHOWN])
    again = f"kubectl annotate gpupool {view.pool.name} {names.RESUME}=true"
    asked = f"{spelled(state.desired)} did not come true on {len(failed)} nodes ({parts})."
    return f"{asked} Mend them and try again: {again}; leave a card out: {LEAVE_OUT}; or change spec.allocation."


def is_capacity_awaited(total: Capacity, coming: int) -> bool:
    """Whether a pool has few slots left only until plugins offer what it has: CapacityLow stays as it was."""
    return is_low(total) and not is_low(replace(total, available=total.available + coming))


def _capacity_low(view: ObservedPool, state: PoolState, total: Capacity, coming: int) -> Finding:
    low = is_low(total)
    counted = f"{total.available} of {total.total} slots are available."
    if not state.offers or is_capacity_awaited(total, coming):
        # Each Maintenance ends with what it began with, and a card that has just come in alarms nobody.
        why = "Cards are not offered now, or not yet; what was said before stands until they are."
        return Finding(is_true(view.pool.status.conditions, CAPACITY_LOW), "CardsNotOffered", f"{counted} {why}")
    return Finding(low, "BelowTenPercent" if low else "Enough", counted)
