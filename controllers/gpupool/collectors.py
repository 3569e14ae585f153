"""Metrics of GPUPools, Nodes and GPUDevices that are counted from the caches at each scrape."""

from __future__ import annotations

import collections
import re
import time
from typing import TYPE_CHECKING

from prometheus_client.core import GaugeMetricFamily, InfoMetricFamily
from prometheus_client.registry import Collector

from controllers.api import names
from controllers.api.conditions import NUMBERS, UNASSIGNED_DEVICE, find
from controllers.api.gpupool import UNIT_OF_MODE
from controllers.domain.allocation import applied, suffixes
from controllers.domain.clock import seconds
from controllers.domain.issuing import accepts_new_pods, issuable
from controllers.domain.lifecycle import live
from controllers.domain.slots import slots_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from prometheus_client.core import Metric

    from controllers.api.gpudevice import Reservation
    from controllers.gpupool.world import World


class StatusCollector(Collector):
    """Conditions and states of pools, nodes and cards, counted from the caches at each scrape."""

    def __init__(self, world: World) -> None:
        self._world = world

    def collect(self) -> Iterable[Metric]:
        """Count; safe in another thread than the caches'."""
        yield from (self._info(), self._conditions(), self._nodes(), self._states(), self._issuable())

    def _info(self) -> Metric:
        info = InfoMetricFamily(
            "gpupool",
            "A pool's mode and unit, and each of its resources as kube-state-metrics spells it.",
            labels=["pool"],
        )
        for pool in self._world.pools:
            allocation = pool.spec.allocation
            about = {"mode": allocation.mode, "unit": UNIT_OF_MODE[allocation.mode]}
            for suffix in suffixes(pool.name, applied(pool)):
                resource = re.sub(r"\W", "_", names.resource_name(suffix))
                info.add_metric([pool.name], about | {"resource": resource})
        return info

    def _conditions(self) -> Metric:
        held = GaugeMetricFamily(
            "gpupool_condition",
            "Condition of a pool: 1 True, 0 False, -1 Unknown.",
            labels=["pool", "condition", "reason"],
        )
        for pool in self._world.pools:
            for one in pool.status.conditions:
                held.add_metric([pool.name, one.type, one.reason], NUMBERS[one.status])
        return held

    def _nodes(self) -> Metric:
        held = GaugeMetricFamily(
            "gpu_node_inventory_condition",
            "Condition of a node: 1 True, 0 False, -1 Unknown.",
            labels=["node", "condition"],
        )
        for inventory in self._world.inventories:
            if (one := find(inventory.status.conditions, UNASSIGNED_DEVICE)) is not None:
                held.add_metric([inventory.name, one.type], NUMBERS[one.status])
        return held

    def _states(self) -> Metric:
        counted = collections.Counter(
            (
                device.status.pool_ref.name if device.status.pool_ref is not None else "",
                device.status.state or "Unassigned",
            )
            for device in self._world.devices
            if not device.is_remembered
        )
        cards = GaugeMetricFamily("gpupool_devices", "Cards by pool and state.", labels=["pool", "state"])
        for (pool, state), amount in counted.items():
            cards.add_metric([pool, state], amount)
        return cards

    def _issuable(self) -> Metric:
        """What kubelet is to offer at least: a card that is withdrawn but still in use is not among it."""
        slots: collections.Counter[tuple[str, str]] = collections.Counter()
        layouts = {pool.name: applied(pool) for pool in self._world.pools}
        for device in self._world.devices:
            ref, node = device.status.pool_ref, device.status.node_name or ""
            if ref is None or (layout := layouts.get(ref.name)) is None:
                continue
            if issuable(device, ref.name) and accepts_new_pods(self._world.nodes.get(node)):
                slots[ref.name, node] += slots_of(device, layout)
        gauge = GaugeMetricFamily(
            "gpupool_node_slots_issuable",
            "Slots, used or not, of the pool's cards on the node that are offered and can be given to pods.",
            labels=["pool", "node"],
        )
        for where, amount in slots.items():
            gauge.add_metric(where, amount)
        return gauge


class ReservationCollector(Collector):
    """Reservations of pods that are not bound yet, counted from the caches at each scrape."""

    def __init__(self, world: World) -> None:
        self._world = world

    def collect(self) -> Iterable[Metric]:
        """Count; safe in another thread than the caches'."""
        now = time.time()
        cards: collections.Counter[str] = collections.Counter({pool.name: 0 for pool in self._world.pools})
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
