"""Condition `gpu.deckhouse.io/Ready` of a Node: ReadyForPooling for who reads Nodes alone, as autoscalers do. Pure.

It says no more than whether: each stage of the preparation would be another write of a Node, of which the whole cluster
hears. A node that is not to be prepared has none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from controllers.api import conditions as kinds
from controllers.api import names
from controllers.api.conditions import Finding, condition_for
from controllers.api.record import to_json
from controllers.api.resources import GPUNODEINVENTORY, NODE
from controllers.domain.clock import stamp
from controllers.runtime.plan import Apply, ref

if TYPE_CHECKING:
    from collections.abc import Iterable

    from controllers.api.kube import Node
    from controllers.runtime.plan import Action


def plan_condition(node: Node, is_ready: bool | None, now: float) -> Iterable[Action]:
    """The write of the Node's condition, where it does not say so yet. `is_ready`: None for a node without it."""
    before = next((one.status for one in node.status.conditions if one.type == names.NODE_READY), None)
    if is_ready is None:
        # What is ours and left out goes.
        return () if before is None else (Apply(ref(NODE, node), {"status": {"conditions": []}}, "status"),)
    if before == str(is_ready):
        return ()
    where = f"{kinds.READY_FOR_POOLING} of {GPUNODEINVENTORY.kind} {node.name}"
    ready = Finding(True, "Ready", f"the node is prepared, and its cards may be in pools: see {where}")
    found = ready if is_ready else Finding(False, "NotReady", f"the node's cards are given to nobody: see {where}")
    made = to_json(condition_for((), names.NODE_READY, found, now=stamp(now)))
    made["lastHeartbeatTime"] = made["lastTransitionTime"]
    return (Apply(ref(NODE, node), {"status": {"conditions": [made]}}, "status"),)
