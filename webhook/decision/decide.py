"""The decision about a pod: asked for what, allowed, possible, where. Pure.

Checks run in the order in which a person can act on them: the request itself, the pool,
access, and only then capacity, which tells much about the pool. `View` is frozen; whoever
made it has chosen the time that it shows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from controllers.api import bounds, names
from controllers.domain.fits import Wants
from webhook.decision import access, affinity, pod_patch, pod_request, shortage
from webhook.decision.placement import PlacementPolicy, candidate_nodes, pick_cards, reserve_for_pending, without_cards
from webhook.decision.verdict import INVALID, AllowedWithoutCards, Denied, Placed, PoolRequest, Verdict

if TYPE_CHECKING:
    from collections.abc import Mapping

    from controllers.api.gpupool import GPUPool, Toleration
    from controllers.api.kube import Namespace
    from controllers.api.settings import Settings
    from controllers.api.tenant import NodeTerm
    from controllers.domain.waiting import Waiting
    from webhook.decision.placement import NodeCapacity, Placement
    from webhook.decision.records import AdmissionPodSpec
    from webhook.decision.review import Request
    from webhook.reservations.unseen import UnseenHistory


@dataclass(frozen=True, slots=True)
class View:
    """What is known about a pool and a namespace at one moment."""

    pool: GPUPool | None
    known_pools: tuple[str, ...]
    namespace: Namespace | None
    unseen: int
    """Reservations of the namespace whose pods should have appeared by now."""
    capacities: tuple[NodeCapacity, ...]
    settings: Settings
    tolerated: tuple[Toleration, ...] = ()
    """What the pool's pods tolerate beside what they bring."""
    unseen_history: UnseenHistory | None = None
    """What counts against the namespace, where a reservation of it ended unseen lately."""
    waiting: tuple[Waiting, ...] = ()
    """Pods that have been admitted, lost their reservations, and come before newcomers."""


def decide(
    request: Request,
    ask: PoolRequest,
    view: View,
    *,
    request_id: str,
    use: access.AccessReview = access.NOT_REVIEWED,
    avoid: frozenset[str] = frozenset(),
) -> Verdict:
    """Judge a pod that asks for cards. `use`: what RBAC says. `avoid`: cards that turned out to be gone."""
    spec, pool = request.pod.spec, view.pool
    refusal = pod_request.check_placement_bounds(spec) or pod_request.check_pool_is_open(ask, pool, view.known_pools)
    if refusal is not None or pool is None:
        return refusal or AllowedWithoutCards()
    refusal = access.check(
        pool,
        namespace=request.namespace,
        labels=view.namespace,
        account=spec.service_account_name,
        user=request.user,
        use=use,
    )
    refusal = (
        refusal
        or shortage.check_unseen_limit(request.namespace, view.unseen, view.settings.admission.max_unseen)
        or shortage.check_unseen_share(ask, request.namespace, view.capacities, view.unseen_history)
    )
    if refusal is not None:
        return refusal
    scheduling, defaults = pool.spec.scheduling, view.settings.scheduling
    added_affinity = scheduling.affinity if scheduling is not None else None
    pool_terms = _pool_terms(pool, spec, added_affinity)
    if isinstance(pool_terms, Denied):
        return pool_terms
    rules = PlacementPolicy(
        (scheduling.strategy if scheduling else None) or defaults.default_strategy,
        (scheduling.topology_key if scheduling else None) or defaults.topology_key,
    )
    capacities = without_cards(view.capacities, avoid) if avoid else view.capacities
    capacities = reserve_for_pending(capacities, view.waiting) if view.waiting else capacities
    placement = _place_cards(ask, capacities, Wants.of(spec, view.tolerated, pool_terms), rules, request_id)
    if placement is None:
        return shortage.insufficient_capacity(ask, pool, capacities, spec.node_name)
    patch = pod_patch.admitted(
        request.raw,
        pool=pool.name,
        node=placement.node,
        request_id=request_id,
        devices=placement.devices,
        tolerations=view.tolerated,
        runtime_class=view.settings.admission.runtime_class_name,
        spread_over=rules.topology_key if rules.strategy == "Spread" else None,
        added_affinity=added_affinity,
        person=access.authorizing_person(
            pool,
            namespace=request.namespace,
            labels=view.namespace,
            account=spec.service_account_name,
            user=request.user,
            use=use,
        ),
    )
    return Placed(ask, request_id, placement, patch)


def _pool_terms(
    pool: GPUPool, spec: AdmissionPodSpec, added: Mapping[str, Any] | None
) -> tuple[NodeTerm, ...] | Denied | None:
    """The nodes that the pool's own affinity leaves; None where it leaves all."""
    if not added:
        return None
    try:
        terms = affinity.required_terms(affinity.read(added))
    except ValueError as error:
        return Denied(
            names.POOL_MISCONFIGURED,
            f"GPUPool {pool.name} gives no cards now: {error}."
            f" Its administrator has to mend it there: kubectl edit gpupool {pool.name}.",
        )
    if terms is not None and (found := bounds.joined_excess(spec.required_terms or (), terms)) is not None:
        return Denied(
            INVALID,
            f"the pod's node affinity, joined with that of GPUPool {pool.name}, would have {found}. Use fewer terms.",
        )
    return terms


def _place_cards(
    ask: PoolRequest,
    capacities: tuple[NodeCapacity, ...] | list[NodeCapacity],
    wants: Wants,
    rules: PlacementPolicy,
    seed: str,
) -> Placement | None:
    for node, node_capacity in candidate_nodes(capacities, ask, wants, rules, seed):
        if (placement := pick_cards(node.name, node_capacity, ask.units, rules, seed)) is not None:
            return placement
    return None
