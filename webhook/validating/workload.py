"""Warnings about a workload whose pods will be refused for what does not pass by waiting for a card. Pure.

A ReplicaSet hides refusals in its events; here they are told to whoever applies the Deployment. Nothing is refused: the
pool may be made, or access given, before the pods come. Groups are not checked: a controller makes the pods.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from controllers.domain.request import PoolRequest
from webhook.decision import access, pod_request
from webhook.decision.verdict import Denied
from webhook.validating.result import ALLOWED, ReviewResult, warned

if TYPE_CHECKING:
    from collections.abc import Iterable

    from controllers.api.gpupool import GPUPool
    from controllers.api.kube import PodSpec
    from webhook.decision.access import AccessReview, Requester
    from webhook.decision.records import AdmissionPodSpec


def asked_pool(spec: PodSpec) -> str | None:
    """The pool that the pods ask for; None where they ask for none, or wrongly."""
    wanted = pod_request.parse_pool_request(spec)
    return wanted.pool if isinstance(wanted, PoolRequest) else None


def validate(
    kind: str,
    spec: AdmissionPodSpec,
    requester: Requester,
    *,
    pool: GPUPool | None,
    known_pools: Iterable[str],
    review: AccessReview = access.NOT_REVIEWED,
) -> ReviewResult:
    """What its author should know. `pool`: the one asked for; `review`: what RBAC says of it."""
    wanted = pod_request.parse_pool_request(spec)
    if wanted is None:
        return ALLOWED
    refusal: Denied | None
    if isinstance(wanted, Denied):
        refusal = wanted
    elif (refusal := pod_request.check_pool_is_open(wanted, pool, known_pools)) is None and pool is not None:
        refusal = None if review.failure else _access(pool, requester, review)
    return warned(f"pods of this {kind} will be refused: {refusal.message}") if refusal is not None else ALLOWED


def _access(pool: GPUPool, requester: Requester, review: AccessReview) -> Denied | None:
    if requester.labels is None and access.depends_on_namespace_labels(pool, requester.namespace):
        return None  # its labels decide, and they are not known
    return access.resolve(pool, requester, review).denied
