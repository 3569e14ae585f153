"""Pods that could not be made: they exist only in the events of whatever tried to make them. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from controllers.api import names
from controllers.api.conditions import MAINTENANCE
from controllers.domain.refusals import WAITING_LIMIT, recognize
from controllers.explain.cures import cure_of_closed, is_lasting

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from controllers.api.meta import KubeObject
    from controllers.explain.records import SeenEvent

FAILED_CREATE: Final = "FailedCreate"
CURES: Final = {
    names.POOL_NOT_FOUND: "Correct the name in the pod's limits (kubectl gpu pools lists the pools),"
    " or have an administrator create the pool",
    names.MIXED_POOL_REQUEST: "Ask for one pool in all containers of the pod, or split the pod",
    names.ACCESS_DENIED: "An administrator of the pool adds the namespace: kubectl edit gpupool {pool}, spec.access;"
    " the controller then tries again by itself",
    names.POOL_IN_MAINTENANCE: "Wait, the controller tries again by itself; kubectl gpu explain pool {pool}"
    " says how far the pool is",
    names.POOL_MISCONFIGURED: "Show the pool's administrator: kubectl gpu explain pool {pool}",
    names.INSUFFICIENT_CAPACITY: "Wait, the controller tries again by itself when cards are free;"
    " kubectl gpu cards --pool {pool} shows who has them, kubectl gpu assign <card> {pool} adds one",
}
"""What to do, by the error code at the head of the webhook's message."""
CURES_OF_REFUSALS: Final = {
    WAITING_LIMIT: "Wait, the controller tries again by itself when fewer pods of the namespace wait;"
    " kubectl gpu queue {pool} shows them. An administrator can allow more:"
    " kubectl edit gpupool {pool}, spec.queue.maxWaiting",
}
"""What to do about a refusal where that is not what its error code says."""
FIELDS: Final = {"reason": FAILED_CREATE}
"""Field selectors of the events that tell of pods that could not be made."""


def last_failure(kind: str, maker: KubeObject, events: Iterable[SeenEvent]) -> SeenEvent | None:
    """The last time that exactly this object could not make a pod; not one of the same name before it."""

    def is_its(event: SeenEvent) -> bool:
        about = event.involved_object
        same = about.uid in ("", maker.metadata.uid)
        return event.reason == FAILED_CREATE and same and (about.kind, about.name) == (kind, maker.name)

    return max(filter(is_its, events), key=lambda event: event.when, default=None)


def makers(pod: str) -> list[tuple[str, str]]:
    """Kinds and names of what may make a pod of that name, or is meant by it.

    A refused pod's name is known to nobody, so people ask under whatever name they have. A Deployment's pod is
    `<deployment>-<hash>-<suffix>`, those of the other kinds `<name>-<suffix>`.
    """
    stem = pod.rpartition("-")[0]
    direct = ("replicaset", "statefulset", "daemonset", "job")
    guesses = [("deployment", pod), *((kind, pod) for kind in direct), *((kind, stem) for kind in direct)]
    guesses.append(("deployment", stem.rpartition("-")[0]))
    return [(kind, name) for kind, name in guesses if name]


def cure(why: str) -> str:
    """What to do about a refusal; empty where its error code is none of ours."""
    found = recognize(why)
    if found is not None and is_lasting(MAINTENANCE, found.reason):
        cured = cure_of_closed(found.pool, MAINTENANCE, found.reason)
        return f"{cured}; the controller then tries again by itself"
    pool = found.pool if found is not None and found.pool else "<pool>"
    of_code = CURES.get(why.partition(":")[0], "")
    text = CURES_OF_REFUSALS.get(found.refusal, of_code) if found is not None else of_code
    return text.format(pool=pool)


def nothing_found(name: str, namespace: str, pods: Sequence[str], there: Sequence[str] = (), unread: str = "") -> str:
    """The sentences for a pod that is not there, and that nothing fails to make.

    `there`: kinds and names of what could make it and has all its pods. `unread`: why something was not looked at.
    """
    near = [other for other in pods if other.startswith(f"{name}-")][:3]
    hint = f" Pods of such names: {', '.join(near)}." if near else ""
    hint += f" {there[0]} has all its pods: kubectl gpu explain {there[0]} -n {namespace}." if there else ""
    hint += f" {unread}." if unread else ""
    what = "" if unread else ", and nothing fails to make one of that name"
    return (
        f"There is no pod {name!r} in namespace {namespace}{what}.{hint}"
        " Name its namespace with -n; kubectl get pods -A lists all."
    )
