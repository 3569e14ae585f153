"""The decision about a pod that asks for cards: refused, or placed on a node with cards and a patch. Pure.

`CHECKS` run in the order in which a person can act on what they refuse: the request itself, the pool, access, what the
namespace left behind. Capacity comes last, since it tells much about the pool.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from controllers.domain.node_fit import PodConstraints
from controllers.domain.placement.capacity import without_cards
from controllers.domain.placement.choice import place, policy_of
from webhook.decision import pod_patch, pod_request, shortage
from webhook.decision.pending import reserve_for_pending
from webhook.decision.verdict import Denied, Placed, Verdict

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from controllers.domain.placement.capacity import NodeCapacity
    from webhook.decision.context import PodContext, View

    Check = Callable[[PodContext, View], Denied | None]


def placement_is_within_bounds(pod: PodContext, _: View) -> Denied | None:
    """What the pod says about nodes is no more than each node can be held against."""
    return pod_request.check_placement_bounds(pod.request.pod.spec)


def pool_is_open(pod: PodContext, _: View) -> Denied | None:
    """The pool exists, stays, and is neither Misconfigured nor in Maintenance."""
    return pod.closed


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
    pool_is_open,
    access_is_granted,
    unseen_is_below_limit,
    unseen_is_below_share,
    pool_affinity_is_usable,
)


def decide(pod: PodContext, view: View, *, request_id: str, avoid: frozenset[str] = frozenset()) -> Verdict:
    """Refuse the pod, or choose its node and cards. `avoid`: cards that turned out to be gone."""
    denied = next((found for check in CHECKS if (found := check(pod, view)) is not None), None)
    if denied is not None:
        return denied
    if pod.pool is None:
        msg = "a pod whose pool is unknown passed the checks"
        raise AssertionError(msg)
    policy = policy_of(pod.pool, view.settings.scheduling)
    capacities: Sequence[NodeCapacity] = without_cards(view.capacities, avoid) if avoid else view.capacities
    capacities = reserve_for_pending(capacities, view.pending) if view.pending else capacities
    terms = None if isinstance(pod.pool_terms, Denied) else pod.pool_terms
    wants = PodConstraints.of(pod.request.pod.spec, view.tolerated, terms)
    placement = place(capacities, pod.wanted, wants, policy, request_id)
    if placement is None:
        return shortage.insufficient_capacity(pod.wanted, pod.pool, capacities, pod.request.pod.spec.node_name)
    patch = pod_patch.admitted(
        pod.request.raw,
        pool=pod.pool.name,
        node=placement.node,
        request_id=request_id,
        devices=placement.devices,
        tolerations=view.tolerated,
        runtime_class=view.settings.admission.runtime_class_name,
        spread_over=policy.topology_key if policy.strategy == "Spread" else None,
        added_affinity=pod.pool.spec.scheduling.affinity if pod.pool.spec.scheduling is not None else None,
        person=pod.access.person,
    )
    return Placed(pod.wanted, request_id, placement, patch)
