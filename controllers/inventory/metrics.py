"""Prometheus metrics of GPUDevices and GPUNodeInventories, counted from the caches at each scrape."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from controllers.api.conditions import NUMBERS
from controllers.api.names import MANAGER_INVENTORY
from controllers.api.reasons import NODE_OWNERS
from controllers.inventory.world import BY_NODE

if TYPE_CHECKING:
    from collections.abc import Iterable

    from prometheus_client.core import Metric

    from controllers.inventory.world import World


class InventoryCollector(Collector):
    """Cards by node, cards in no pool, and the nodes' conditions that this process owns."""

    def __init__(self, world: World) -> None:
        self._world = world

    def describe(self) -> Iterable[Metric]:
        """Tell nothing when it is registered; without this everything would be counted to learn the names."""
        return ()

    def collect(self) -> Iterable[Metric]:
        """Count."""
        nfd = "Whether the API server serves NFD's NodeFeature, without which no card can be seen: 1 yes, 0 no."
        yield GaugeMetricFamily("gpu_inventory_nfd_served", nfd, int(self._world.features.served))
        rule = "Whether the API server refuses our NodeFeatureRule, without which no node is labelled: 1 yes, 0 no."
        yield GaugeMetricFamily("gpu_inventory_rule_refused", rule, int(bool(self._world.rule_error)))
        cards = GaugeMetricFamily("gpu_inventory_devices_total", "Cards on record, by node.", labels=["node"])
        free = GaugeMetricFamily("gpu_device_unassigned_total", "Cards in no pool, by node.", labels=["node"])
        for node in self._world.devices.index_values(BY_NODE):
            devices = [device for device in self._world.devices.by(BY_NODE, node) if not device.is_remembered]
            if not devices:
                continue
            cards.add_metric([node], len(devices))
            free.add_metric([node], sum(device.status.pool_ref is None for device in devices))
        yield cards
        yield free
        held = GaugeMetricFamily(
            "gpu_node_inventory_condition",
            "Condition of a node: 1 True, 0 False, -1 Unknown.",
            labels=["node", "condition"],
        )
        for inventory in self._world.inventories:
            for one in inventory.status.conditions:
                if NODE_OWNERS.get(one.type) == MANAGER_INVENTORY:
                    held.add_metric([inventory.name, one.type], NUMBERS[one.status])
        yield held
