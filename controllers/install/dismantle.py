"""Taking what is ours off nodes and pools again: the same writes for a disabled module as for its clean-up. Pure.

What is ours of a node is told by its names (labels) and by annotation `pool-taints` (`controllers.domain.taints`). A
taint that is not in it, or that somebody gave another value, is somebody else's and stays.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from controllers.api import names
from controllers.api.record import to_json
from controllers.api.resources import GPUPOOL, NODE
from controllers.domain.taints import is_ours, remembered
from controllers.runtime.plan import Action, Merge, ref

if TYPE_CHECKING:
    from controllers.api.kube import Node
    from controllers.api.meta import KubeObject

HEADS = (names.deploy_label(""), names.pool_node_label(""))
"""How the node labels that our processes put there begin."""


def marks(node: Node) -> list[str]:
    """The labels of a node that our processes put there."""
    return sorted(key for key in node.metadata.labels if key.startswith(HEADS))


def unmark(node: Node) -> list[Action]:
    """One write that takes all labels and taints of ours off a node; none where there are none."""
    labels, ours = marks(node), remembered(node)
    stay = [taint for taint in node.spec.taints if not is_ours(taint, ours)]
    noted = names.POOL_TAINTS in node.metadata.annotations
    if not labels and not noted:
        return []
    body: dict[str, Any] = {"metadata": {}}
    if labels:
        body["metadata"]["labels"] = dict.fromkeys(labels)
    if noted:
        body["metadata"]["annotations"] = {names.POOL_TAINTS: None}
    if len(stay) < len(node.spec.taints):
        body["spec"] = {"taints": [taint_json(taint) for taint in stay] or None}
    return [Merge(ref(NODE, node), node.metadata.resource_version, body)]


def taint_json(taint: object) -> dict[str, Any]:
    """A taint as it is written; empty fields are left out."""
    return {key: value for key, value in to_json(taint).items() if value != ""}


def release(pool: KubeObject) -> list[Action]:
    """The write that takes our finalizer off a pool, so that it can be deleted; none where it is not there."""
    held = pool.metadata.finalizers
    if names.FINALIZER_POOL not in held:
        return []
    left = [finalizer for finalizer in held if finalizer != names.FINALIZER_POOL]
    return [Merge(ref(GPUPOOL, pool), pool.metadata.resource_version, {"metadata": {"finalizers": left or None}})]
