"""Why a pod waits for cards, and the pod's condition that says so. Pure.

The condition is written when the reason changes, so a long queue that moves costs no writes. A pod that gets its cards
within a second of its creation never has it.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
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
    found: Callable[[], str] | None = field(default=None, compare=False, repr=False)
    """What the pool's cards are to the pod, in numbers: other ones with each look, asked for only to be written."""


def plan_condition(pod: TenantPod, pool: str, wait: Wait | None, now: float) -> Plan:
    """The pod's condition, where it does not say so yet. `wait`: None of a pod that has been released."""
    draft, current = PlanBuilder(), pod.status.queued
    if wait is None and (current is None or is_gated(pod.spec)):
        return draft.build()
    message = _message(pod, pool, wait)
    made = condition(
        () if current is None else (current,),
        names.QUEUED,
        status=wait is not None,
        reason=wait.cause if wait is not None else "Released" if _has_cards(pod) else "ReleasedWithoutCards",
        message=message,
        now=stamp(now),
    )
    if made == _without_numbers(current, wait, message):
        return draft.build()
    if current is None and (early := begun(pod.metadata.creation_timestamp, now) + SETTLE - now) > 0:
        draft.requeue_within(early)
        return draft.build()
    if wait is not None and wait.found is not None and (numbers := wait.found()):
        message = f"{message}{THEN}{numbers}."
        made = replace(made, message=message[:MESSAGE_MAX])
    draft.add(apply_condition(pod, made))
    event = names.EVENT_QUEUED if wait is not None else names.EVENT_CARDS_RESERVED
    draft.add(EmitEvent(ref(POD, pod), "Normal", event, message))
    return draft.build()


def _without_numbers(current: Condition | None, wait: Wait | None, message: str) -> Condition | None:
    """The condition as it was written, but for what changes as the queue moves: of that its reason tells."""
    if current is None or wait is None or not (wait.found is not None or wait.cause in MOVING):
        return current
    return replace(current, message=message[:MESSAGE_MAX])


MOVING: Final[frozenset[Cause]] = frozenset({"OverLimit", "WaitingForGang"})
"""Causes whose sentence has numbers: n pods of a gang that come one by one would be n² writes."""
_SENTENCES: Final[dict[Cause, str]] = {
    "Waiting": "The pod waits for {slots}: there are not enough free ones, or others are before it.",
    "OverLimit": "The pod waits for {slots}: its namespace has as many as the pool allows it{detail}.",
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
