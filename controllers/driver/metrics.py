"""Prometheus metrics of drivers, counted from the caches when they are scraped; only who leads tells them."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from controllers.api.conditions import NUMBERS
from controllers.domain.clock import begun

if TYPE_CHECKING:
    from collections.abc import Iterable

    from prometheus_client.core import Metric

    from controllers.driver.world import World


class DriverWork(Collector):
    """How far nodes are with their drivers, how long that has taken, and what GPUDrivers say of themselves."""

    def __init__(self, world: World) -> None:
        self._world = world

    def collect(self) -> Iterable[Metric]:
        """Count; safe in another thread than the caches'."""
        caches, now = self._world.caches, self._world.clock()
        nodes = GaugeMetricFamily(
            "gpu_driver_nodes", "Nodes of a GPUDriver by how far they are.", labels=["driver", "state"]
        )
        told = GaugeMetricFamily(
            "gpu_driver_condition",
            "Condition of a GPUDriver: 1 True, 0 False, -1 Unknown.",
            labels=["driver", "condition"],
        )
        for driver in caches.drivers:
            if (counts := driver.status.counts) is not None:
                for state in ("current", "outdated", "host", "busy", "blocked", "failed"):
                    nodes.add_metric([driver.name, state], getattr(counts, state))
            for one in driver.status.conditions:
                told.add_metric([driver.name, one.type], NUMBERS[one.status])
        yield from (nodes, told, *self._work(now))

    def _work(self, now: float) -> tuple[Metric, Metric]:
        phases: Counter[tuple[str, str]] = Counter()
        oldest: dict[tuple[str, str], float] = {}
        for inventory in self._world.caches.inventories:
            if (work := inventory.status.driver_work) is not None:
                key = (work.driver, str(work.phase))
                phases[key] += 1
                oldest[key] = max(oldest.get(key, 0.0), now - begun(work.since, now))
        counted = GaugeMetricFamily("gpu_driver_work", "Nodes at work by phase.", labels=["driver", "phase"])
        waits = GaugeMetricFamily(
            "gpu_driver_work_oldest_seconds",
            "How long the longest of them is in its phase.",
            labels=["driver", "phase"],
        )
        for key, number in phases.items():
            counted.add_metric(list(key), number)
            waits.add_metric(list(key), oldest[key])
        return counted, waits
