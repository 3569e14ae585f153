"""Free slots that a node's device plugin offers and `status.allocatable` of the Node does not show.

Kubelet shows a plugin's cards with its next status update, ten seconds later at most; until then nobody is promised
them, and that is no cause for alarm. A kubelet that lost the plugin's registration never shows them. So a pool notes
since when a node has such slots (`status.nodes[].notShownSince`), and after `pools.pluginPatience` they are waited for
no more: CapacityLow is evaluated without them, and Available tells. They stay withheld for as long as it lasts. Pure.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from controllers.api import names
from controllers.domain.clock import lies_ahead, seconds, stamp

if TYPE_CHECKING:
    from controllers.api.gpupool import GPUPoolStatus, PoolNode
    from controllers.domain.slots import NodeSlots
    from controllers.gpupool.views import ObservedPool


def not_shown_since(recorded: str | None, now: float) -> str:
    """Since when a node has such slots; `recorded`: what its pool's status has."""
    return recorded if recorded is not None and not lies_ahead(recorded, now) else stamp(now)


def seconds_left(view: ObservedPool, node: PoolNode, now: float) -> float:
    """Seconds for which kubelet is waited for yet; none where the node has no such slots."""
    return 0.0 if node.not_shown_since is None else _seconds_left(view, node.not_shown_since, now)


def is_overdue(view: ObservedPool, node: PoolNode, now: float) -> bool:
    """Whether a node has such slots, and is waited for no more."""
    return node.not_shown_since is not None and seconds_left(view, node, now) <= 0


def next_deadline(view: ObservedPool, status: GPUPoolStatus, now: float) -> float | None:
    """Seconds until the next node of a pool is waited for no more; None where there is none."""
    return min((wait for node in status.nodes if (wait := seconds_left(view, node, now)) > 0), default=None)


def describe(view: ObservedPool, node: NodeSlots, began: str, now: float) -> str:
    """`lastEvent` of a node with such slots in `status.nodes`."""
    if _seconds_left(view, began, now) > 0:
        return f"kubelet does not show {node.unshown} free slots of the pool yet (status.allocatable of the Node)"
    pods = f"kubectl -n {names.NAMESPACE} delete pod -l {names.LABEL_APP}={names.plugin_object(view.pool.name)}"
    return (
        f"kubelet has not shown {node.unshown} free slots of the pool since {began} (status.allocatable of the Node),"
        " and nobody is promised them; it takes the registration again of a plugin that is started anew:"
        f" {pods} --field-selector spec.nodeName={node.node}"
    )


def _seconds_left(view: ObservedPool, began: str, now: float) -> float:
    return seconds(began) + view.settings.pools.plugin_patience - now
