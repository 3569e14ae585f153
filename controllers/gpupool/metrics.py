"""What a pool holds, for Prometheus."""

from __future__ import annotations

import contextlib
import time
from collections import Counter
from typing import TYPE_CHECKING

from prometheus_client import Gauge
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from controllers.domain.clock import seconds
from controllers.domain.lifecycle import live

if TYPE_CHECKING:
    from collections.abc import Iterable

    from prometheus_client.core import Metric

    from controllers.api.gpudevice import Reservation
    from controllers.api.gpunodeinventory import GPUNodeInventory
    from controllers.api.gpupool import GPUPool
    from controllers.gpupool.observe import World

CAPACITY = {
    word: Gauge(f"gpupool_capacity_{word}", f"Slots of the pool: {word}.", ["pool"])
    for word in ("total", "used", "reserved", "unavailable", "available")
}

ASSIGNMENTS = Gauge("gpupool_assignments", "Cards in the pool.", ["pool"])
NODE_SLOTS = Gauge("gpupool_node_slots", "Slots of the pool's cards on the node.", ["pool", "node"])
_pools_on: dict[str, set[str]] = {}


def record(pool: GPUPool, cards: int) -> None:
    """Take over what the pool's status says, and how many cards it has."""
    ASSIGNMENTS.labels(pool.name).set(cards)
    if pool.status.capacity is not None:
        for word, gauge in CAPACITY.items():
            gauge.labels(pool.name).set(getattr(pool.status.capacity, word))


def forget(pool: str) -> None:
    """Drop the series of a pool that is gone."""
    for gauge in (*CAPACITY.values(), ASSIGNMENTS):
        with contextlib.suppress(KeyError):
            gauge.remove(pool)


def record_node(node: str, inventory: GPUNodeInventory | None) -> None:
    """Take over what the node's inventory says of its pools; nothing stays of pools that are not there any more."""
    pools = inventory.status.pools if inventory is not None else None
    slots = {entry.name: entry.slots for entry in pools.assigned} if pools else {}
    for pool in _pools_on.pop(node, set()) - slots.keys():
        with contextlib.suppress(KeyError):
            NODE_SLOTS.remove(pool, node)
    for pool, count in slots.items():
        NODE_SLOTS.labels(pool, node).set(count)
    if slots:
        _pools_on[node] = set(slots)


class Reserved(Collector):
    """What is promised to pods that are not bound yet: counted from the caches when somebody asks."""

    def __init__(self, world: World) -> None:
        self._world = world

    def collect(self) -> Iterable[Metric]:
        """Count; safe in another thread than the caches'."""
        now = time.time()
        cards: Counter[str] = Counter({pool.name: 0 for pool in self._world.pools})
        oldest: dict[str, float] = {}
        for device in self._world.devices:
            since = [_since(r, now) for r in device.status.reservations if live(r, now)]
            if since and device.status.pool_ref is not None:
                pool = device.status.pool_ref.name
                cards[pool] += 1
                oldest[pool] = min(oldest.get(pool, now), *since)
        reserved = GaugeMetricFamily(
            "gpu_device_reserved_total",
            "Cards that are held for pods that are not bound yet.",
            labels=["pool"],
        )
        age = GaugeMetricFamily(
            "gpu_device_reservation_age_seconds",
            "Age of the pool's oldest reservation; no series where it has none.",
            labels=["pool"],
        )
        for pool, amount in cards.items():
            reserved.add_metric([pool], amount)
        for pool, first in oldest.items():
            age.add_metric([pool], max(0.0, now - first))
        yield from (reserved, age)


def _since(reservation: Reservation, now: float) -> float:
    try:
        return seconds(reservation.since)
    except ValueError:
        return now
