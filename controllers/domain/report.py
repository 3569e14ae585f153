"""Whether the node agent's NodeFeature is from the Node's present boot. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from controllers.api.kube import Node
    from controllers.api.nodefeature import NodeFeature


def is_of_this_boot(report: NodeFeature, node: Node) -> bool:
    """Whether a report was made since the node last started, as far as both tell."""
    agent = report.spec.features.attributes.agent
    reported, booted = agent.elements.get("boot_id") if agent else None, node.status.node_info.boot_id
    return not reported or not booted or reported == booted
