"""What must hold of nodes that another program's device plugin serves, checked on every revision. Pure.

A node's cards are never offered by two plugins at once, and a pod that has a card by the other one runs on, in the same
containers, until whoever made it lets it go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from controllers.api import names
from controllers.api.foreign import is_plugins
from controllers.explain.takeover import asks_for_theirs

if TYPE_CHECKING:
    from collections.abc import Mapping

    from reliability.faults.trace import Objects, Revision

Found = list[str]
LET_GO: Final = "test/let-go"
"""Annotation of a pod that its user is about to end."""


def look(state: Objects, revision: Revision) -> Found:
    """What this revision breaks; `state` is that before it."""
    kind, gone = revision.key[0], revision.type == "DELETED"
    if kind == "Pod":
        return _ended(state, revision)
    if kind == "Node" and not gone:
        return _doubled(state, revision, revision.key[1])
    if kind == "GPUDevice" and not gone:
        return _doubled(state, revision, revision.object.get("status", {}).get("nodeName") or "")
    return []


def _doubled(state: Objects, revision: Revision, node: str) -> Found:
    """Two plugins offer the node's cards since this revision."""
    if _offers(state, node):
        return []
    both = _offers({**state, revision.key: revision.object}, node)
    return [f"two plugins offer the cards of node {node}: {both}"] if both else []


def _offers(state: Objects, node: str) -> str:
    """What two plugins offer of a node; empty where one of them offers nothing."""
    listed = state.get(("Node", node), {}).get("status", {}).get("allocatable", {})
    given = {key: amount for key, amount in sorted(listed.items()) if str(amount) != "0"}
    theirs = [f"{key}: {amount}" for key, amount in given.items() if is_plugins(key)]
    if not theirs:
        return ""
    ours = [f"{key}: {amount}" for key, amount in given.items() if key.startswith(names.PREFIX)]
    ours += [
        f"{name} for {status['published']['pool']}"
        for (kind, name), obj in sorted(state.items())
        if kind == "GPUDevice" and (status := obj.get("status", {})).get("nodeName") == node and status.get("published")
    ]
    return ", ".join([*theirs, *ours]) if ours else ""


def _ended(state: Objects, revision: Revision) -> Found:
    """A pod with cards by the other plugin ends, or a container of it starts again, and nobody has let it go."""
    was = state.get(revision.key)
    if was is None or not asks_for_theirs(was) or not was["spec"].get("nodeName"):
        return []
    if LET_GO in was["metadata"].get("annotations", {}) or "deletionTimestamp" in was["metadata"]:
        return []
    now = revision.object
    if revision.type == "DELETED" or "deletionTimestamp" in now["metadata"]:
        return ["it has cards by another program's plugin, and is ended though nobody has let it go"]
    if (phase := now.get("status", {}).get("phase")) in ("Succeeded", "Failed"):
        return [f"it has cards by another program's plugin, and is {phase} though nobody has let it go"]
    if _restarts(now) > _restarts(was):
        return ["it has cards by another program's plugin, and a container of it starts again"]
    return []


def _restarts(pod: Mapping[str, Any]) -> int:
    return sum(int(one.get("restartCount", 0)) for one in pod.get("status", {}).get("containerStatuses", ()))
