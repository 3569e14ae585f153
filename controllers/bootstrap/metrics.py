"""How far nodes are, for Prometheus: counted from the caches when somebody asks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from controllers.api.conditions import READY_FOR_POOLING, is_true

if TYPE_CHECKING:
    from collections.abc import Iterable

    from prometheus_client.core import Metric

    from controllers.bootstrap.observe import World


class Readiness(Collector):
    """Whether each node's cards may be pooled."""

    def __init__(self, world: World) -> None:
        self._world = world

    def collect(self) -> Iterable[Metric]:
        """Count."""
        ready = GaugeMetricFamily("gpu_bootstrap_ready", "1 while a node is ready for pooling.", labels=["node"])
        for inventory in self._world.inventories:
            ready.add_metric([inventory.name], int(is_true(inventory.status.conditions, READY_FOR_POOLING)))
        yield ready
