"""The decision about a pod: asked for what, allowed, possible, where. Pure.

Checks run in the order in which a person can act on them: the request itself, the pool,
access, and only then capacity, which tells much about the pool. `View` is frozen; whoever
made it has chosen the time that it shows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from controllers.api import bounds, names
from controllers.domain.node_fit import PodConstraints
from webhook import access, affinity, mutate, place, shortage, validate
from webhook.verdict import INVALID, Ask, Denied, Granted, Untouched, Verdict

if TYPE_CHECKING:
    from collections.abc import Mapping

    from controllers.api.gpupool import GPUPool, Toleration
    from controllers.api.kube import Namespace
    from controllers.api.settings import Settings
    from controllers.api.tenant import NodeTerm
    from controllers.domain.waiting import PendingPod
    from webhook.place import Placement, Shelf
    from webhook.records import AskingSpec
    from webhook.review import Request
    from webhook.unseen import Doubt


@dataclass(frozen=True, slots=True)
class View:
    """What is known about a pool and a namespace at one moment."""

    pool: GPUPool | None
    known_pools: tuple[str, ...]
    namespace: Namespace | None
    unseen: int
    """Reservations of the namespace whose pods should have appeared by now."""
    shelves: tuple[Shelf, ...]
    settings: Settings
    tolerated: tuple[Toleration, ...] = ()
    """What the pool's pods tolerate beside what they bring."""
    doubt: Doubt | None = None
    """What counts against the namespace, where a reservation of it ended unseen lately."""
    waiting: tuple[PendingPod, ...] = ()
    """Pods that have been admitted, lost their reservations, and come before newcomers."""


def decide(
    request: Request,
    ask: Ask,
    view: View,
    *,
    request_id: str,
    use: access.Use = access.NOT_ASKED,
    avoid: frozenset[str] = frozenset(),
) -> Verdict:
    """Judge a pod that asks for cards. `use`: what RBAC says. `avoid`: cards that turned out to be gone."""
    spec, pool = request.pod.spec, view.pool
    refusal = validate.placement(spec) or validate.pool_gives(ask, pool, view.known_pools)
    if refusal is not None or pool is None:
        return refusal or Untouched()
    refusal = access.judge(
        pool,
        namespace=request.namespace,
        labels=view.namespace,
        account=spec.service_account_name,
        user=request.user,
        use=use,
    )
    refusal = (
        refusal
        or shortage.over_cap(request.namespace, view.unseen, view.settings.admission.max_unseen)
        or shortage.over_share(ask, request.namespace, view.shelves, view.doubt)
    )
    if refusal is not None:
        return refusal
    scheduling, defaults = pool.spec.scheduling, view.settings.scheduling
    added_affinity = scheduling.affinity if scheduling is not None else None
    pool_terms = _pool_terms(pool, spec, added_affinity)
    if isinstance(pool_terms, Denied):
        return pool_terms
    rules = place.Rules(
        (scheduling.strategy if scheduling else None) or defaults.default_strategy,
        (scheduling.topology_key if scheduling else None) or defaults.topology_key,
    )
    shelves = place.without(view.shelves, avoid) if avoid else view.shelves
    shelves = place.keep(shelves, view.waiting) if view.waiting else shelves
    placement = _place(ask, shelves, PodConstraints.of(spec, view.tolerated, pool_terms), rules, request_id)
    if placement is None:
        return shortage.lacking(ask, pool, shelves, spec.node_name)
    patch = mutate.admitted(
        request.raw,
        pool=pool.name,
        node=placement.node,
        request_id=request_id,
        devices=placement.devices,
        tolerations=view.tolerated,
        runtime_class=view.settings.admission.runtime_class_name,
        spread_over=rules.topology_key if rules.strategy == "Spread" else None,
        added_affinity=added_affinity,
        person=access.vouching(
            pool,
            namespace=request.namespace,
            labels=view.namespace,
            account=spec.service_account_name,
            user=request.user,
            use=use,
        ),
    )
    return Granted(ask, request_id, placement, patch)


def _pool_terms(
    pool: GPUPool, spec: AskingSpec, added: Mapping[str, Any] | None
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


def _place(
    ask: Ask, shelves: tuple[Shelf, ...] | list[Shelf], wants: PodConstraints, rules: place.Rules, seed: str
) -> Placement | None:
    for node, shelf in place.candidates(shelves, ask, wants, rules, seed):
        if (placement := place.pick(node.name, shelf, ask.units, rules, seed)) is not None:
            return placement
    return None
