"""Which metrics the processes export, by asking the code that does; the live test asks the processes themselves."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from functools import cache
from types import SimpleNamespace
from typing import Any

from prometheus_client import REGISTRY
from prometheus_client.registry import Collector

from controllers.bootstrap.metrics.nodes import Readiness, Software
from controllers.bootstrap.telemetry.metrics import DeviceHealth
from controllers.components.pods import collectors
from controllers.driver.metrics import DriverWork
from controllers.gpupool.collectors import ReservationCollector, StatusCollector
from controllers.gpupool.queue_collector import QueueCollector
from controllers.inventory.metrics import InventoryCollector
from sim.nodes import statemetrics

MODULES = (
    "controllers.runtime.metrics",
    "controllers.gpupool.metrics",
    "controllers.bootstrap.telemetry.scrape",
    "webhook.metrics",
    "nodeagent.deviceplugin.metrics",
    "nodeagent.mig.metrics",
    "nodeagent.discover.metrics",
    "nodeagent.validate.metrics",
)
SUFFIXES = {"counter": ("_total",), "histogram": ("_bucket", "_sum", "_count"), "info": ("_info",)}
PROMETHEUS = frozenset({"up", "ALERTS"})


class Nothing:
    """An empty cache, of whatever."""

    served = True

    def __iter__(self) -> Iterator[Any]:
        return iter(())

    def index_values(self, _: str) -> tuple[str, ...]:
        return ()


def _world() -> SimpleNamespace:
    kinds = ("nodes", "features", "devices", "inventories", "pools", "pods")
    caches = SimpleNamespace(drivers=Nothing(), inventories=Nothing())
    return SimpleNamespace(rule_error="", caches=caches, clock=float, **{kind: Nothing() for kind in kinds})


@cache
def ours() -> frozenset[str]:
    """Names of all series of the module's own programs."""
    for module in MODULES:
        importlib.import_module(module)
    world: Any = _world()
    made: list[Collector] = [
        Readiness(world),
        Software(world),
        DeviceHealth(tuple),
        ReservationCollector(world),
        StatusCollector(world),
        QueueCollector(world),
        InventoryCollector(world),
        DriverWork(world),
    ]
    families = [*REGISTRY.collect(), *(family for collector in made for family in collector.collect())]
    return frozenset(family.name + end for family in families for end in SUFFIXES.get(family.type, ("",)))


@cache
def of_others() -> frozenset[str]:
    """Names of series that DCGM's exporter, kube-state-metrics and Prometheus itself have."""
    dcgm = {name for name, kind in collectors.fields(collectors.TEXT).items() if kind != "label"}
    state = {line.split()[2] for line in statemetrics.text((), ()).splitlines() if line.startswith("# TYPE")}
    return frozenset(dcgm | state | PROMETHEUS)
