"""Conditions of a Node, for who reads Nodes alone: whether its cards may be in pools, and who else has it. Pure.

They say no more than whether: each stage of the preparation would be another write of a Node, of which the whole
cluster hears. A node that is not to be prepared has no `gpu.deckhouse.io/Ready`, and one that nobody has no
`GPUHandedOver`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

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


def plan_conditions(node: Node, is_ready: bool | None, now: float, *, is_handed_over: bool) -> Iterable[Action]:
    """The write of the Node's conditions, where they do not say so yet. `is_ready`: None for a node without that one.

    They are one value, since one field manager applies them: what is ours and left out goes.
    """
    desired = {} if is_ready is None else {names.NODE_READY: _ready(node, is_ready=is_ready)}
    if is_handed_over:
        desired[names.NODE_HANDED_OVER] = _handed_over(node)
    before = {one.type: one for one in node.status.conditions if one.type in names.NODE_CONDITIONS}
    if {kind: one.status for kind, one in before.items()} == {kind: str(one.status) for kind, one in desired.items()}:
        return ()
    made: list[dict[str, Any]] = []
    for kind, found in desired.items():
        known = before.get(kind)
        kept = known.last_transition_time if known is not None and known.status == str(found.status) else None
        made.append(to_json(condition_for((), kind, found, now=kept or stamp(now))))
        made[-1]["lastHeartbeatTime"] = made[-1]["lastTransitionTime"]
    return (Apply(ref(NODE, node), {"status": {"conditions": made}}, "status"),)


def _ready(node: Node, *, is_ready: bool) -> Finding:
    where = f"{kinds.READY_FOR_POOLING} of {GPUNODEINVENTORY.kind} {node.name}"
    if is_ready:
        return Finding(True, "Ready", f"the node is prepared, and its cards may be in pools: see {where}")
    return Finding(False, "NotReady", f"the node's cards are given to nobody: see {where}")


def _handed_over(node: Node) -> Finding:
    message = (
        f"no pod and none of the module's programs uses the driver of node {node.name}: do your work, and then take"
        f" annotation {names.HAND_OVER} off the Node"
    )
    return Finding(True, "HandedOver", message)
