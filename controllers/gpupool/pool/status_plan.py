"""Writes of a GPUPool's status: at once where it opens or closes the pool, else a little later. Pure."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from controllers.api import names
from controllers.api.conditions import CAPACITY_LOW, MAINTENANCE, MISCONFIGURED, find, is_true
from controllers.api.record import to_json
from controllers.api.resources import GPUPOOL
from controllers.domain.allocation import spelled
from controllers.domain.clock import stamp
from controllers.gpupool.pool import slots_not_shown
from controllers.gpupool.pool.state import evaluate_pool, seconds_to_deadline
from controllers.gpupool.pool.status import pool_status
from controllers.gpupool.quorum import nobody_else_bound
from controllers.runtime.plan import Action, Apply, EmitEvent, Plan, PlanBuilder, ref

if TYPE_CHECKING:
    from collections.abc import Iterable

    from controllers.api.gpupool import GPUPoolStatus
    from controllers.gpupool.pool.state import PoolState
    from controllers.gpupool.views import ObservedPool


def plan_pool_status(view: ObservedPool, now: float, *, status_in: float = 0.0) -> Plan:
    """The pool's status, where `plan_pool` does not write it. `status_in`: seconds until it may be written again."""
    draft = PlanBuilder()
    if view.pool.metadata.deletion_timestamp is not None and not view.members:
        return draft.build()
    if status_in > 0:
        draft.requeue_within(status_in)  # not even made: counting thousands of cards for each pod would cost more
        return draft.build()
    state = evaluate_pool(view, now)
    if state.phase != "Applying" and not _changed_conditions(view, state):
        status, is_capacity_awaited = pool_status(view, state, now)
        if status != view.pool.status:
            draft.add(_write_status(view, status), *_capacity_low_events(view, status))
        if (left := slots_not_shown.next_deadline(view, status, now)) is not None:
            draft.requeue_within(left)  # a kubelet that does not show what its plugin offers changes no object
        if is_capacity_awaited:
            draft.requeue_within(view.settings.pools.plugin_patience)  # nor does a plugin that does not answer
    if (left := seconds_to_deadline(view, state, now)) is not None:
        draft.requeue_within(left)  # the conditions tell that it is over
    return draft.build()


def open_or_close(view: ObservedPool, state: PoolState, now: float) -> list[Action]:
    """The status at once, and before all else, where it closes or opens the pool: the webhook goes by it."""
    changed = _changed_conditions(view, state)
    if not changed:
        return []
    status, _ = pool_status(view, state, now)
    return [_write_status(view, status), *_closing_events(view, status, changed), *_capacity_low_events(view, status)]


def apply_layout(view: ObservedPool, state: PoolState, now: float) -> list[Action]:
    """The nodes are clear: from now on all goes by what the spec asks for, and cards are offered again."""
    pool = view.pool
    when = stamp(now) if state.has_applied_layout else pool.status.last_reconfigured
    applied = replace(pool.status, applied_allocation=state.desired, last_reconfigured=when)
    after = replace(view, pool=replace(pool, status=applied))
    actions: list[Action] = [*nobody_else_bound(view)] if view.members else []
    status, _ = pool_status(after, evaluate_pool(after, now), now)
    changed = () if is_true(pool.status.conditions, MISCONFIGURED) else (MISCONFIGURED,)
    actions += [
        _write_status(view, status),
        *_closing_events(view, status, changed),
        *_capacity_low_events(view, status),
    ]
    if state.has_applied_layout:
        message = f"The pool went from {spelled(state.applied)} to {spelled(state.desired)}."
        actions.append(EmitEvent(ref(GPUPOOL, pool), "Normal", names.EVENT_RECONFIGURED, message))
    return actions


def _changed_conditions(view: ObservedPool, state: PoolState) -> list[str]:
    """Conditions that close or open the pool, and whose status is not written yet."""
    if state.phase in ("Applying", "Deleting"):
        return []
    current = view.pool.status.conditions
    desired = {MAINTENANCE: state.maintenance, MISCONFIGURED: state.misconfigured}
    return [kind for kind, holds in desired.items() if holds != is_true(current, kind)]


def _closing_events(view: ObservedPool, status: GPUPoolStatus, changed: Iterable[str]) -> list[EmitEvent]:
    """The events of conditions that close the pool, and did not before."""
    events = {MAINTENANCE: names.EVENT_MAINTENANCE, MISCONFIGURED: names.EVENT_MISCONFIGURED}
    return [
        EmitEvent(ref(GPUPOOL, view.pool), "Warning", events[kind], condition.message)
        for kind in changed
        if (condition := find(status.conditions, kind)) is not None and condition.status == "True"
    ]


def _capacity_low_events(view: ObservedPool, status: GPUPoolStatus) -> list[EmitEvent]:
    """The event of a pool that comes to have few slots left, beside each write of condition CapacityLow."""
    low = find(status.conditions, CAPACITY_LOW)
    if low is None or low.status != "True" or is_true(view.pool.status.conditions, CAPACITY_LOW):
        return []
    message = f"{low.message} Add cards to the pool, or wait for pods to end; nothing is refused for this alone."
    return [EmitEvent(ref(GPUPOOL, view.pool), "Warning", names.EVENT_CAPACITY_LOW, message)]


def _write_status(view: ObservedPool, status: GPUPoolStatus) -> Apply:
    return Apply(ref(GPUPOOL, view.pool), {"status": to_json(status)}, "status")
