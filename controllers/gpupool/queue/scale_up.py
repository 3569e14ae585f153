"""Pods released without cards, so that an autoscaler sees them and adds nodes (`spec.queue.scaleUp`). Pure.

Autoscalers look at pods that the scheduler could not place, and the scheduler does not look at a pod behind a gate. So
where nothing can serve the first pods of a queue for a while, they are released without cards, in the queue's order and
no more of them than new nodes are wanted for. Their gate cannot come back: when cards come they are reserved for first,
as for every pod that lost its reservation (`pending_pods`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from controllers.api import names
from controllers.domain.clock import begun
from controllers.domain.lifecycle import live
from controllers.domain.queue.policy import queue_of
from controllers.domain.request import units_of
from controllers.gpupool.queue.records import Promise
from controllers.gpupool.queue.release import release_without_cards
from controllers.runtime.plan import PlanBuilder

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from controllers.api.tenant import TenantPod
    from controllers.domain.queue.serve import Decision
    from controllers.gpupool.queue.records import ObservedQueue, ReservationsByRequest


def scale_up(
    view: ObservedQueue,
    decisions: Iterable[Decision],
    pods: Mapping[str, TenantPod],
    by_request: ReservationsByRequest,
    now: float,
) -> tuple[list[Promise], float | None]:
    """Release pods that nothing can serve; in how many seconds the next may be. `decisions`: who waits, in order."""
    rule = queue_of(view.pool).scale_up
    if rule is None:
        return [], None
    left, again = rule.max_units - _units_without_cards(view, by_request, now), list[float]()
    found: list[Promise] = []
    for decision in decisions:
        entry = decision.entry
        if decision.outcome == "OverLimit" or entry.units > left:
            continue
        early = begun(entry.created, now) + rule.after - now
        if early > 0:
            again.append(early)
            continue
        left -= entry.units
        draft = PlanBuilder()
        for member in entry.members:
            draft.add(release_without_cards(pods[member.key], view.tolerated))
        keys = tuple(member.key for member in entry.members)
        found.append(Promise(keys, tuple(member.request_id for member in entry.members), draft.build()))
    return found, min(again, default=None)


def _units_without_cards(view: ObservedQueue, by_request: ReservationsByRequest, now: float) -> int:
    """Slots of pods that the scheduler has, and that nothing is reserved for."""
    units = 0
    for pod in view.unbound:
        request = pod.metadata.annotations.get(names.REQUEST_ID, "")
        reserved = any(live(entry, now) for _, entry in by_request.get(request, ()))
        if not pod.spec.scheduling_gates and not reserved and pod.metadata.deletion_timestamp is None:
            units += units_of(pod, view.pool.name)
    return units
