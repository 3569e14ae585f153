"""Prometheus metrics of nodes' readiness, counted from the caches when they are scraped."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client.core import GaugeMetricFamily, InfoMetricFamily
from prometheus_client.registry import Collector

from controllers.api import names
from controllers.api.conditions import FAULTED, NUMBERS, READY_FOR_POOLING, find, is_true
from controllers.api.reasons import NODE_OWNERS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from prometheus_client.core import Metric

    from controllers.bootstrap.world import World

OURS = frozenset(kind for kind, owner in NODE_OWNERS.items() if owner == names.MANAGER_BOOTSTRAP)


class Readiness(Collector):
    """What each node's conditions say, which driver it has, and which cards are faulted."""

    def __init__(self, world: World) -> None:
        self._world = world

    def collect(self) -> Iterable[Metric]:
        """Count; safe in another thread than the caches'."""
        ready = GaugeMetricFamily("gpu_bootstrap_ready", "1 while a node is ready for pooling.", labels=["node"])
        told = GaugeMetricFamily(
            "gpu_node_inventory_condition",
            "Condition of a node: 1 True, 0 False, -1 Unknown.",
            labels=["node", "condition"],
        )
        driver = InfoMetricFamily(
            "gpu_driver_version", "Driver of a node, and the newest CUDA that it serves.", labels=["node"]
        )
        for inventory in self._world.inventories:
            status = inventory.status
            ready.add_metric([inventory.name], int(is_true(status.conditions, READY_FOR_POOLING)))
            for one in status.conditions:
                if one.type in OURS:
                    told.add_metric([inventory.name, one.type], NUMBERS[one.status])
            if status.driver is not None and status.driver.version:
                known = {"version": status.driver.version, "cuda_version": status.driver.cuda_version or ""}
                driver.add_metric([inventory.name], known)
        yield from (ready, told, driver, self._faulted())

    def _faulted(self) -> Metric:
        """Only cards that are out of service have a series."""
        faulted = GaugeMetricFamily(
            "gpu_device_faulted",
            "1 for each card that is out of service by a fault; no series for others.",
            labels=["node", "device", "pool", "reason"],
        )
        for card in self._world.devices:
            found = find(card.status.conditions, FAULTED)
            # Of a card whose Node was deleted nobody waits for the repair.
            if found is not None and found.status == "True" and card.status.node_gone_since is None:
                pool = card.status.pool_ref.name if card.status.pool_ref is not None else ""
                faulted.add_metric([card.status.node_name or "", card.name, pool, found.reason], 1)
        return faulted


class Software(Collector):
    """Which version of each component every node runs, and where another one is wanted."""

    def __init__(self, world: World) -> None:
        self._world = world

    def collect(self) -> Iterable[Metric]:
        """Count; safe in another thread than the caches'."""
        running = GaugeMetricFamily(
            "gpu_software_info",
            "1 for each version of a component that a node runs.",
            labels=["node", "component", "version"],
        )
        skew = GaugeMetricFamily(
            "gpu_software_skew",
            "1 for each component of a node that does not run the version that is wanted; no series for others.",
            labels=["node", "component"],
        )
        for inventory in self._world.inventories:
            for one in inventory.status.software:
                for version in one.versions:
                    running.add_metric([inventory.name, one.component, version], 1)
                if one.differs:
                    skew.add_metric([inventory.name, one.component], 1)
        yield from (running, skew)
