"""Metrics of GPUPools and their cards."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from prometheus_client import Counter, Gauge, Histogram

from controllers.api import names
from controllers.gpupool.queue import promises
from controllers.runtime.plan import EmitEvent

if TYPE_CHECKING:
    from collections.abc import Sequence

    from controllers.api.gpudevice import GPUDevice
    from controllers.api.gpunodeinventory import GPUNodeInventory
    from controllers.api.gpupool import GPUPool, ProfileCapacity
    from controllers.api.tenant import TenantPod
    from controllers.domain.near import Level
    from controllers.runtime.plan import Plan
    from controllers.runtime.store import Store

CAPACITY = {
    word: Gauge(f"gpupool_capacity_{word}", f"Slots of the pool: {word}.", ["pool"])
    for word in ("total", "used", "reserved", "unavailable", "available")
}
PROFILE_SLOTS = Gauge(
    "gpupool_profile_slots",
    "Slots of one MIG profile, in a pool of a mixed layout: total, used, reserved, unavailable, available.",
    ["pool", "profile", "state"],
)
_profiles_of: dict[str, set[str]] = {}
"""Profiles by pool that have series of PROFILE_SLOTS."""

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
RELEASED = Counter("gpupool_queue_released_total", "Pods that got their cards out of the queue.", ["pool"])
RELEASE_SECONDS = Histogram(
    "gpupool_queue_release_seconds",
    "From the change that made room for a pod of the queue to the end of its scheduling gate.",
    ["pool"],
    buckets=(0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10, 60),
)
SPLIT_PODS = Counter(
    "gpupool_split_pods_total",
    "Pods of several cards whose cards are farther apart than other cards that were free, by the number of their"
    " cards and by what these do not share: bond, clique or link of NVLinks, PCI root, NUMA node.",
    ["pool", "cards", "level"],
)
_split: dict[str, set[tuple[str, Level]]] = {}
"""Series of SPLIT_PODS by pool."""
_pools_on: dict[str, set[str]] = {}


def record(pool: GPUPool, cards: int) -> None:
    """Set the pool's gauges by its status and the number of its cards."""
    ASSIGNMENTS.labels(pool.name).set(cards)
    for counter in (EXPIRED, RELEASED, RELEASE_SECONDS):
        counter.labels(pool.name)  # from 0 on: a series that begins with 1 has not risen, for Prometheus
    for outcome in promises.OUTCOMES:
        PROMISES.labels(pool.name, outcome)
    if pool.status.capacity is not None:
        for word, gauge in CAPACITY.items():
            gauge.labels(pool.name).set(getattr(pool.status.capacity, word))
        _record_profiles(pool.name, pool.status.capacity.profiles)


def _record_profiles(pool: str, profiles: Sequence[ProfileCapacity]) -> None:
    """Set the gauges of a mixed layout; series of profiles that it no longer has are dropped."""
    for gone in _profiles_of.pop(pool, set()) - {one.profile for one in profiles}:
        for word in CAPACITY:
            PROFILE_SLOTS.remove(pool, gone, word)
    for one in profiles:
        for word in CAPACITY:
            PROFILE_SLOTS.labels(pool, one.profile, word).set(getattr(one, word))
    if profiles:
        _profiles_of[pool] = {one.profile for one in profiles}


def count_released(pool: str, pods: int, seconds: float) -> None:
    """Pods of a queue have their cards, so many seconds after there was room."""
    RELEASED.labels(pool).inc(pods)
    for _ in range(pods):
        RELEASE_SECONDS.labels(pool).observe(seconds)


def count_split(pool: str, cards: int, level: Level) -> None:
    """A pod could have had its cards in one group of that level, and has them in none."""
    _split.setdefault(pool, set()).add((str(cards), level))
    SPLIT_PODS.labels(pool, str(cards), level).inc()


def forget(pool: str) -> None:
    """Drop the series of a pool that is gone."""
    for metric in (*CAPACITY.values(), ASSIGNMENTS, EXPIRED, RELEASED, RELEASE_SECONDS):
        with contextlib.suppress(KeyError):
            metric.remove(pool)
    _record_profiles(pool, ())
    for outcome in promises.OUTCOMES:
        with contextlib.suppress(KeyError):
            PROMISES.remove(pool, outcome)
    for cards, level in _split.pop(pool, ()):
        SPLIT_PODS.remove(pool, cards, level)


def count_promises(old: GPUDevice | None, new: GPUDevice | None, pods: Store[TenantPod]) -> None:
    """Count what became of promises to pods to which kubelet has just given a card."""
    if old is None or new is None or new.status.pool_ref is None:
        return  # what was given before we looked was counted then, or never
    for taken in promises.new_allocations(old, new):
        pod = pods.get(f"{taken.namespace}/{taken.pod}")
        if (
            pod is not None
            and pod.metadata.uid == taken.pod_uid
            and (outcome := promises.promise_outcome(new, pod)) is not None
        ):
            PROMISES.labels(new.status.pool_ref.name, outcome).inc()


def count_expired(device: GPUDevice, made: Plan) -> None:
    """Count the reservations of a card that ran out, by the events of the plan."""
    expired = sum(isinstance(one, EmitEvent) and one.reason == names.EVENT_RESERVATION_EXPIRED for one in made.actions)
    if expired and device.status.pool_ref is not None:
        EXPIRED.labels(device.status.pool_ref.name).inc(expired)


def record_node(node: str, inventory: GPUNodeInventory | None) -> None:
    """Set the node's gauges by its inventory; series of pools that it no longer has are dropped."""
    pools = inventory.status.pools if inventory is not None else None
    slots = {entry.name: entry.slots for entry in pools.assigned} if pools else {}
    for pool in _pools_on.pop(node, set()) - slots.keys():
        with contextlib.suppress(KeyError):
            NODE_SLOTS.remove(pool, node)
    for pool, count in slots.items():
        NODE_SLOTS.labels(pool, node).set(count)
    if slots:
        _pools_on[node] = set(slots)
