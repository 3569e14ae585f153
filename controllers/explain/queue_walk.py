"""What a round of gpupool-controller would walk a pool's queue with, out of what was read. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from controllers.api.settings import AdmissionSettings, SchedulingSettings
from controllers.domain import waiting
from controllers.domain.placement.choice import policy_of as placement_of
from controllers.domain.queue.policy import policy_of
from controllers.domain.queue.serve import Walk
from controllers.domain.queue.supply import capacities
from controllers.explain.queue_seen import reservations_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from controllers.domain.slots import NodeSlots
    from controllers.explain.queue_seen import QueueSeen


def walk_of(seen: QueueSeen, slots: Mapping[str, NodeSlots], profile: str | None) -> tuple[Walk, dict[str, int]]:
    """The walk over the queue, and what of the slots goes to pods before the queue, by node.

    Where the module's settings choose the strategy, which not everybody may read, the usual one is taken: it decides
    which of several nodes a pod gets, and not who gets one.
    """
    rooms = waiting.NodeCapacities(
        (
            waiting.NodeCapacity(seen.nodes[name], s.free, sum(card.slots for card in s.cards))
            for name, s in slots.items()
        ),
        waiting.PLAN_WORK,
        share=1.0,
    )
    for pod in _before_the_queue(seen):
        if pod.profile == profile:
            rooms.take(pod)
    left = rooms.left()
    there = capacities(seen, slots, left, profile=profile)
    placement = placement_of(seen.pool, SchedulingSettings())
    before = {name: gone for name, each in slots.items() if (gone := each.free - left.get(name, 0)) > 0}
    return Walk(seen.pool.name, there, policy_of(seen.pool), placement, seen.now), before


def _before_the_queue(seen: QueueSeen) -> list[waiting.PendingPod]:
    """Pods without our gate that nothing is reserved for: they are given cards first."""
    by_request, passed = reservations_of(seen), waiting.passed_over(seen.pool, seen.now)
    unseen = AdmissionSettings().unseen_ttl
    found = []
    for pod in seen.pods:
        wants = waiting.pending_pod(pod, seen.pool.name)
        if wants is None or wants.request_id in passed:
            continue
        reserved = [each for _, each in by_request.get(wants.request_id, ())]
        if waiting.waits_from(wants, reserved, seen.now, unseen) <= seen.now:
            found.append(wants)
    return sorted(found, key=lambda pod: pod.queue_key)
