"""What the decision about a pod is made of: the pod with its pool and its access, and the pool's capacity. Pure.

`PodContext` is resolved once for a review, and anew only where the pool or the namespace has changed since; `View` is
taken for each try, since others reserve in between.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from controllers.api import bounds, names
from controllers.domain import refusals
from webhook.decision import access, affinity, pod_request
from webhook.decision.access import NOT_REVIEWED, Access
from webhook.decision.verdict import INVALID, Denied

if TYPE_CHECKING:
    from controllers.api.gpupool import GPUPool, Toleration
    from controllers.api.settings import Settings
    from controllers.api.tenant import NodeTerm
    from controllers.domain.placement.capacity import NodeCapacity
    from controllers.domain.request import PoolRequest
    from controllers.domain.waiting import PendingPod
    from webhook.decision.access import AccessReview, Requester
    from webhook.decision.records import AdmissionPodSpec
    from webhook.decision.review import Request
    from webhook.decision.shortage import UnseenHistory


@dataclass(frozen=True, slots=True)
class PodContext:
    """A pod that is created, the pool that it asks for, and whether it may use it."""

    request: Request
    wanted: PoolRequest
    pool: GPUPool | None
    requester: Requester
    closed: Denied | None = None
    """Why the pool gives cards to nobody now."""
    access: Access = access.UNRESTRICTED
    pool_terms: tuple[NodeTerm, ...] | Denied | None = None
    """The nodes that the pool's own affinity leaves, None where it leaves all; Denied where it leaves none."""


@dataclass(frozen=True, slots=True)
class View:
    """What the caches tell of a pool's capacity, and of a namespace's reservations, at one moment."""

    unseen: int
    """Reservations of the namespace whose pods should have appeared by now."""
    capacities: tuple[NodeCapacity, ...]
    settings: Settings
    tolerated: tuple[Toleration, ...] = ()
    """What the pool's pods tolerate beside what they bring."""
    unseen_history: UnseenHistory | None = None
    """What counts against the namespace, where a reservation of it ended unseen lately."""
    pending: tuple[PendingPod, ...] = ()
    """Pods that have been admitted, lost their reservations, and come before newcomers."""
    queued: int = 0
    """Pods behind our gate that wait for cards of the pool alone."""
    queued_of_namespace: int = 0
    """Pods of the namespace behind our gate for the pool, whatever else they wait for."""


def resolve(
    request: Request,
    wanted: PoolRequest,
    pool: GPUPool | None,
    requester: Requester,
    *,
    known_pools: tuple[str, ...] = (),
    review: AccessReview = NOT_REVIEWED,
) -> PodContext:
    """Decide all that rests on the pool's spec and conditions and on the pod alone. `review`: what RBAC says."""
    closed = pod_request.check_pool_is_open(wanted, pool, known_pools)
    if closed is not None or pool is None:
        return PodContext(request, wanted, pool, requester, closed)
    found = access.resolve(pool, requester, review)
    terms = None if found.denied is not None else _pool_terms(pool, request.pod.spec)
    return PodContext(request, wanted, pool, requester, None, found, terms)


def _pool_terms(pool: GPUPool, spec: AdmissionPodSpec) -> tuple[NodeTerm, ...] | Denied | None:
    added = pool.spec.scheduling.affinity if pool.spec.scheduling is not None else None
    if not added:
        return None
    try:
        terms = affinity.required_terms(affinity.read(added))
    except ValueError as error:
        return Denied(
            names.POOL_MISCONFIGURED,
            f"{refusals.POOL_CLOSED.begin(pool=pool.name)}{error}."
            f" Its administrator has to mend it there: kubectl edit gpupool {pool.name}.",
        )
    if terms is not None and (found := bounds.joined_excess(spec.required_terms or (), terms)) is not None:
        return Denied(
            INVALID,
            f"the pod's node affinity, joined with that of GPUPool {pool.name}, would have {found}. Use fewer terms.",
        )
    return terms
