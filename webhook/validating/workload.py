"""Whether the pods that a workload will make are refused for what does not pass by waiting for a card. Pure.

A ReplicaSet hides refusals in its events; here they are told to whoever applies the Deployment. Nothing is refused: the
pool may be made, or access given, before the pods come. Groups are not judged: a controller makes the pods.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from webhook.decision import access, pod_request
from webhook.decision.verdict import Denied, PoolRequest
from webhook.validating.result import ALLOWED, ReviewResult, warned

if TYPE_CHECKING:
    from collections.abc import Iterable

    from controllers.api.gpupool import GPUPool
    from controllers.api.kube import Namespace, PodSpec
    from webhook.decision.access import AccessReview
    from webhook.decision.records import AdmissionPodSpec


def asked_pool(spec: PodSpec) -> str | None:
    """The pool that the pods ask for; None where they ask for none, or wrongly."""
    ask = pod_request.parse_pool_request(spec)
    return ask.pool if isinstance(ask, PoolRequest) else None


def validate(
    kind: str,
    spec: AdmissionPodSpec,
    *,
    namespace: str,
    labels: Namespace | None,
    pool: GPUPool | None,
    known_pools: Iterable[str],
    use: AccessReview = access.NOT_REVIEWED,
) -> ReviewResult:
    """What its author should know.

    `labels`: the namespace, None where it is not known; `pool`: the one asked for; `use`: what RBAC says of it.
    """
    ask = pod_request.parse_pool_request(spec)
    if ask is None:
        return ALLOWED
    refusal: Denied | None
    if isinstance(ask, Denied):
        refusal = ask
    elif (
        (refusal := pod_request.check_pool_is_open(ask, pool, known_pools)) is None
        and pool is not None
        and not use.failure
    ):
        refusal = _access(pool, spec, namespace, labels, use)
    return warned(f"pods of this {kind} will be refused: {refusal.message}") if refusal is not None else ALLOWED


def _access(
    pool: GPUPool, spec: AdmissionPodSpec, namespace: str, labels: Namespace | None, use: AccessReview
) -> Denied | None:
    if labels is None and access.depends_on_namespace_labels(pool, namespace):
        return None  # its labels decide, and they are not known
    return access.check(pool, namespace=namespace, labels=labels, account=spec.service_account_name, use=use)
