"""What the planners look at, cut from the caches. No I/O."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pydantic import Field

from controllers.api import names
from controllers.api.kube import DaemonSetStatus
from controllers.api.meta import KubeObject
from controllers.api.record import record

if TYPE_CHECKING:
    from collections.abc import Mapping

    from controllers.api.gpudevice import GPUDevice
    from controllers.api.gpunodeinventory import GPUNodeInventory
    from controllers.api.kube import Node, Pod
    from controllers.api.nodefeature import NodeFeature
    from controllers.runtime.store import Store

BY_NODE = "node"


@record
class Operand(KubeObject):
    """A DaemonSet of ours with its whole spec, to see what somebody else changed in it."""

    spec: dict[str, Any] = Field(default_factory=dict)
    status: DaemonSetStatus = Field(default_factory=DaemonSetStatus)


@record
class RuntimeClass(KubeObject):
    """How containers reach cards on a node."""

    handler: str = ""


@dataclass(frozen=True, slots=True)
class ObservedNode:
    """One node with its cards, its report and the pods that prepare it."""

    name: str
    node: Node | None
    inventory: GPUNodeInventory | None = None
    report: NodeFeature | None = None
    devices: tuple[GPUDevice, ...] = ()
    ready: frozenset[str] = frozenset()
    """Components that have a ready pod on the node."""
    agent_ready: bool = False
    """Whether the pod of `nodeagent discover` there is ready."""


@dataclass(frozen=True, slots=True)
class ObservedOperands:
    """The module's DaemonSets and RuntimeClasses that this process owns, by name."""

    daemonsets: Mapping[str, Operand] = field(default_factory=dict)
    runtime_classes: Mapping[str, RuntimeClass] = field(default_factory=dict)


@dataclass(slots=True)
class World:
    """The caches of the process."""

    nodes: Store[Node]
    features: Store[NodeFeature]
    inventories: Store[GPUNodeInventory]
    devices: Store[GPUDevice]
    pods: Store[Pod]
    daemonsets: Store[Operand]
    runtime_classes: Store[RuntimeClass]

    def __post_init__(self) -> None:
        """Index what the views ask for."""
        self.devices.index(BY_NODE, lambda device: (device.status.node_name or "",))
        self.pods.index(BY_NODE, lambda pod: (pod.node or "",))

    def node(self, name: str) -> ObservedNode:
        """Everything about one node."""
        report = self.features.get(f"{names.NAMESPACE}/{names.agent_feature(name)}")
        ready = [pod.metadata.labels for pod in self.pods.by(BY_NODE, name) if pod.ready]
        return ObservedNode(
            name=name,
            node=self.nodes.get(name),
            inventory=self.inventories.get(name),
            report=report if report is not None and report.node == name else None,
            devices=tuple(self.devices.by(BY_NODE, name)),
            ready=frozenset(labels.get(names.LABEL_COMPONENT, "") for labels in ready),
            agent_ready=any(labels.get(names.LABEL_APP) == names.DISCOVER_DAEMONSET for labels in ready),
        )

    def operands(self) -> ObservedOperands:
        """What runs on all nodes."""
        return ObservedOperands(
            {item.name: item for item in self.daemonsets}, {item.name: item for item in self.runtime_classes}
        )
