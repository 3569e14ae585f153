"""The caches of the process, their indexes, and the views that are cut from them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from controllers.api import names
from controllers.api.components import EXPORTER
from controllers.api.conditions import READY_FOR_POOLING, is_true
from controllers.bootstrap.readiness.software import operand_versions
from controllers.bootstrap.views import ObservedNode, ObservedOperands, pool_of
from controllers.domain.driver.node_work import work_on
from controllers.runtime.store import Store

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from controllers.api.agent_report import Report
    from controllers.api.foreign import ForeignDaemonSet, ForeignPod
    from controllers.api.gpunodeinventory import GPUNodeInventory
    from controllers.api.kube import ConfigMap, Node
    from controllers.bootstrap.records import Card, Operand, Pod, RuntimeClass
    from controllers.bootstrap.telemetry_records import NodeTelemetry
    from controllers.bootstrap.views import OperandVersions

BY_NODE, BY_POOL, BY_COMPONENT, OUT = "node", "pool", "component", "out"
LET_IN = "namespace"
"""Pods of other programs that have their privileges, by namespace."""
RUNS_UNDER = "runtimeClassName"
"""What runs under a RuntimeClass, by its name."""
SELECTS = "nodeSelector"
"""DaemonSets by each label of ours that they ask of a node."""


@dataclass(slots=True)
class World:
    """The caches of the process.

    They live as long as it does, and are changed from its event loop only; collectors of metrics read the stores from
    another thread.
    """

    nodes: Store[Node]
    features: Store[Report]
    inventories: Store[GPUNodeInventory]
    devices: Store[Card]
    pods: Store[Pod]
    daemonsets: Store[Operand]
    configmaps: Store[ConfigMap]
    runtime_classes: Store[RuntimeClass]
    foreign: Store[ForeignPod] = field(default_factory=lambda: Store("pods of others"))
    """Pods of programs that do what the module does, by their label `app`."""
    foreign_drivers: Store[ForeignPod] = field(default_factory=lambda: Store("drivers of others"))
    """Pods of drivers that only another label shows."""
    driver_daemonsets: Store[ForeignDaemonSet] = field(default_factory=lambda: Store("DaemonSets of others"))
    """DaemonSets of drivers."""
    deleted_at: dict[str, float] = field(default_factory=dict, init=False)
    """When DaemonSets were gone, in epoch seconds by name (`controllers.components.cooldown`)."""

    def __post_init__(self) -> None:
        """Index what the views ask for."""
        self.devices.index(BY_NODE, lambda device: (device.status.node_name or "",))
        self.devices.index(BY_POOL, pool_of)
        self.inventories.index(OUT, lambda one: ("" if is_true(one.status.conditions, READY_FOR_POOLING) else OUT,))
        self.pods.index(BY_NODE, lambda pod: (pod.node or "",))
        for store in (self.foreign, self.foreign_drivers):
            store.index(BY_NODE, lambda pod: (pod.spec.node_name or "",))
            store.index(LET_IN, lambda pod: (pod.metadata.namespace or "",) if pod.part is not None else ())
        self.daemonsets.index(RUNS_UNDER, lambda made: _named(made.pod))
        self.daemonsets.index(SELECTS, lambda made: filter(_is_ours, made.node_selector))
        self.pods.index(RUNS_UNDER, _runs_under)
        self.pods.index(BY_COMPONENT, lambda pod: (pod.metadata.labels.get(names.LABEL_COMPONENT, ""),))

    def node(self, name: str, telemetry: NodeTelemetry | None = None) -> ObservedNode:
        """Everything about one node."""
        report = self.features.get(f"{names.NAMESPACE}/{names.agent_feature(name)}")
        node, pods = self.nodes.get(name), [pod for pod in self.pods.by(BY_NODE, name) if pod.ready]
        ready = [pod.metadata.labels for pod in pods]
        return ObservedNode(
            name=name,
            node=node,
            inventory=self.inventories.get(name),
            report=report if report is not None and report.node == name else None,
            devices=self.cards(name),
            ready=frozenset(labels.get(names.LABEL_COMPONENT, "") for labels in ready),
            agent_ready=any(labels.get(names.LABEL_APP) == names.DISCOVER_DAEMONSET for labels in ready),
            operands=tuple(self._operands_on(node, pods)) if node is not None else (),
            foreign=self._foreign_on(name),
            driver_elsewhere=self._driver_elsewhere(node) if node is not None else None,
            telemetry=telemetry,
        )

    def _foreign_on(self, name: str) -> tuple[ForeignPod, ...]:
        """Pods of other programs on a node, in a steady order."""
        found = (pod for store in (self.foreign, self.foreign_drivers) for pod in store.by(BY_NODE, name))
        return tuple(sorted((pod for pod in found if not pod.is_adopted), key=lambda pod: pod.key))

    def _driver_elsewhere(self, node: Node) -> str | None:
        """The DaemonSet by which another program brings the node's driver, whether its pod is there or not."""
        found = (one for one in self.driver_daemonsets if one.is_for(node.metadata.labels))
        return min((one.key for one in found if self.let_in(one.metadata.namespace or "")), default=None)

    def let_in(self, namespace: str) -> int:
        """How many pods of other programs run in a namespace with what they need: no tenant's pod may have that."""
        return sum(len(store.by(LET_IN, namespace)) for store in (self.foreign, self.foreign_drivers))

    def _operands_on(self, node: Node, ready: Iterable[Pod]) -> Iterable[OperandVersions]:
        """The DaemonSets that select the node, and those that have a ready pod there."""
        labels = node.metadata.labels
        found = [made for label in labels if _is_ours(label) for made in self.daemonsets.by(SELECTS, label)]
        selected = {made.name: made for made in found if made.node_selector.items() <= labels.items()}
        pods = {pod.metadata.labels.get(names.LABEL_APP, ""): pod for pod in ready}
        for name in selected | pods:
            about = selected.get(name) or pods[name]
            component = about.metadata.labels.get(names.LABEL_COMPONENT, "")
            yield operand_versions(component, selected.get(name), pods.get(name))

    def cards(self, node: str) -> tuple[Card, ...]:
        """The cards of a node."""
        return tuple(self.devices.by(BY_NODE, node))

    def exporters(self) -> Iterable[tuple[str, str]]:
        """Nodes whose exporter serves, each with the exporter's address."""
        for pod in self.pods.by(BY_COMPONENT, EXPORTER):
            if pod.ready and pod.node and pod.status.pod_ip:
                yield pod.node, pod.status.pod_ip

    def nodes_of(self, made: Operand) -> set[str]:
        """Nodes that have a pod of a DaemonSet."""
        component = made.metadata.labels.get(names.LABEL_COMPONENT, "")
        pods = self.pods.by(BY_COMPONENT, component)
        return {pod.node for pod in pods if pod.node and pod.metadata.labels.get(names.LABEL_APP) == made.name}

    def fleet(self, now: float, allowed: Collection[str] = ()) -> tuple[int, list[str]]:
        """How many nodes are in service or should be, and those that are not although pools have cards there.

        So do those that left service by themselves, as their status says or, where that is not seen yet, `allowed`.
        Those that are out for the sake of their driver are neither: they would use up the room of real failures.
        """
        gone = self.inventories.by(OUT, OUT)
        out = [
            one.name
            for one in gone
            if not self._is_planned(one, now)
            and (_is_disrupted(one) or one.name in allowed or any(map(pool_of, self.cards(one.name))))
        ]
        return len(self.inventories) - len(gone) + len(out), out

    def _is_planned(self, inventory: GPUNodeInventory, now: float) -> bool:
        node, work = self.nodes.get(inventory.name), inventory.status.driver_work
        return node is not None and work_on(work, node, now).is_planned

    def gated(self, gates: Collection[str]) -> set[str]:
        """Nodes with one of these labels or our condition, also where inventory knows no GPU node any more."""
        marked = (one for one in self.nodes if _has_condition(one) or not one.metadata.labels.keys().isdisjoint(gates))
        return {node.name for node in marked}

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


def _is_ours(label: str) -> bool:
    return label.startswith(names.PREFIX)


def _runs_under(pod: Pod) -> tuple[str, ...]:
    return () if pod.finished or not pod.spec.runtime_class_name else (pod.spec.runtime_class_name,)


def _named(spec: Mapping[str, Any]) -> tuple[str, ...]:
    """The RuntimeClass that the spec of a pod names."""
    return (name,) if (name := spec.get(RUNS_UNDER)) else ()


def _has_condition(node: Node) -> bool:
    return any(one.type in names.NODE_CONDITIONS for one in node.status.conditions)


def _is_disrupted(inventory: GPUNodeInventory) -> bool:
    recorded = inventory.status.bootstrap
    return recorded is not None and recorded.disrupted is True
