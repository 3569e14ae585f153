"""Taking what is ours off nodes, pools and pods again. Pure.

A disabled module does so with nodes and pools; pods in a queue wait on until it is enabled.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from controllers.api import names
from controllers.api.resources import GPUDRIVER, GPUPOOL, NODE, POD
from controllers.domain.node_marks import unmarked
from controllers.runtime.plan import Action, JSONPatch, Merge, ref

if TYPE_CHECKING:
    from controllers.api.kube import Node
    from controllers.api.meta import KubeObject
    from controllers.api.resources import Resource
    from controllers.install.observed import GatedPod


def unmark(node: Node) -> list[Action]:
    """One write that takes all labels and taints of ours off a node; none where there are none."""
    body = unmarked(node)
    return [Merge(ref(NODE, node), node.metadata.resource_version, body)] if body else []


def forget_conditions(node: Node) -> list[Action]:
    """The write that takes our conditions off a node; none where there are none."""
    at = [at for at, one in enumerate(node.status.conditions) if one.type in names.NODE_CONDITIONS]
    if not at:
        return []
    # From the last one on: each removal moves those that come after it.
    gone = tuple({"op": "remove", "path": f"/status/conditions/{one}"} for one in reversed(at))
    return [JSONPatch(ref(NODE, node), node.metadata.resource_version, gone, subresource="status")]


def release(pool: KubeObject) -> list[Action]:
    """The write that takes our finalizer off a pool, so that it can be deleted; none where it is not there."""
    return _release(GPUPOOL, pool, names.FINALIZER_POOL)


def release_driver(driver: KubeObject) -> list[Action]:
    """The same of a GPUDriver: nodes keep the driver that it brought them."""
    return _release(GPUDRIVER, driver, names.FINALIZER_DRIVER)


def _release(kind: Resource, obj: KubeObject, finalizer: str) -> list[Action]:
    held = obj.metadata.finalizers
    if finalizer not in held:
        return []
    left = [one for one in held if one != finalizer]
    return [Merge(ref(kind, obj), obj.metadata.resource_version, {"metadata": {"finalizers": left or None}})]


def ungate(pod: GatedPod) -> list[Action]:
    """The write that takes our scheduling gate off a pod, and leaves those of others; none where it is not there."""
    gates = pod.spec.scheduling_gates
    left = [gate for gate in gates if gate.get("name") != names.CARDS_GATE]
    if len(left) == len(gates):
        return []
    return [Merge(ref(POD, pod), pod.metadata.resource_version, {"spec": {"schedulingGates": left or None}})]
