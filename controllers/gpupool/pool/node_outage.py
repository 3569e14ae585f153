"""Nodes of a GPUPool's cards that are gone, or not Ready: what people are told of them. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from controllers.gpupool.views import NodeFacts


def explain_node_outage(facts: NodeFacts, name: str) -> str:
    """Why nothing on a card's node answers, and what to do; empty where the node is there and Ready.

    A card is released only by its plugin and by kubelet, or with its node: on one that does not answer pods may run on.
    """
    node = facts.node
    if node is None:
        return (
            f"Node {name} is gone from the cluster, and the card leaves the pool with it. If a person confirmed it,"
            " that is remembered for inventory.rememberFor: it is in the pool again once a Node of that name has it."
        )
    if node.ready:
        return ""
    since = next((c.last_transition_time for c in node.status.conditions if c.type == "Ready"), None)
    found = f"Node {name} is not Ready{f' since {since}' if since else ''}: nothing there answers, and pods may run on."
    return (
        f"{found} The card stays as it is until the node is back. If that machine is off for good, say so:"
        f" kubectl delete node {name}; its cards leave their pools with it, and what a person said of them is"
        " remembered for inventory.rememberFor."
    )
