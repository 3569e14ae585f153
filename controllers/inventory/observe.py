"""What the planner looks at: everything known of one node, cut from the caches. No I/O."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from controllers.api import names
from controllers.inventory.identity import node_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from controllers.api.gpudevice import GPUDevice
    from controllers.api.gpunodeinventory import GPUNodeInventory
    from controllers.api.kube import Node
    from controllers.api.nodefeature import NodeFeature
    from controllers.runtime.store import Store

BY_NODE = "node"


@dataclass(frozen=True, slots=True)
class Observed:
    """One node and what is recorded about it."""

    name: str
    node: Node | None
    report: NodeFeature | None = None
    """What our agent says; None where it has said nothing."""
    devices: tuple[GPUDevice, ...] = ()
    inventory: GPUNodeInventory | None = None
    nfd: bool = True
    """Whether the API server serves NodeFeature at all."""


@dataclass(slots=True)
class World:
    """The caches of the process."""

    nodes: Store[Node]
    features: Store[NodeFeature]
    devices: Store[GPUDevice]
    inventories: Store[GPUNodeInventory]

    def __post_init__(self) -> None:
        """Index what `node` asks for."""
        self.devices.index(BY_NODE, lambda device: (node_of(device),))

    def node(self, name: str) -> Observed:
        """Everything about one node."""
        report = self.features.get(f"{names.NAMESPACE}/{names.agent_feature(name)}")
        return Observed(
            name=name,
            node=self.nodes.get(name),
            report=report if report is not None and report.node == name else None,
            devices=tuple(self.devices.by(BY_NODE, name)),
            inventory=self.inventories.get(name),
            nfd=self.features.served,
        )

    def everywhere(self) -> Iterable[str]:
        """Every node that there is, or of which something is recorded."""
        recorded = (*(item.name for item in self.inventories), *self.devices.index_values(BY_NODE))
        return {*(node.name for node in self.nodes), *recorded} - {""}
