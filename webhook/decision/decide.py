"""The decision about a pod that asks for cards: refused, placed on a node with cards, or let wait. Pure.

`CHECKS` run in the order in which a person can act on what they refuse: the request itself, the pool, access, what the
namespace left behind. Capacity comes last, since it tells much about the pool.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from controllers.domain.node_fit import PodConstraints
from controllers.domain.placement.capacity import without_cards
from controllers.domain.placement.choice import place, policy_of
from webhook.decision import pod_patch, pod_request, queueing, shortage
from webhook.decision.pending import reserve_for_pending
from webhook.decision.pod_patch import Additions
from webhook.decision.verdict import Denied, Placed, Queued, Verdict

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from controllers.api.gpupool import GPUPool
    from controllers.domain.placement.capacity import NodeCapacity
    from webhook.decision.context import PodContext, View

    Check = Callable[[PodContext, View], Denied | None]


def placement_is_within_bounds(pod: PodContext, _: View) -> Denied | None:
    """What the pod says about nodes is no more than each node can be held against."""
    return pod_request.check_placement_bounds(pod.request.pod.spec)


def pool_is_open(pod: PodContext, _: View) -> Denied | None:
    """The pool exists, stays, and is neither Misconfigured nor in Maintenance."""
    return pod.closed


def clients_are_single(pod: PodContext, _: View) -> Denied | None:
    """Of a pool of mode MPS each container asks for one client: it can be one of one card alone."""
    return pod_request.check_clients(pod.request.pod.spec, pod.pool)


def access_is_granted(pod: PodContext, _: View) -> Denied | None:
    """The pool's lists, or RBAC, let the pod use it."""
    return pod.access.denied


def unseen_is_below_limit(pod: PodContext, view: View) -> Denied | None:
    """Not too many reservations of the namespace wait for pods that never appeared."""
    return shortage.check_unseen_limit(pod.request.namespace, view.unseen, view.settings.admission.max_unseen)


def unseen_is_below_share(pod: PodContext, view: View) -> Denied | None:
    """A namespace whose reservation ended unseen lately does not take more than a share of the pool."""
    return shortage.check_unseen_share(pod.wanted, pod.request.namespace, view.capacities, view.unseen_history)


def pool_affinity_is_usable(pod: PodContext, _: View) -> Denied | None:
    """The affinity that the pool adds can be read, and joined with the pod's."""
    return pod.pool_terms if isinstance(pod.pool_terms, Denied) else None


CHECKS: Final[tuple[Check, ...]] = (
    placement_is_within_bounds,
    queueing.check_gang,
    pool_is_open,
    access_is_granted,
    clients_are_single,
    pool_affinity_is_usable,
)
RESERVATION_CHECKS: Final[tuple[Check, ...]] = (unseen_is_below_limit, unseen_is_below_share)
"""Of pods for which cards are reserved before they appear: one that waits in the queue appears first."""


def decide(
    pod: PodContext,
    view: View,
    *,
    request_id: str,
    avoid: frozenset[str] = frozenset(),
    may_reserve: bool = True,
) -> Verdict:
    """Refuse the pod, choose its node and cards, or let it wait.

    `avoid`: cards that turned out to be gone. `may_reserve`: whether a reservation can be written at once; where it
    cannot, a pod that may wait does.
    """
    denied = _first(CHECKS, pod, view)
    if denied is not None:
        return denied
    if pod.pool is None:
        msg = "a pod whose pool is unknown passed the checks"
        raise AssertionError(msg)
    waits = queueing.waits_in_shortage(pod, pod.pool, view.settings.admission)
    unproven = _first(RESERVATION_CHECKS, pod, view)
    at_once = may_reserve and unproven is None and not queueing.others_come_first(pod, pod.pool, view)
    if queueing.waits_for_others(pod, view) or (waits and not at_once):
        return _queued(pod, pod.pool, view, request_id)
    if unproven is not None:
        return unproven
    return _place(pod, pod.pool, view, request_id, avoid=avoid, waits=waits)


def _place(
    pod: PodContext, pool: GPUPool, view: View, request_id: str, *, avoid: frozenset[str], waits: bool
) -> Verdict:
    """Choose node and cards; where there are none, the pod waits or is refused."""
    capacities: Sequence[NodeCapacity] = without_cards(view.capacities, avoid) if avoid else view.capacities
    capacities = reserve_for_pending(capacities, view.pending) if view.pending else capacities
    terms = None if isinstance(pod.pool_terms, Denied) else pod.pool_terms
    wants = PodConstraints.of(pod.request.pod.spec, view.tolerated, terms)
    placement = place(capacities, pod.wanted, wants, policy_of(pool, view.settings.scheduling), request_id)
    if placement is None:
        node_name = pod.request.pod.spec.node_name
        if waits:
            why = shortage.why(pod.wanted, pool, capacities, node_name)
            return _queued(pod, pool, view, request_id, shortage=why)
        return shortage.insufficient_capacity(pod.wanted, pool, capacities, node_name)
    patch = pod_patch.admitted(pod.request.raw, _additions(pod, pool, view, request_id), placement)
    return Placed(pod.wanted, request_id, placement, patch)


def _first(checks: tuple[Check, ...], pod: PodContext, view: View) -> Denied | None:
    """What the first check says that refuses the pod."""
    return next((found for check in checks if (found := check(pod, view)) is not None), None)


def _queued(pod: PodContext, pool: GPUPool, view: View, request_id: str, *, shortage: str = "") -> Verdict:
    """Let the pod wait. `shortage`: why the pool has no cards for it now, where that is why."""
    if (denied := queueing.check_waiting_limit(pod, pool, view)) is not None:
        return denied
    patch = pod_patch.queued(pod.request.raw, _additions(pod, pool, view, request_id))
    return Queued(pod.wanted, request_id, patch, shortage)


def _additions(pod: PodContext, pool: GPUPool, view: View, request_id: str) -> Additions:
    """What the pool adds to each of its pods."""
    scheduling = pool.spec.scheduling
    return Additions(
        pool=pool.name,
        request_id=request_id,
        tolerations=view.tolerated,
        runtime_class=view.settings.admission.runtime_class_name,
        affinity=(scheduling.affinity if scheduling is not None else None) or {},
        person=pod.access.person,
    )
