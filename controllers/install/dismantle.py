"""Taking what is ours off nodes, pools and pods again. Pure.

A disabled module does so with nodes and pools; pods in a queue wait on until it is enabled.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from controllers.api import names
from controllers.api.resources import GPUPOOL, NODE, POD
from controllers.domain.node_marks import unmarked
from controllers.runtime.plan import Action, Merge, ref

if TYPE_CHECKING:
    from controllers.api.kube import Node
    from controllers.api.meta import KubeObject
    from controllers.install.observed import GatedPod


def unmark(node: Node) -> list[Action]:
    """One write that takes all labels and taints of ours off a node; none where there are none."""
    body = unmarked(node)
    return [Merge(ref(NODE, node), node.metadata.resource_version, body)] if body else []


def release(pool: KubeObject) -> list[Action]:
    """The write that takes our finalizer off a pool, so that it can be deleted; none where it is not there."""
    held = pool.metadata.finalizers
    if names.FINALIZER_POOL not in held:
        return []
    left = [finalizer for finalizer in held if finalizer != names.FINALIZER_POOL]
    return [Merge(ref(GPUPOOL, pool), pool.metadata.resource_version, {"metadata": {"finalizers": left or None}})]


def ungate(pod: GatedPod) -> list[Action]:
    """The write that takes our scheduling gate off a pod, and leaves those of others; none where it is not there."""
    gates = pod.spec.scheduling_gates
    left = [gate for gate in gates if gate.get("name") != names.CARDS_GATE]
    if len(left) == len(gates):
        return []
    return [Merge(ref(POD, pod), pod.metadata.resource_version, {"spec": {"schedulingGates": left or None}})]
