"""The taint of a node that is out of service while pods of others could still come to its cards. Pure.

The module's own cards are withdrawn, and no pod gets them. What another device plugin or DRA driver offers nobody can
withdraw: there a taint keeps new pods off the node, and ends none. An annotation says that it is ours; without that it
is somebody else's, and stays.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from controllers.api import names
from controllers.api.resources import NODE
from controllers.domain.driver.node_work import PLANNED
from controllers.domain.driver.users import FOREIGN
from controllers.domain.node_marks import taint_json
from controllers.runtime.plan import EmitEvent, Merge, Precondition, ref

if TYPE_CHECKING:
    from controllers.api.kube import Node, NodeTaint
    from controllers.driver.node.draft import Draft
    from controllers.driver.views import ObservedNode


def keep_taint(draft: Draft) -> None:
    """Put the taint there or take it off, as the node's work asks for it; after other writes of the node."""
    node, work = draft.node, draft.after
    is_noted = names.DRIVER_TAINTED in node.metadata.annotations
    is_there = any(is_taint(one) for one in node.spec.taints)
    is_away = work is not None and work.phase in PLANNED and (work.wave is not None or work.hand_over is not None)
    is_wanted = is_away and (is_noted or (not is_there and offers_foreign(draft.observed)))
    if _writes_node(draft) or (is_noted, is_noted and is_there) == (is_wanted, is_wanted):
        return
    taints = [taint_json(one) for one in node.spec.taints if not is_taint(one)]
    if is_wanted:
        taints.append({"key": names.DRIVER_TAINT, "effect": "NoSchedule"})
    note = work.driver if is_wanted and work is not None else None
    body = {"metadata": {"annotations": {names.DRIVER_TAINTED: note}}, "spec": {"taints": taints or None}}
    draft.plan.add(Merge(ref(NODE, node), node.metadata.resource_version, body))


def is_taint(taint: NodeTaint) -> bool:
    """Whether a taint is the one of this module's, or looks like it."""
    return (taint.key, taint.effect) == (names.DRIVER_TAINT, "NoSchedule")


def offers_foreign(seen: ObservedNode) -> bool:
    """Whether pods can get, or have got, cards of the node by what is not the module's."""
    used = any(user.is_foreign for user in seen.users) or any(one.status.foreign_allocations for one in seen.devices)
    return used or (seen.node is not None and _is_offered(seen.node))


def _is_offered(node: Node) -> bool:
    return any(key.startswith(FOREIGN) and value != "0" for key, value in node.status.allocatable.items())


def _writes_node(draft: Draft) -> bool:
    """Whether the plan changes the node already, so that another write on the version that was read would fail."""
    writes = (one for one in draft.plan.actions if not isinstance(one, EmitEvent | Precondition))
    return any(one.ref.resource is NODE for one in writes)
