"""Metrics of nodes under the names of GPU Operator's node-status-exporter, for dashboards that people have.

Names and label are those of GPU Operator v26.7.0 (`cmd/nvidia-validator/metrics.go`); the values are the module's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from controllers.api import names
from controllers.api.conditions import DRIVER_MISSING, find
from controllers.domain.request import whole

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from prometheus_client.core import Metric

    from controllers.api.gpunodeinventory import GPUNodeInventory
    from controllers.api.kube import Node
    from controllers.bootstrap.world import World

ABOUT: Final = {
    "gpu_operator_node_driver_ready": "1 while the node's driver passes the module's check.",
    "gpu_operator_node_driver_validation": "The same.",
    "gpu_operator_node_toolkit_ready": "1 while containers of the node reach its cards.",
    "gpu_operator_node_cuda_ready": "1 while the module's container check with CUDA passes.",
    "gpu_operator_node_plugin_ready": "1 while pools offer cards of the node.",
    "gpu_operator_node_device_plugin_devices_total": "Slots of pools that kubelet offers on the node.",
    "gpu_operator_nvidia_pci_devices_total": "Cards of the node that the module knows.",
}


class Compatibility(Collector):
    """One series of each for every node with cards, while the settings want them."""

    def __init__(self, world: World, is_wanted: Callable[[], bool]) -> None:
        """Count from these caches while `is_wanted` says so."""
        self._world, self._is_wanted = world, is_wanted

    def collect(self) -> Iterable[Metric]:
        """Count; safe in another thread than the caches'."""
        if not self._is_wanted():
            return
        made = {name: GaugeMetricFamily(name, about, labels=["node"]) for name, about in ABOUT.items()}
        for inventory in self._world.inventories:
            for name, value in _values(inventory, self._world.nodes.get(inventory.name)).items():
                made[name].add_metric([inventory.name], value)
        yield from made.values()


def _values(inventory: GPUNodeInventory, node: Node | None) -> dict[str, int]:
    status = inventory.status
    said, done = find(status.conditions, DRIVER_MISSING), status.bootstrap
    loaded = status.driver is not None and bool(status.driver.version)
    driver = int(loaded and said is not None and said.status == "False")
    slots = sum(_slots(node)) if node is not None else 0
    return {
        "gpu_operator_node_driver_ready": driver,
        "gpu_operator_node_driver_validation": driver,
        "gpu_operator_node_toolkit_ready": int(done is not None and done.toolkit_ready is True),
        "gpu_operator_node_cuda_ready": int(done is not None and done.validated is True),
        "gpu_operator_node_plugin_ready": int(slots > 0),
        "gpu_operator_node_device_plugin_devices_total": slots,
        "gpu_operator_nvidia_pci_devices_total": len(status.hw.devices) if status.hw is not None else 0,
    }


def _slots(node: Node) -> Iterable[int]:
    """Of each pool, what kubelet says that pods may have there."""
    for resource, amount in node.status.allocatable.items():
        if resource.startswith(names.PREFIX):
            try:
                yield whole(amount)
            except ValueError:
                continue
