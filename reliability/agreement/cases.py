"""Pods on which verdicts and scheduler differ, or that stand for many: files that say all by which both decide."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from reliability.agreement.cluster import Cluster
from reliability.agreement.records import Outcome
from sim.controlplane.state import write_atomically

if TYPE_CHECKING:
    from pathlib import Path

Json = dict[str, Any]
_ASKED: Final = (
    "nodeSelector",
    "affinity",
    "tolerations",
    "topologySpreadConstraints",
    "overhead",
    "resources",
    "volumes",
)
_THERE: Final = ("nodeName", "affinity", "overhead", "resources")
_CONTAINER: Final = ("name", "resources", "ports", "restartPolicy")
_STATUS: Final = ("name", "resources", "allocatedResources")


def save(path: Path, cluster: Cluster, pod: Json, outcome: Outcome, **about: Any) -> None:
    """Write a case, with a line for each node and each pod; `about`: from where it is."""
    case = {**about, "outcome": {"node": outcome.node} if outcome.node else {"message": outcome.message}}
    lists = {
        "nodes": [_node(one) for one in cluster.nodes.values()],
        "pods": [_pod(one, _THERE) | {"status": _status(one.get("status", {}))} for one in cluster.pods.values()],
    }
    case["pod"] = _pod(pod, _ASKED)
    parts = [f"{json.dumps(key)}: {json.dumps(value)}" for key, value in case.items()]
    for key, found in lists.items():
        lines = ",\n".join(json.dumps(one) for one in found)
        parts.append(f"{json.dumps(key)}: [\n{lines}\n]")
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, "{\n" + ",\n".join(parts) + "\n}\n")


def load(path: Path) -> tuple[Cluster, Json, Outcome]:
    """Read a case: the nodes and pods, the pod that was asked about, and what the scheduler did with it."""
    case = json.loads(path.read_text())
    cluster = Cluster()
    for node in case["nodes"]:
        cluster.put_node(node)
    for pod in case["pods"]:
        cluster.put_pod(pod)
    return cluster, case["pod"], Outcome(**case["outcome"])


def _node(found: Json) -> Json:
    spec = _only(found.get("spec", {}), ("taints", "unschedulable"))
    return {
        "metadata": _only(found["metadata"], ("name", "labels")),
        "spec": spec,
        "status": {"allocatable": found["status"]["allocatable"]},
    }


def _pod(found: Json, keys: tuple[str, ...]) -> Json:
    spec = _only(found["spec"], keys)
    for kind in ("containers", "initContainers"):
        if kind in found["spec"]:
            spec[kind] = [_only(one, _CONTAINER) for one in found["spec"][kind]]
    return {"metadata": _only(found["metadata"], ("name", "namespace", "labels")), "spec": spec}


def _status(found: Json) -> Json:
    kept = _only(found, ("phase",))
    if given := found.get("containerStatuses"):
        kept["containerStatuses"] = [_only(one, _STATUS) for one in given]
    if resizing := [one for one in found.get("conditions", ()) if one["type"] == "PodResizePending"]:
        kept["conditions"] = [_only(one, ("type", "status", "reason")) for one in resizing]
    return kept


def _only(found: Json, keys: tuple[str, ...]) -> Json:
    return {key: found[key] for key in keys if key in found}
