"""What must hold of nodes whose driver the module installs, checked on every revision. Pure.

The module writes no cordon; the label that names a node's variant is one that the node's work speaks of, and changes
under work alone; no two pods bring a driver onto a node; and no such pod goes from under cards that are offered or
used. At the end nothing is at work, nothing is tainted, and nobody looks at nodes any more.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from controllers.api import names
from controllers.domain.driver.variant import ADOPTED

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from reliability.faults.process_proxy import Sent
    from reliability.faults.trace import Objects, Revision

Found = list[str]


def look(state: Objects, revision: Revision) -> Found:
    """What this revision breaks; `state` is that before it."""
    kind, name = revision.key
    gone = revision.type == "DELETED"
    if kind == "Node" and not gone:
        return _cordon(revision.object) + _label(state, name, revision)
    if kind == "Pod":
        return _ended(state, revision) if gone else _second(state, revision)
    return []


def _cordon(node: Mapping[str, Any]) -> Found:
    return ["it is cordoned"] if node.get("spec", {}).get("unschedulable") else []


def _label(state: Objects, name: str, revision: Revision) -> Found:
    """The label is left as it is but for work that names it, and for a driver that a person gives over."""
    before = state.get(revision.key, {}).get("metadata", {})
    was = before.get("labels", {}).get(names.DRIVER_VARIANT) if before.get("uid") == revision.uid else None
    now = revision.object["metadata"].get("labels", {}).get(names.DRIVER_VARIANT)
    if now == was or (ADOPTED in (now, was) and None in (now, was) and _is_adopted(state, name) == (now == ADOPTED)):
        return []
    work = state.get(("GPUNodeInventory", name), {}).get("status", {}).get("driverWork") or {}
    may = {work.get("from"), work.get("to"), None} if work else {was}
    if now in may and (not work or work.get("nodeUID") == revision.uid):
        return []
    return [f"its label turns from {was} to {now}, and its work says {work or 'nothing'}"]


def _is_adopted(state: Objects, node: str) -> bool:
    """Whether a pod that a person gave over brings the node's driver."""
    pods = (obj for (kind, _), obj in state.items() if kind == "Pod" and obj["spec"].get("nodeName") == node)
    return any(pod["metadata"].get("labels", {}).get(names.DRIVER_ADOPTED) == "true" for pod in pods)


def _second(state: Objects, revision: Revision) -> Found:
    """A node has one such pod at most that is not being deleted."""
    after = {**state, revision.key: revision.object}
    counted = Counter(pod["spec"].get("nodeName", "") for pod in drivers(after) if not _leaves(pod))
    node = revision.object["spec"].get("nodeName", "")
    return [f"node {node} has {counted[node]} pods that bring a driver"] if node and counted[node] > 1 else []


def _ended(state: Objects, revision: Revision) -> Found:
    """Such a pod goes only where its node's cards are neither offered nor used, or with its node."""
    node = revision.object["spec"].get("nodeName", "")
    if not is_driver(revision.object) or ("Node", node) not in state:
        return []
    used = [
        name
        for (kind, name), obj in sorted(state.items())
        if kind == "GPUDevice" and obj.get("status", {}).get("nodeName") == node and _is_used(obj["status"])
    ]
    return [f"the driver goes from under cards of node {node}: {', '.join(used)}"] if used else []


def at_end(state: Objects) -> Found:
    """What is left over when a story has ended well."""
    found = Found()
    for (kind, name), obj in sorted(state.items()):
        if kind == "GPUNodeInventory" and (work := obj.get("status", {}).get("driverWork")):
            found.append(f"{kind} {name}: is still at work: {work.get('phase')} {work.get('reason') or ''}".rstrip())
        if kind == "Node" and any(t["key"] == names.DRIVER_TAINT for t in obj.get("spec", {}).get("taints", ())):
            found.append(f"{kind} {name}: still has taint {names.DRIVER_TAINT}")
        if kind == "Pod" and is_check(obj):
            found.append(f"{kind} {name}: still looks at node {obj['spec'].get('nodeName', '')}")
    return found


def cordons(sent: Iterable[Sent]) -> Found:
    """Requests that would cordon a node, or take a cordon away, whether or not they were carried out."""
    found = (
        f"{one.process}: {one.verb} {one.about} says whether pods may come to the node"
        for one in sent
        if one.resource == "nodes" and isinstance(one.body, dict) and "unschedulable" in (one.body.get("spec") or {})
    )
    return list(dict.fromkeys(found))


def drivers(state: Objects) -> Iterator[Mapping[str, Any]]:
    """Pods that bring a driver onto a node."""
    return (obj for (kind, _), obj in state.items() if kind == "Pod" and is_driver(obj))


def is_driver(pod: Mapping[str, Any]) -> bool:
    """Whether a DaemonSet keeps it to bring a driver."""
    return _is_ours(pod) and any(owner["kind"] == "DaemonSet" for owner in pod["metadata"].get("ownerReferences", ()))


def is_check(pod: Mapping[str, Any]) -> bool:
    """Whether it looks at a node, and nothing keeps it."""
    return _is_ours(pod) and not is_driver(pod)


def _is_ours(pod: Mapping[str, Any]) -> bool:
    return names.LABEL_DRIVER in pod["metadata"].get("labels", {})


def _leaves(pod: Mapping[str, Any]) -> bool:
    over = pod.get("status", {}).get("phase") in ("Succeeded", "Failed")
    return over or "deletionTimestamp" in pod["metadata"]


def _is_used(status: Mapping[str, Any]) -> bool:
    return any(status.get(field) for field in ("published", "allocations", "reservations"))
