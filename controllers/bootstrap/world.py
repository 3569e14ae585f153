"""The caches of the process, their indexes, and the views that are cut from them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from controllers.api import names
from controllers.api.components import EXPORTER
from controllers.api.conditions import READY_FOR_POOLING, is_true
from controllers.bootstrap.views import ObservedNode, ObservedOperands, pool_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from controllers.api.gpunodeinventory import GPUNodeInventory
    from controllers.api.kube import ConfigMap, Node
    from controllers.bootstrap.health.view import NodeTelemetry
    from controllers.bootstrap.records import Card, Operand, Pod, Report, RuntimeClass
    from controllers.runtime.store import Store

BY_NODE, BY_POOL, BY_COMPONENT, OUT = "node", "pool", "component", "out"
RUNS_UNDER = "runtimeClassName"
"""What runs under a RuntimeClass, by its name."""


@dataclass(slots=True)
class World:
    """The caches of the process."""

    nodes: Store[Node]
    features: Store[Report]
    inventories: Store[GPUNodeInventory]
    devices: Store[Card]
    pods: Store[Pod]
    daemonsets: Store[Operand]
    configmaps: Store[ConfigMap]
    runtime_classes: Store[RuntimeClass]
    deleted_at: dict[str, float] = field(default_factory=dict, init=False)
    """When DaemonSets were gone, in epoch seconds by name (`controllers.components.cooldown`)."""

    def __post_init__(self) -> None:
        """Index what the views ask for."""
        self.devices.index(BY_NODE, lambda device: (device.status.node_name or "",))
        self.devices.index(BY_POOL, pool_of)
        self.inventories.index(OUT, lambda one: ("" if is_true(one.status.conditions, READY_FOR_POOLING) else OUT,))
        self.pods.index(BY_NODE, lambda pod: (pod.node or "",))
        self.daemonsets.index(RUNS_UNDER, lambda made: _named(made.spec.get("template", {}).get("spec", {})))
        self.pods.index(RUNS_UNDER, _runs_under)
        self.pods.index(BY_COMPONENT, lambda pod: (pod.metadata.labels.get(names.LABEL_COMPONENT, ""),))

    def node(self, name: str, telemetry: NodeTelemetry | None = None) -> ObservedNode:
        """Everything about one node."""
        report = self.features.get(f"{names.NAMESPACE}/{names.agent_feature(name)}")
        ready = [pod.metadata.labels for pod in self.pods.by(BY_NODE, name) if pod.ready]
        return ObservedNode(
            name=name,
            node=self.nodes.get(name),
            inventory=self.inventories.get(name),
            report=report if report is not None and report.node == name else None,
            devices=self.cards(name),
            ready=frozenset(labels.get(names.LABEL_COMPONENT, "") for labels in ready),
            agent_ready=any(labels.get(names.LABEL_APP) == names.DISCOVER_DAEMONSET for labels in ready),
            telemetry=telemetry,
        )

    def cards(self, node: str) -> tuple[Card, ...]:
        """The cards of a node."""
        return tuple(self.devices.by(BY_NODE, node))

    def exporters(self) -> Iterable[tuple[str, str]]:
        """Nodes whose exporter serves, each with the exporter's address."""
        for pod in self.pods.by(BY_COMPONENT, EXPORTER):
            if pod.ready and pod.node and pod.status.pod_ip:
                yield pod.node, pod.status.pod_ip

    def fleet(self, allowed: Collection[str] = ()) -> tuple[int, list[str]]:
        """How many nodes are in service or should be, and those that are not although pools have cards there.

        So do those that left service by themselves, as their status says or, where that is not seen yet, `allowed`.
        """
        gone = self.inventories.by(OUT, OUT)
        out = [
            one.name
            for one in gone
            if _is_disrupted(one) or one.name in allowed or any(map(pool_of, self.cards(one.name)))
        ]
        return len(self.inventories) - len(gone) + len(out), out

    def gated(self, gates: Collection[str]) -> set[str]:
        """Nodes that carry one of these labels, also where inventory knows no GPU node any more."""
        return {node.name for node in self.nodes if not node.metadata.labels.keys().isdisjoint(gates)}

    def operands(self) -> ObservedOperands:
        """What runs on all nodes."""
        return ObservedOperands(
            {item.name: item for item in self.daemonsets},
            {item.name: item for item in self.configmaps},
            {item.name: item for item in self.runtime_classes},
            self.deleted_at,
            frozenset(self.daemonsets.index_values(RUNS_UNDER)) | frozenset(self.pods.index_values(RUNS_UNDER)),
            frozenset(self.devices.index_values(BY_POOL)),
        )


def _runs_under(pod: Pod) -> tuple[str, ...]:
    return () if pod.finished or not pod.spec.runtime_class_name else (pod.spec.runtime_class_name,)


def _named(spec: Mapping[str, Any]) -> tuple[str, ...]:
    """The RuntimeClass that the spec of a pod names."""
    return (name,) if (name := spec.get(RUNS_UNDER)) else ()


def _is_disrupted(inventory: GPUNodeInventory) -> bool:
    recorded = inventory.status.bootstrap
    return recorded is not None and recorded.disrupted is True
