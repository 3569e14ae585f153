"""Why a pod waits for cards, and the pod's condition that says so. Pure.

The condition is written when the reason changes, so a long queue that moves costs no writes. A pod that gets its cards
within a second of its creation never has it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Literal

from controllers.api import names
from controllers.api.conditions import MESSAGE_MAX, condition
from controllers.api.resources import POD
from controllers.domain.clock import begun, stamp
from controllers.domain.queue.gates import is_gated, other_gates
from controllers.domain.verdict.shortage import THEN
from controllers.domain.wording import listed, short
from controllers.gpupool.pod_status import apply_condition
from controllers.runtime.plan import EmitEvent, Plan, PlanBuilder, ref

if TYPE_CHECKING:
    from collections.abc import Callable

    from controllers.api.meta import Condition
    from controllers.api.tenant import TenantPod

Cause = Literal["Waiting", "OverLimit", "NoNodeFits", "PoolClosed", "OtherGates", "WaitingForGang", "ReleaseDenied"]
SETTLE: Final = 1.0
"""Seconds of a pod's life in which nothing is said of its waiting."""


@dataclass(frozen=True, slots=True)
class Wait:
    """Why a pod waits."""

    cause: Cause
    units: int
    """Slots that it waits for."""
    detail: str = ""
    """What is to be added to the sentence."""
    unlooked: bool = False
    """Whether nobody held it against the nodes this time, so that it may as well be one that no node could take."""


def plan_condition(
    pod: TenantPod, pool: str, wait: Wait | None, now: float, numbers: Callable[[], str] = lambda: ""
) -> Plan:
    """The pod's condition, where it does not say so yet. `wait`: None of a pod that has been released.

    `numbers`: what the pool is to the pod in numbers, other ones with each look; asked for only to be written.
    """
    draft, current = PlanBuilder(), pod.status.queued
    if wait is None and (current is None or is_gated(pod.spec)):
        return draft.build()
    made = _condition(pod, pool, wait, now)
    if _says(current, made, wait):
        return draft.build()
    if wait is not None and wait.unlooked:
        # It has been said already: other waiters decide from look to look which pods there is time for.
        hopeless = replace(wait, cause="NoNodeFits")
        if _says(current, _condition(pod, pool, hopeless, now), hopeless):
            return draft.build()
    if current is None and (early := begun(pod.metadata.creation_timestamp, now) + SETTLE - now) > 0:
        draft.requeue_within(early)
        return draft.build()
    message = _message(pod, pool, wait)
    if wait is not None and wait.cause in COUNTED and (found := numbers()):
        message = f"{message}{THEN}{found}."
        made = replace(made, message=message[:MESSAGE_MAX])
    draft.add(apply_condition(pod, made))
    event = names.EVENT_QUEUED if wait is not None else names.EVENT_CARDS_RESERVED
    draft.add(EmitEvent(ref(POD, pod), "Normal", event, message))
    return draft.build()


def _condition(pod: TenantPod, pool: str, wait: Wait | None, now: float) -> Condition:
    """The condition without numbers of the moment."""
    current = pod.status.queued
    return condition(
        () if current is None else (current,),
        names.QUEUED,
        status=wait is not None,
        reason=wait.cause if wait is not None else "Released" if _has_cards(pod) else "ReleasedWithoutCards",
        message=_message(pod, pool, wait),
        now=stamp(now),
    )


def _says(current: Condition | None, made: Condition, wait: Wait | None) -> bool:
    """Whether the condition is written, but for what changes as the queue moves: of that its reason tells."""
    if current is not None and wait is not None and wait.cause in COUNTED | MOVING:
        current = replace(current, message=made.message)
    return current == made


COUNTED: Final[frozenset[Cause]] = frozenset({"Waiting", "NoNodeFits", "OverLimit"})
"""Causes after whose sentence the numbers of the moment stand."""
MOVING: Final[frozenset[Cause]] = frozenset({"WaitingForGang"})
"""Causes whose sentence has numbers: n pods of a gang that come one by one would be n² writes."""
_SENTENCES: Final[dict[Cause, str]] = {
    "Waiting": "The pod waits for {slots}: there are not enough free ones, or others are before it.",
    "OverLimit": "The pod waits for {slots}: its namespace has as many as the pool allows it (spec.queue.namespaces).",
    "NoNodeFits": (
        "The pod waits for {slots}, and no node could ever take it: none has so many on one node, or none matches the"
        " pod's node selector, affinity and tolerations."
    ),
    "WaitingForGang": "The pod waits for {slots} together with gang{detail}.",
    "PoolClosed": "The pod waits for {slots}, and the pool gives no cards now: kubectl describe gpupool {pool}",
    "OtherGates": "The pod will wait for {slots} once its other scheduling gates are gone: {gates}.",
    "ReleaseDenied": "Cards were free for the pod, which waits for {slots}, and it was not let go on: {detail}",
}


def _message(pod: TenantPod, pool: str, wait: Wait | None) -> str:
    if wait is None and not _has_cards(pod):
        return (
            "The pod was let go on without cards, for an autoscaler or by an administrator. Of free cards of GPUPool"
            f" {pool} it gets the next."
        )
    if wait is None:
        return f"Cards of GPUPool {pool} are reserved for the pod; the scheduler places it now."
    slots = f"{wait.units} slot{'s' if wait.units != 1 else ''} of GPUPool {pool}"
    gates = listed(short(gate) for gate in other_gates(pod.spec))
    return _SENTENCES[wait.cause].format(slots=slots, pool=pool, gates=gates, detail=wait.detail)


def _has_cards(pod: TenantPod) -> bool:
    return bool(pod.metadata.annotations.get(names.DEVICES))
