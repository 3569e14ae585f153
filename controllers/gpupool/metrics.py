"""What a pool holds, for Prometheus."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from prometheus_client import Gauge

if TYPE_CHECKING:
    from controllers.api.gpupool import GPUPool

CAPACITY = {
    word: Gauge(f"gpupool_capacity_{word}", f"Slots of the pool: {word}.", ["pool"])
    for word in ("total", "used", "reserved", "unavailable", "available")
}


def record(pool: GPUPool) -> None:
    """Take over what the pool's status says."""
    if pool.status.capacity is not None:
        for word, gauge in CAPACITY.items():
            gauge.labels(pool.name).set(getattr(pool.status.capacity, word))


def forget(pool: str) -> None:
    """Drop the series of a pool that is gone."""
    for gauge in CAPACITY.values():
        with contextlib.suppress(KeyError):
            gauge.remove(pool)
