"""Taking what is ours off nodes and pools again: the same writes for a disabled module as for its clean-up. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from controllers.api import names
from controllers.api.resources import GPUPOOL, NODE
from controllers.domain.node_marks import unmarked
from controllers.runtime.plan import Action, Merge, ref

if TYPE_CHECKING:
    from controllers.api.kube import Node
    from controllers.api.meta import KubeObject


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
