"""Frozen views of a GPU node and of the cluster's operands, which the planners read. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from controllers.api.agent_report import Report
    from controllers.api.foreign import ForeignPod
    from controllers.api.gpunodeinventory import GPUNodeInventory
    from controllers.api.kube import ConfigMap, Node
    from controllers.bootstrap.records import Card, Operand, RuntimeClass
    from controllers.bootstrap.telemetry_records import NodeTelemetry


@dataclass(frozen=True, slots=True)
class OperandVersions:
    """The versions of one of the module's DaemonSets on a node."""

    component: str
    running: str | None
    """Of its pod there that is ready."""
    wanted: str | None
    """Of its template; None where it is not to run there."""


@dataclass(frozen=True, slots=True)
class ObservedNode:
    """One node with its cards, its report and the pods that prepare it."""

    name: str
    node: Node | None
    inventory: GPUNodeInventory | None = None
    report: Report | None = None
    devices: tuple[Card, ...] = ()
    ready: frozenset[str] = frozenset()
    """Components that have a ready pod on the node."""
    agent_ready: bool = False
    """Whether the pod of `nodeagent discover` there is ready."""
    operands: tuple[OperandVersions, ...] = ()
    """DaemonSets that are to run on the node, or still do; the pools' among them."""
    foreign: tuple[ForeignPod, ...] = ()
    """Pods on the node of programs that do what the module does, drivers that are given over to it left out."""
    driver_elsewhere: str | None = None
    """The DaemonSet of another program that is to bring the node's driver; None without one."""
    telemetry: NodeTelemetry | None = None
    """What its exporter told; None before the monitor knows the node."""


@dataclass(frozen=True, slots=True)
class ObservedOperands:
    """The module's objects that this process owns and that no node has for itself, by name."""

    daemonsets: Mapping[str, Operand] = field(default_factory=dict)
    configmaps: Mapping[str, ConfigMap] = field(default_factory=dict)
    runtime_classes: Mapping[str, RuntimeClass] = field(default_factory=dict)
    deleted_at: Mapping[str, float] = field(default_factory=dict)
    """When DaemonSets were gone, in epoch seconds by name, where that was a moment ago."""
    running: frozenset[str] = frozenset()
    """RuntimeClasses under which a DaemonSet or a pod of the module runs, the pools' among them."""
    pools: frozenset[str] = frozenset()
    """Pools that have cards."""


def pool_of(device: Card) -> tuple[str, ...]:
    """The pool that a card is in."""
    return (device.status.pool_ref.name,) if device.status.pool_ref else ()
