"""Validation of admitted pods: of one whose last scheduling gate goes, and of one that is bound to a node. Pure.

Access is checked where a pod is created, and behind a scheduling gate it may wait there for weeks: it counts as it is
when the gate goes. Who binds pods in one namespace alone is no scheduler of the cluster, and could take a slot that
another pod was reserved: such a pod is bound where its own cards are reserved.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import ValidationError

from controllers.api import names
from controllers.api.record import adapter
from controllers.domain.wording import listed
from webhook.decision import access
from webhook.decision.records import UserInfo
from webhook.decision.verdict import Denied
from webhook.validating.result import ALLOWED, ReviewResult

if TYPE_CHECKING:
    from controllers.api.gpupool import GPUPool
    from controllers.api.kube import Pod
    from webhook.decision.access import AccessReview, Requester


def requested_by(pod: Pod) -> UserInfo | None:
    """The person on whom the pod's access rests, as the webhook noted when the pod was created; else None."""
    try:
        found: UserInfo = adapter(UserInfo).validate_json(pod.metadata.annotations.get(names.REQUESTED_BY, ""))
    except ValidationError:
        return None
    return found


def validate_release(pool: GPUPool, requester: Requester, review: AccessReview) -> ReviewResult:
    """Whether a pod whose last gate goes may still use its pool, as if the same person created it now."""
    denied = access.resolve(pool, requester, review).denied
    return ALLOWED if denied is None else ReviewResult(denied)


def validate_binding(pod: Pod, node: str, reserved: frozenset[str]) -> ReviewResult:
    """Whether a pod that asks for cards may be bound to a node. `reserved`: where cards are reserved for it."""
    if node in reserved:
        return ALLOWED
    where = (
        f"its cards are reserved on node {listed(sorted(reserved))}" if reserved else "no card is reserved for it now"
    )
    return ReviewResult(
        Denied(
            names.NOT_RESERVED,
            f"pod {pod.key} cannot be bound to node {node}: {where}. Bind it where its cards are reserved, or leave it"
            " to the cluster's scheduler; a pod that waits is reserved for anew when cards are free.",
        )
    )
