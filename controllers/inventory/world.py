"""The caches of the process with their indexes, from which the view of one node is cut. No I/O."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from controllers.inventory.identity import node_of
from controllers.inventory.views import ObservedNode

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from controllers.api.gpudevice import GPUDevice
    from controllers.api.gpunodeinventory import GPUNodeInventory
    from controllers.api.kube import Node
    from controllers.api.nodefeature import NodeFeature
    from controllers.runtime.store import Store

BY_NODE = "node"
BY_UUID = "uuid"


@dataclass(slots=True)
class World:
    """The caches of the process.

    They live as long as it does, and are changed from its event loop only; the collector of metrics reads them from
    another thread.
    """

    nodes: Store[Node]
    features: Store[NodeFeature]
    devices: Store[GPUDevice]
    inventories: Store[GPUNodeInventory]
    rule_error: str = ""
    """The API server's last error for our NodeFeatureRule; empty where it accepts it."""

    def __post_init__(self) -> None:
        """Index GPUDevices by node and uuid, and NodeFeatures by node."""
        self.devices.index(BY_NODE, lambda device: (node_of(device),))
        self.devices.index(BY_UUID, _uuids)
        self.features.index(BY_NODE, lambda feature: (feature.node,))

    def node(self, name: str) -> ObservedNode:
        """The view of one node, whether or not its Node exists."""
        reports = self.features.by(BY_NODE, name)
        devices = tuple(self.devices.by(BY_NODE, name))
        return ObservedNode(
            name=name,
            node=self.nodes.get(name),
            report=next((report for report in reports if report.is_agent_report), None),
            nfd_reports=tuple(report for report in reports if report.name == name and not report.is_agent_report),
            devices=devices,
            inventory=self.inventories.get(name),
            nfd_served=self.features.served,
            rule_error=self.rule_error,
            elsewhere=dict(self._elsewhere(name, devices)),
        )

    def _elsewhere(self, node: str, devices: tuple[GPUDevice, ...]) -> Iterator[tuple[str, str]]:
        for uuid in (uuid for device in devices for uuid in _uuids(device)):
            for other in self.devices.by(BY_UUID, uuid):
                if other.status.inventory_id and node_of(other) != node:
                    yield uuid, other.status.inventory_id

    def node_names(self) -> Iterable[str]:
        """Names of all Nodes, and of the nodes that records name."""
        recorded = (*(item.name for item in self.inventories), *self.devices.index_values(BY_NODE))
        return {*(node.name for node in self.nodes), *recorded} - {""}


def _uuids(device: GPUDevice) -> tuple[str, ...]:
    hardware = device.status.hardware
    return (hardware.uuid,) if hardware is not None and hardware.uuid else ()
