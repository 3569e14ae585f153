"""Frozen views of one Node and what the caches hold about it: the planner's input. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from controllers.api import names

if TYPE_CHECKING:
    from collections.abc import Mapping

    from controllers.api.gpudevice import GPUDevice
    from controllers.api.gpunodeinventory import GPUNodeInventory
    from controllers.api.kube import Node
    from controllers.api.nodefeature import NodeFeature


@dataclass(frozen=True, slots=True)
class ObservedNode:
    """One Node, the NodeFeatures about it, and the GPUDevices and GPUNodeInventory recorded for it."""

    name: str
    node: Node | None
    report: NodeFeature | None = None
    """The node agent's NodeFeature; None where there is none."""
    nfd_reports: tuple[NodeFeature, ...] = ()
    """The NodeFeatures of NFD's own worker: those that are named as the node."""
    devices: tuple[GPUDevice, ...] = ()
    inventory: GPUNodeInventory | None = None
    nfd_served: bool = True
    """Whether the API server serves NodeFeature at all."""
    rule_error: str = ""
    """The API server's error for our NodeFeatureRule; empty where it accepts it."""
    elsewhere: Mapping[str, str] = field(default_factory=dict)
    """Where else cards with the uuids of this node's cards are on record: uuid → inventoryID."""

    @property
    def has_card_label(self) -> bool:
        """Whether the Node carries NFD's label for cards, by which the agent's DaemonSet selects it."""
        return self.node is not None and self.node.metadata.labels.get(names.LABEL_PRESENT) == "true"
