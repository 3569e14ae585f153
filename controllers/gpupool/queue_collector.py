"""Metrics of the queues of GPUPools, counted from the caches at each scrape."""

from __future__ import annotations

import collections
import time
from typing import TYPE_CHECKING, NamedTuple

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from controllers.api import names
from controllers.domain.clock import begun
from controllers.domain.lifecycle import live
from controllers.domain.queue.gates import is_queued, waits_for_cards_alone
from controllers.domain.request import units_of
from controllers.gpupool.caches import UNBOUND
from controllers.gpupool.queue.looks import QueueLook

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from prometheus_client.core import Metric

    from controllers.api.tenant import TenantPod
    from controllers.gpupool.world import World


class _Promised(NamedTuple):
    """What is reserved for a request: slots, and since when it is that much."""

    slots: int
    since: float


class QueueCollector(Collector):
    """Pods that wait behind the gate of cards, by pool; of a pool that is gone there is no series."""

    def __init__(self, world: World, clock: Callable[[], float] = time.time) -> None:
        """`clock`: tells epoch seconds."""
        self._world, self._clock = world, clock

    def collect(self) -> Iterable[Metric]:
        """Count; safe in another thread than the caches'."""
        now = self._clock()
        waiting = GaugeMetricFamily(
            "gpupool_queue_pods", "Pods that wait for cards, by why they do.", labels=["pool", "reason"]
        )
        wanted = GaugeMetricFamily("gpupool_queue_slots", "Slots that pods wait for.", labels=["pool"])
        oldest = GaugeMetricFamily(
            "gpupool_queue_oldest_seconds",
            "Age of the pod that has waited longest for cards; no series where none waits.",
            labels=["pool"],
        )
        stalled = GaugeMetricFamily(
            "gpupool_queue_stalled_seconds",
            "For how long there has been room for a pod of the queue that was not let go on; 0 where there is none.",
            labels=["pool"],
        )
        promised = self._promised(now)
        for pool in self._world.pools:
            look = self._world.queue_looks.get(pool.name, QueueLook())
            pods = [pod for pod in self._world.pods.by(UNBOUND, pool.name) if is_queued(pod)]
            for cause, amount in collections.Counter(_cause(look, pod) for pod in pods).items():
                waiting.add_metric([pool.name, cause], amount)
            # What waits for gates of others is no demand yet.
            demand = [pod for pod in pods if waits_for_cards_alone(pod)]
            wanted.add_metric([pool.name], sum(units_of(pod, pool.name) for pod in demand))
            if demand:
                first = min(pod.metadata.creation_timestamp for pod in demand)
                oldest.add_metric([pool.name], now - begun(first, now))
            held = [since for pod in demand for since in _room_since(pool.name, pod, look, promised)]
            stalled.add_metric([pool.name], max(0.0, now - min(held, default=now)))
        yield from (waiting, wanted, oldest, stalled)

    def _promised(self, now: float) -> Mapping[str, _Promised]:
        """What is reserved, by request."""
        found: dict[str, _Promised] = {}
        for device in self._world.devices:
            for each in device.status.reservations:
                if live(each, now):
                    before = found.get(each.request_id, _Promised(0, 0.0))
                    since = max(before.since, begun(each.since, now))
                    found[each.request_id] = _Promised(before.slots + each.slots, since)
        return found


def _cause(look: QueueLook, pod: TenantPod) -> str:
    """Why a pod waits; one that came after the last look, or is let go on just now, simply waits."""
    wait = look.reasons.get(pod.key)
    return wait.cause if wait is not None else "Waiting"


def _room_since(pool: str, pod: TenantPod, look: QueueLook, promised: Mapping[str, _Promised]) -> Iterable[float]:
    """Since when there has been room for a pod: by the looks at its queue, and by what is reserved for it."""
    if pod.key in look.room_since:
        yield look.room_since[pod.key]
    found = promised.get(pod.metadata.annotations.get(names.REQUEST_ID, ""))
    if found is not None and found.slots >= units_of(pod, pool):
        yield found.since
