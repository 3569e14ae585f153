"""Whether a node could take a pod, in the order and in the words of Kubernetes' scheduler 1.34. Pure.

The scheduler asks its plugins one after another and stops at the first that says no (kubernetes
pkg/scheduler/framework/runtime/framework.go, RunFilterPlugins; the order: apis/config/v1/default_plugins.go). Looked at
are those that need no other objects than the pod, the node and the pods on it. What comes after them (volumes, spread
over domains, affinity to pods and theirs to this one, resource claims) is not: the verdict then is `Unknown` and says
what decides. Nor is looked at what is kept for a pod that has preempted others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from controllers.api.kube import NodeTaint
from controllers.api.quantity import canonical
from controllers.domain.node_fit import is_named, is_selected, tolerates, untolerated
from controllers.domain.quantities import nanos
from controllers.domain.taints import spelled_taint
from controllers.domain.verdict.demands import CPU, MEMORY, PODS, STORAGE, conflicts, units
from controllers.domain.verdict.records import NodeVerdict

if TYPE_CHECKING:
    from controllers.api.kube import Node
    from controllers.domain.node_fit import PodConstraints
    from controllers.domain.verdict.demands import Demands, NodeUse
    from controllers.domain.verdict.records import Unseen

NO_NODE_BY_NAME: Final = "pod affinity terms conflict"
"""Of a pod whose affinity names no node at all: the scheduler says it once for the pod, and not for each node."""
CORDONED: Final = "cordoned"
_CORDON: Final = NodeTaint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")
_BYTES: Final = (MEMORY, STORAGE)
_GIB: Final = 2**30
_MIB: Final = 2**20


def node_verdict(pod: Demands, node: Node, there: NodeUse | None) -> NodeVerdict:
    """Whether the node could take the pod, by the first plugin of the scheduler that says no.

    `there`: what the pods on the node have of it; None where nobody knows, and then only what is more than the whole
    node can make it say no for resources. Raises ValueError where a quantity of the node cannot be read.
    """
    if (found := refused_to(pod.constraints, pod.named, node)) is not None:
        return found
    if there is not None and (taken := [port for port in pod.ports if conflicts(port, there.ports)]):
        detail = ", ".join(f"hostPort {port.port}/{port.protocol} is taken" for port in taken)
        return NodeVerdict(
            node.name, "NodePorts", ("node(s) didn't have free ports for the requested pod ports",), detail
        )
    if lacks := _lacking(pod, node, there):
        return NodeVerdict(node.name, "NodeResourcesFit", tuple(lacks), "; ".join(lacks.values()))
    unseen: tuple[Unseen, ...] = pod.unseen if there is not None else (*pod.unseen, "pods on the node")
    return NodeVerdict(node.name, "Unknown" if unseen else "Fits", unseen=unseen)


def refused_to(pod: PodConstraints, named: frozenset[str] | None, node: Node) -> NodeVerdict | None:
    """What of a pod's constraints keeps it from the node, whatever runs there: the first in the scheduler's order.

    `named`: the nodes that its affinity names (`names_demanded`).
    """
    if named is not None and node.name not in named:
        return _unnamed(named, node)
    for look in (_cordon, _node_name, _taints, _affinity):
        if (found := look(pod, node)) is not None:
            return found
    return None


def _unnamed(named: frozenset[str], node: Node) -> NodeVerdict:
    """The scheduler looks at no other nodes than those that the affinity names, if it names them in each term."""
    message = "node(s) didn't satisfy plugin(s) [NodeAffinity]" if named else NO_NODE_BY_NAME
    return NodeVerdict(node.name, "NodeAffinity", (message,), "its affinity names other nodes" if named else "")


def _cordon(pod: PodConstraints, node: Node) -> NodeVerdict | None:
    if not node.spec.unschedulable or any(tolerates(one, _CORDON) for one in pod.tolerations):
        return None
    return NodeVerdict(node.name, "Unschedulable", ("node(s) were unschedulable",), CORDONED)


def _node_name(pod: PodConstraints, node: Node) -> NodeVerdict | None:
    if is_named(pod, node):
        return None
    message = "node(s) didn't match the requested node name"
    return NodeVerdict(node.name, "NodeName", (message,), f"the pod names {pod.node_name}")


def _taints(pod: PodConstraints, node: Node) -> NodeVerdict | None:
    if (taint := untolerated(pod, node)) is None:
        return None
    return NodeVerdict(node.name, "TaintToleration", ("node(s) had untolerated taint(s)",), spelled_taint(taint))


def _affinity(pod: PodConstraints, node: Node) -> NodeVerdict | None:
    if is_selected(pod, node):
        return None
    labels = node.metadata.labels
    missing = [f"{key}={value}" for key, value in pod.labels if labels.get(key) != value]
    detail = f"lacks {', '.join(missing)}" if missing else "no term of the node affinity matches"
    return NodeVerdict(node.name, "NodeAffinity", ("node(s) didn't match Pod's node affinity/selector",), detail)


def _lacking(pod: Demands, node: Node, there: NodeUse | None) -> dict[str, str]:
    """What the node has too little of: the scheduler's words for it, and how much is wanted and free."""
    used, count = (there.requests, there.pods) if there is not None else ({}, 0)
    lacks: dict[str, str] = {}
    if count + 1 > (most := _allocatable(node, PODS)):
        lacks["Too many pods"] = f"{count} of {most} pods"
    for resource in sorted(pod.requests, key=_in_turn):
        wanted = pod.requests[resource]
        free = _allocatable(node, resource) - used.get(resource, 0)
        if wanted > max(0, free):
            needs, left = spelled(resource, wanted), spelled(resource, max(0, free))
            lacks[f"Insufficient {resource}"] = f"{resource}: needs {needs}, {left} free"
    return lacks


def _in_turn(resource: str) -> tuple[int, str]:
    """The scheduler's order; it has none among the others."""
    first = (CPU, *_BYTES)
    return (first.index(resource), "") if resource in first else (len(first), resource)


def _allocatable(node: Node, resource: str) -> int:
    quantity = node.status.allocatable.get(resource)
    return units(resource, nanos(quantity)) if quantity is not None else 0


def spelled(resource: str, units: int) -> str:
    """An amount for people: `500m`, `900Gi`, `3`; of bytes hundredths of a gibibyte where need be."""
    if resource == CPU:
        return canonical(f"{units}m")
    if resource not in _BYTES or units < _MIB:
        return str(units)
    return canonical(f"{units // _MIB}Mi") if units % _MIB == 0 else f"{units / _GIB:.2f}Gi"
