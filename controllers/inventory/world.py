"""What the planner looks at: everything known of one node, cut from the caches. No I/O."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from controllers.api import names
from controllers.inventory.identity import node_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from controllers.api.gpudevice import GPUDevice
    from controllers.api.gpunodeinventory import GPUNodeInventory
    from controllers.api.kube import Node
    from controllers.api.nodefeature import NodeFeature
    from controllers.runtime.store import Store

BY_NODE = "node"
BY_UUID = "uuid"


@dataclass(frozen=True, slots=True)
class Observed:
    """One node and what is recorded about it."""

    name: str
    node: Node | None
    report: NodeFeature | None = None
    """What our agent says; None where it has said nothing."""
    bus: tuple[NodeFeature, ...] = ()
    """What NFD's worker says of the node: the reports that are named as it is."""
    devices: tuple[GPUDevice, ...] = ()
    inventory: GPUNodeInventory | None = None
    nfd: bool = True
    """Whether the API server serves NodeFeature at all."""
    refused: str = ""
    """Why the API server does not take our NodeFeatureRule; empty where it does."""
    elsewhere: Mapping[str, str] = field(default_factory=dict)
    """Where else cards with the uuids of this node's cards are on record: uuid → inventoryID."""

    @property
    def labelled(self) -> bool:
        """Whether NFD says of the node that it has cards, so that the agent runs there."""
        return self.node is not None and self.node.metadata.labels.get(names.LABEL_PRESENT) == "true"


@dataclass(slots=True)
class World:
    """The caches of the process."""

    nodes: Store[Node]
    features: Store[NodeFeature]
    devices: Store[GPUDevice]
    inventories: Store[GPUNodeInventory]
    refused: str = ""
    """What the API server last said against our NodeFeatureRule."""

    def __post_init__(self) -> None:
        """Index what `node` asks for."""
        self.devices.index(BY_NODE, lambda device: (node_of(device),))
        self.devices.index(BY_UUID, _uuids)
        self.features.index(BY_NODE, lambda feature: (feature.node,))

    def node(self, name: str) -> Observed:
        """Everything about one node."""
        reports = self.features.by(BY_NODE, name)
        devices = tuple(self.devices.by(BY_NODE, name))
        return Observed(
            name=name,
            node=self.nodes.get(name),
            report=next((report for report in reports if report.is_agent_report), None),
            bus=tuple(report for report in reports if report.name == name and not report.is_agent_report),
            devices=devices,
            inventory=self.inventories.get(name),
            nfd=self.features.served,
            refused=self.refused,
            elsewhere=dict(self._elsewhere(name, devices)),
        )

    def _elsewhere(self, node: str, devices: tuple[GPUDevice, ...]) -> Iterator[tuple[str, str]]:
        for uuid in (uuid for device in devices for uuid in _uuids(device)):
            for other in self.devices.by(BY_UUID, uuid):
                if other.status.inventory_id and node_of(other) != node:
                    yield uuid, other.status.inventory_id

    def everywhere(self) -> Iterable[str]:
        """Every node that there is, or of which something is recorded."""
        recorded = (*(item.name for item in self.inventories), *self.devices.index_values(BY_NODE))
        return {*(node.name for node in self.nodes), *recorded} - {""}


def _uuids(device: GPUDevice) -> tuple[str, ...]:
    hardware = device.status.hardware
    return (hardware.uuid,) if hardware is not None and hardware.uuid else ()
