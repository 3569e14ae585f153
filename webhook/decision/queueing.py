"""Whether a pod waits for cards instead of getting them while it is created, or being refused. Pure.

A pod that waits has our scheduling gate, and gpupool-controller gives it cards in its turn. A pod must wait where
others come first: other gates of its own, a queue manager, pods of the pool that wait already, its namespace's limit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from controllers.api import names
from controllers.api.gangs import OURS
from controllers.domain import refusals
from controllers.domain.queue.gangs import gang_of, may_be_of_gang
from controllers.domain.queue.gates import is_gated, other_gates
from controllers.domain.queue.policy import on_shortage, policy_of, queue_of
from webhook.decision.verdict import INVALID, Denied

if TYPE_CHECKING:
    from controllers.api.gpupool import GPUPool
    from controllers.api.settings import AdmissionSettings
    from webhook.decision.context import PodContext, View


def can_wait(pod: PodContext) -> bool:
    """Whether the pod can have a gate: the API server takes none on a pod that names its node."""
    return not pod.request.pod.spec.node_name


def check_gang(pod: PodContext, _: View) -> Denied | None:
    """Refuse a pod that says badly to which gang it belongs, or that could not wait for the others."""
    try:
        found = gang_of(pod.request.pod.metadata)
    except ValueError as error:
        return Denied(INVALID, f"{error}")
    if found is not None and not can_wait(pod):
        return Denied(
            INVALID,
            f"the pod belongs to gang {found.name}, whose pods wait for each other, and names its node"
            " (spec.nodeName); Kubernetes lets no such pod wait. Leave the node to the scheduler",
        )
    return None


def _is_of_gang(pod: PodContext) -> bool:
    meta = pod.request.pod.metadata
    try:
        return gang_of(meta) is not None or (OURS.size not in meta.annotations and may_be_of_gang(meta))
    except ValueError:
        return False


def waits_for_others(pod: PodContext, view: View) -> bool:
    """Whether others come first, or with the pod: no card is kept for it before they are there."""
    spec, labels = pod.request.pod.spec, (pod.request.raw.get("metadata") or {}).get("labels") or {}
    managed = any(key in labels for key in view.settings.admission.queue_labels)
    return can_wait(pod) and (managed or is_gated(spec) or bool(other_gates(spec)) or _is_of_gang(pod))


def waits_in_shortage(pod: PodContext, pool: GPUPool, settings: AdmissionSettings) -> bool:
    """Whether the pod waits where the pool has no cards for it now."""
    return can_wait(pod) and on_shortage(pool, settings) == "Queue"


def others_come_first(pod: PodContext, pool: GPUPool, view: View) -> bool:
    """Whether what is free is not simply the pod's: pods of the pool wait, or its namespace has a limit there."""
    return bool(view.pending) or view.queued > 0 or policy_of(pool).share(pod.request.namespace).limit is not None


def check_waiting_limit(pod: PodContext, pool: GPUPool, view: View) -> Denied | None:
    """Refuse a pod of a namespace of which too many wait for the pool already."""
    allowed = queue_of(pool).max_waiting
    if view.queued_of_namespace < allowed:
        return None
    begin = refusals.WAITING_LIMIT.begin(
        namespace=pod.request.namespace, waiting=view.queued_of_namespace, pool=pool.name
    )
    return Denied(
        names.INSUFFICIENT_CAPACITY,
        f"{begin}and spec.queue.maxWaiting allows {allowed} (exceeded quota). Create it again when some of them have"
        f" cards: kubectl gpu queue {pool.name}",
    )
