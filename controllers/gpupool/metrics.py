"""What a pool holds, for Prometheus."""

from __future__ import annotations

import collections
import contextlib
import re
import time
from typing import TYPE_CHECKING

from prometheus_client import Counter, Gauge
from prometheus_client.core import GaugeMetricFamily, InfoMetricFamily
from prometheus_client.registry import Collector

from controllers.api import names
from controllers.api.conditions import NUMBERS, UNASSIGNED_DEVICE, find
from controllers.api.gpupool import UNIT_OF_MODE
from controllers.domain.allocation import applied
from controllers.domain.clock import seconds
from controllers.domain.lifecycle import live
from controllers.domain.slots import gives, issuable, slots_of
from controllers.gpupool import promises
from controllers.runtime.plan import EmitEvent

if TYPE_CHECKING:
    from collections.abc import Iterable

    from prometheus_client.core import Metric

    from controllers.api.gpudevice import GPUDevice, Reservation
    from controllers.api.gpunodeinventory import GPUNodeInventory
    from controllers.api.gpupool import GPUPool
    from controllers.api.tenant import TenantPod
    from controllers.gpupool.observe import World
    from controllers.runtime.plan import Plan
    from controllers.runtime.store import Store

CAPACITY = {
    word: Gauge(f"gpupool_capacity_{word}", f"Slots of the pool: {word}.", ["pool"])
    for word in ("total", "used", "reserved", "unavailable", "available")
}

ASSIGNMENTS = Gauge("gpupool_assignments", "Cards in the pool.", ["pool"])
NODE_SLOTS = Gauge("gpupool_node_slots", "Slots of the pool's cards on the node.", ["pool", "node"])
EXPIRED = Counter(
    "gpupool_reservations_expired_total", "Reservations that ran out before their pod was bound.", ["pool"]
)
PROMISES = Counter(
    "gpupool_promises_total",
    "Cards that kubelet gave to pods that were promised some, by what they were: the promised card, another one of the"
    " promised node, or one of another node.",
    ["pool", "got"],
)
_pools_on: dict[str, set[str]] = {}


def record(pool: GPUPool, cards: int) -> None:
    """Take over what the pool's status says, and how many cards it has."""
    ASSIGNMENTS.labels(pool.name).set(cards)
    EXPIRED.labels(pool.name)  # from 0 on: a series that begins with 1 has not risen, for Prometheus
    for got in promises.GOT:
        PROMISES.labels(pool.name, got)
    if pool.status.capacity is not None:
        for word, gauge in CAPACITY.items():
            gauge.labels(pool.name).set(getattr(pool.status.capacity, word))


def forget(pool: str) -> None:
    """Drop the series of a pool that is gone."""
    for gauge in (*CAPACITY.values(), ASSIGNMENTS, EXPIRED):
        with contextlib.suppress(KeyError):
            gauge.remove(pool)
    for got in promises.GOT:
        with contextlib.suppress(KeyError):
            PROMISES.remove(pool, got)


def count_promises(old: GPUDevice | None, new: GPUDevice | None, pods: Store[TenantPod]) -> None:
    """Count what became of promises to pods to which kubelet has just given a card."""
    if old is None or new is None or new.status.pool_ref is None:
        return  # what was given before we looked was counted then, or never
    for taken in promises.given(old, new):
        pod = pods.get(f"{taken.namespace}/{taken.pod}")
        if pod is not None and pod.metadata.uid == taken.pod_uid and (got := promises.got(new, pod)) is not None:
            PROMISES.labels(new.status.pool_ref.name, got).inc()


def count_expired(device: GPUDevice, made: Plan) -> None:
    """Count the reservations of a card that ran out, of which the plan tells."""
    told = sum(isinstance(one, EmitEvent) and one.reason == names.EVENT_RESERVATION_EXPIRED for one in made.actions)
    if told and device.status.pool_ref is not None:
        EXPIRED.labels(device.status.pool_ref.name).inc(told)


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


class Told(Collector):
    """What pools, nodes and cards are said to be: counted from the caches when somebody asks."""

    def __init__(self, world: World) -> None:
        self._world = world

    def collect(self) -> Iterable[Metric]:
        """Count; safe in another thread than the caches'."""
        yield from (self._info(), self._conditions(), self._nodes(), self._states(), self._issuable())

    def _info(self) -> Metric:
        info = InfoMetricFamily(
            "gpupool",
            "A pool's mode and unit, and its resource as kube-state-metrics spells it.",
            labels=["pool"],
        )
        for pool in self._world.pools:
            resource = re.sub(r"\W", "_", names.resource_name(pool.name))
            allocation = pool.spec.allocation
            info.add_metric(
                [pool.name], {"mode": allocation.mode, "unit": UNIT_OF_MODE[allocation.mode], "resource": resource}
            )
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
            if issuable(device, ref.name) and gives(self._world.nodes.get(node)):
                slots[ref.name, node] += slots_of(device, layout)
        told = GaugeMetricFamily(
            "gpupool_node_slots_issuable",
            "Slots, used or not, of the pool's cards on the node that are offered and can be given to pods.",
            labels=["pool", "node"],
        )
        for where, amount in slots.items():
            told.add_metric(where, amount)
        return told


class Reserved(Collector):
    """What is promised to pods that are not bound yet: counted from the caches when somebody asks."""

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
