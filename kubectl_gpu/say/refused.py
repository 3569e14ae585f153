"""Pods that the webhook refused: they exist only in the events of whatever tried to make them. Pure."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from controllers.api import names
from kubectl_gpu.say.explanation import Explanation, Finding
from kubectl_gpu.say.faults import refusal
from kubectl_gpu.say.words import since

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from kubectl_gpu.say.records import SeenEvent

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
"""What to do, by the word at the head of the webhook's error."""
_POOL = re.compile(r"GPUPool '?([a-z0-9][-a-z0-9]*)")


def refused(name: str, namespace: str, events: Iterable[SeenEvent], now: float) -> Explanation | None:
    """Why no pod comes of an object of that name, or of a name that begins or ends like it; None where none is told.

    A Deployment's pods are made by its ReplicaSet, `<name>-<hash>`, and a refused pod's own name is known to
    nobody: what is asked for may be the owner's name, its owner's, or the pod's.
    """
    of_name = [e for e in events if e.reason == FAILED_CREATE and _is_related(name, e.involved_object.name)]
    latest: dict[tuple[str, str], tuple[SeenEvent, str]] = {}
    for event in sorted(of_name, key=lambda event: event.when):
        if (why := refusal(event.message or "")) is not None:
            latest[event.involved_object.kind, event.involved_object.name] = (event, why)
    if not latest:
        return None
    findings = [_finding(event, why, now) for event, why in latest.values()]
    word = next(iter(latest.values()))[1].split(":", 1)[0]
    verdict = f"The webhook refuses the pods of {namespace}/{name}: {word}"
    return Explanation("Pod", f"{namespace}/{name}", verdict, tuple(findings))


def _is_related(name: str, owner: str) -> bool:
    return name == owner or name.startswith(f"{owner}-") or owner.startswith(f"{name}-")


def _finding(event: SeenEvent, why: str, now: float) -> Finding:
    about = event.involved_object
    when = f", {since(event.when, now)} ago" if event.when else ""
    return Finding("bad", f"{about.kind} {about.name} could not make a pod{when}: {why}", cure(why))


def cure(why: str) -> str:
    """What to do about a refusal; empty where its word is none of ours."""
    word, _, rest = why.partition(":")
    pool = _POOL.search(rest)
    return CURES.get(word, "").format(pool=pool[1] if pool else "<pool>")


def nothing_found(kind: str, name: str, namespace: str, known: Sequence[str]) -> str:
    """The sentence for a pod that is not there and of which no event tells."""
    near = [other for other in known if other.startswith(f"{name}-")][:3]
    hint = f" Pods of it: {', '.join(near)}." if near else ""
    return (
        f"There is no {kind} {name!r} in namespace {namespace}, and no event says that one was refused.{hint}"
        " Name its namespace with -n; kubectl get pods -A lists all."
    )
