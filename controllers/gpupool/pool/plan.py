"""Plans for one GPUPool: its cards, operands and finalizer, in an order of which any prefix is safe.

Cards come in before anything offers them, and leave only after nothing does; operands exist before nodes are told to
run them; the finalizer is the first thing and goes last. Pure.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from controllers.api import names
from controllers.api.resources import CONFIGMAP, GPUPOOL
from controllers.components.reconcile import deletions
from controllers.domain.usage import pool_users
from controllers.gpupool.membership.approval import unassign_with_pool
from controllers.gpupool.membership.assignment import assign_cards, release_cards
from controllers.gpupool.membership.orphaned import release_orphaned_cards
from controllers.gpupool.membership.outlived import remove_outlived_annotations
from controllers.gpupool.pool.allowed_cards import plan_allowed_cards
from controllers.gpupool.pool.daemonsets import plan_device_plugin, plan_mig_manager, plan_mps
from controllers.gpupool.pool.layouts import retry_layouts
from controllers.gpupool.pool.state import evaluate_pool, seconds_to_deadline
from controllers.gpupool.pool.status_plan import apply_layout, open_or_close
from controllers.install import dismantle
from controllers.runtime.plan import Action, Apply, Delete, EmitEvent, Merge, Plan, PlanBuilder, Precondition, ref

if TYPE_CHECKING:
    from controllers.gpupool.pool.state import PoolState
    from controllers.gpupool.views import ObservedPool


def plan_pool(view: ObservedPool, now: float, *, lists_in: float = 0.0) -> Plan:
    """What somebody waits for: cards in and out, lists, operands; the status where it closes or opens the pool.

    `lists_in`: seconds until cards may be added to the lists again: each write wakes the plugins of all nodes.
    """
    if not view.enabled:
        return _plan_disabled(view, now)
    draft = PlanBuilder()
    deleting = view.pool.metadata.deletion_timestamp is not None
    if deleting and not view.members:
        draft.add(*_remove_operands(view, now))
        return draft.build()
    if names.FINALIZER_POOL not in view.pool.metadata.finalizers and not deleting:
        draft.add(Apply(ref(GPUPOOL, view.pool), {"metadata": {"finalizers": [names.FINALIZER_POOL]}}))
    state = evaluate_pool(view, now)
    draft.add(*_resume(view, state, now))
    draft.add(*open_or_close(view, state, now))
    draft.add(*plan_allowed_cards(view, state, lists_in, draft))
    plan_device_plugin(view, state, now, draft)
    plan_mig_manager(view, state, now, draft)
    plan_mps(view, state, now, draft)
    if state.phase == "Applying":
        draft.add(*apply_layout(view, state, now))
    else:
        draft.add(*release_cards(view, now))  # after the lists, which are not written while a layout is being applied
    draft.add(*remove_outlived_annotations(view, now))
    # Of cards that have left: the last of the others may stay for long.
    draft.add(*unassign_with_pool(view, view.assigned_cards))
    draft.add(*assign_cards(view, now))  # last: many writes, of which one may be refused, and no release waits for that
    if (left := seconds_to_deadline(view, state, now)) is not None:
        draft.requeue_within(left)
    return draft.build()


def plan_orphans(view: ObservedPool, now: float) -> Plan:
    """Release the cards of a pool that is gone without having done so, once a quorum read confirms that it is."""
    draft = PlanBuilder()
    released = [*release_cards(view, now), *release_orphaned_cards(view, now), *remove_outlived_annotations(view, now)]
    if released:
        draft.add(Precondition(GPUPOOL, frozenset(), fields=f"metadata.name={view.pool.name}"), *released)
    return draft.build()


def writes_lists(plan: Plan) -> bool:
    """Whether a plan writes lists of allowed cards."""
    return any(isinstance(a, (Apply, Delete)) and a.ref.resource is CONFIGMAP for a in plan.actions)


def writes_status(plan: Plan) -> bool:
    """Whether a plan writes a pool's status."""
    return any(isinstance(a, Apply) and a.ref.resource is GPUPOOL and a.subresource for a in plan.actions)


def _resume(view: ObservedPool, state: PoolState, now: float) -> list[Action]:
    """Try again what failed where the annotation asks for it, and remove the annotation once that is done."""
    pool = view.pool
    if pool.metadata.annotations.get(names.RESUME) != "true":
        return []
    if (retries := retry_layouts(view, now, state.desired, state.applied)) is None:
        return []  # the annotation stays until it can be followed
    body = {"metadata": {"annotations": {names.RESUME: None}}}
    actions: list[Action] = [*retries, Merge(ref(GPUPOOL, pool), pool.metadata.resource_version, body)]
    if retries or state.phase == "Halted":
        message = "What failed is tried again, as the annotation asked."
        actions.append(EmitEvent(ref(GPUPOOL, pool), "Normal", names.EVENT_RESUMED, message))
    return actions


def _remove_operands(view: ObservedPool, now: float) -> list[Action]:
    """Remove all of a pool from the nodes, and its finalizer: its last card has left, or the module is disabled."""
    # Whoever computes by a daemon would end with it: a disabled module leaves it to them.
    shared = view.mps if not pool_users(view.members, view.pods, now) else None
    daemonsets = [each for each in (view.daemonset, view.mig_manager, shared) if each is not None]
    annotations = unassign_with_pool(view, (*view.members, *view.assigned_cards))
    return [
        *remove_outlived_annotations(view, now),
        *annotations,
        *deletions(view.configs, daemonsets),
        *dismantle.release(view.pool),
    ]


def _plan_disabled(view: ObservedPool, now: float) -> Plan:
    """The module is disabled: the plugins withdraw the cards, then the operands go; spec and cards stay as they are.

    Cards stay members and keep their annotations. A plugin that does not answer has `pools.pluginPatience`.
    """
    draft, state = PlanBuilder(), evaluate_pool(view, now)
    if writes := open_or_close(view, state, now):
        draft.add(*writes)  # it brings the pool back
        return draft.build()
    began = state.maintenance_since if state.maintenance_since is not None else now
    left = began + view.settings.pools.plugin_patience - now
    if state.still_offered and view.daemonset is not None and left > 0:
        draft.add(*plan_allowed_cards(view, state, 0.0, draft))
        draft.requeue_within(left)
    else:
        draft.add(*_remove_operands(view, now))
    return draft.build()
