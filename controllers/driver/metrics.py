"""Prometheus metrics of drivers, counted from the caches when they are scraped; only who leads tells them."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from controllers.api.conditions import NUMBERS
from controllers.domain.clock import begun
from controllers.domain.driver.pause import is_paused_on

if TYPE_CHECKING:
    from collections.abc import Iterable

    from prometheus_client.core import Metric

    from controllers.driver.world import World


HOUR: Final = 3600.0


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
        yield from (nodes, told, *self._rollouts(now), *self._work(now))

    def _rollouts(self, now: float) -> Iterable[Metric]:
        """How drivers come onto nodes that have one."""
        strata = GaugeMetricFamily(
            "gpu_driver_stratum_nodes",
            "Nodes of one kind: all, those that have been started with the revision, those that are finished with it.",
            labels=["driver", "stratum", "state"],
        )
        wave = GaugeMetricFamily(
            "gpu_driver_stratum_wave",
            "The wave in which nodes of one kind are started; 0 is the canary.",
            labels=["driver", "stratum"],
        )
        hours = GaugeMetricFamily(
            "gpu_driver_gpu_hours",
            "Cards times hours out of service for the driver's sake, in works that ended within 24 hours.",
            labels=["driver"],
        )
        paused = GaugeMetricFamily(
            "gpu_driver_paused", "Whether a person has no node started for now.", labels=["driver"]
        )
        for driver in self._world.caches.drivers:
            for one in driver.status.strata:
                for state, number in (("all", one.nodes), ("started", one.started), ("finished", one.finished)):
                    strata.add_metric([driver.name, one.key, state], number)
                if one.wave is not None:
                    wave.add_metric([driver.name, one.key], one.wave)
            hours.add_metric([driver.name], sum(one.gpu_seconds for one in driver.status.spent) / HOUR)
            paused.add_metric([driver.name], is_paused_on(driver, None, now))
        return strata, wave, hours, paused

    def _work(self, now: float) -> Iterable[Metric]:
        phases: Counter[tuple[str, str]] = Counter()
        oldest: dict[tuple[str, str], float] = {}
        tries: dict[tuple[str, str], int] = {}
        for inventory in self._world.caches.inventories:
            if (work := inventory.status.driver_work) is not None:
                key = (work.driver, str(work.phase))
                phases[key] += 1
                oldest[key] = max(oldest.get(key, 0.0), now - begun(work.since, now))
                tries[key] = max(tries.get(key, 0), work.attempt)
        counted = GaugeMetricFamily("gpu_driver_work", "Nodes at work by phase.", labels=["driver", "phase"])
        waits = GaugeMetricFamily(
            "gpu_driver_work_oldest_seconds",
            "How long the longest of them is in its phase.",
            labels=["driver", "phase"],
        )
        attempts = GaugeMetricFamily(
            "gpu_driver_work_attempts",
            "Which try it is of the one that is tried most often.",
            labels=["driver", "phase"],
        )
        for key, number in phases.items():
            counted.add_metric(list(key), number)
            waits.add_metric(list(key), oldest[key])
            attempts.add_metric(list(key), tries[key])
        return counted, waits, attempts
