"""What a look at a queue came to, for metrics: why pods wait, and which of them there has been room for. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from controllers.domain.queue.gates import is_queued

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from controllers.api.tenant import TenantPod
    from controllers.gpupool.queue.records import ReservationRound
    from controllers.gpupool.queue.wait import Wait


@dataclass(frozen=True, slots=True)
class QueueLook:
    """What the last look at a queue came to."""

    reasons: Mapping[str, Wait] = field(default_factory=dict)
    """By key (`namespace/name`): why pods wait."""
    room_since: Mapping[str, float] = field(default_factory=dict)
    """By key, of pods that are to be let go on: the first look, in epoch seconds, that had room for them."""


def look_of(made: ReservationRound, before: QueueLook, pods: Iterable[TenantPod], now: float) -> QueueLook:
    """What a round came to. `before`: the look before it; `pods`: the pool's, on no node.

    A pod that was to be let go on, and still has its gate, goes on to be one until there is another reason for which it
    waits. That the API server did not let it go on is none: that is what keeps it.
    """
    room: dict[str, float] = {}
    if before.room_since:
        waiting = {pod.key for pod in pods if is_queued(pod)}
        for key, since in before.room_since.items():
            wait = made.reasons.get(key)
            if key in waiting and (wait is None or wait.cause == "ReleaseDenied"):
                room[key] = since
    # One of `reasons` is let go on without cards (`scale_up`): there is no room for it.
    served = {key for promise in made.promises for key in promise.pods if key not in made.reasons}
    return QueueLook(made.reasons, dict.fromkeys(served, now) | room)
