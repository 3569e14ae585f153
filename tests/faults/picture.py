"""What a cluster looks like at the end, flat and without what is new each time: what two runs can be compared by.

`flatten` makes one entry for each leaf, `path: value`. Times, uids and versions are no part of it. What else differs
between two runs in which nothing went wrong differs by nature: `mask` learns it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from controllers.api import names

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from tests.faults.trace import Objects

Picture = dict[str, Any]
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
_EPOCH = re.compile(r"\b1[0-9]{9}\b")
"""Seconds since 1970, as GPU feature discovery writes them into a label."""
_UID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_DROPPED = {"uid", "resourceVersion", "creationTimestamp", "managedFields", "generation", "observedGeneration"}
_OURS = ("gpu.deckhouse.io/", "nvidia.com/", "feature.node.kubernetes.io/")
ABSENT = "<absent>"


def picture(objects: Objects) -> Picture:
    """All objects."""
    found: Picture = {}
    for (kind, name), obj in objects.items():
        shown = _shown(kind, obj)
        if shown is not None:
            found.update(_leaves(f"{kind} {_name(kind, name, obj)}", shown))
    return found


def mask(pictures: Iterable[Mapping[str, Any]]) -> set[str]:
    """The paths in which they differ."""
    first, *rest = pictures
    return {path for other in rest for path in differences(first, other)}


def differences(
    one: Mapping[str, Any], other: Mapping[str, Any], masked: Iterable[str] = ()
) -> dict[str, tuple[Any, Any]]:
    """What differs, by path: (in one, in the other)."""
    hidden = set(masked)
    return {
        path: (one.get(path, ABSENT), other.get(path, ABSENT))
        for path in sorted({*one, *other} - hidden)
        if one.get(path, ABSENT) != other.get(path, ABSENT)
    }


def _name(kind: str, name: str, obj: Mapping[str, Any]) -> str:
    """A DaemonSet's pod is known by its owner and node; its own name is new each time."""
    owners = [o["name"] for o in obj["metadata"].get("ownerReferences", ()) if o["kind"] == "DaemonSet"]
    return f"{owners[0]}@{_node_of(obj)}" if kind == "Pod" and owners else name


def _node_of(pod: Mapping[str, Any]) -> str:
    spec = pod["spec"]
    if "nodeName" in spec:
        return str(spec["nodeName"])
    terms = spec.get("affinity", {}).get("nodeAffinity", {}).get("requiredDuringSchedulingIgnoredDuringExecution", {})
    return ",".join(
        value
        for term in terms.get("nodeSelectorTerms", ())
        for field in term.get("matchFields", ())
        for value in field["values"]
    )


def _shown(kind: str, obj: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The part of an object that the module, or whoever asks it for something, answers for."""
    meta = {key: value for key, value in obj["metadata"].items() if key in ("labels", "annotations", "finalizers")}
    if "deletionTimestamp" in obj["metadata"]:
        meta["deleted"] = True
    if kind == "Node":
        status = obj.get("status", {})
        ours = {key: value for key, value in status.get("allocatable", {}).items() if key.startswith(_OURS)}
        for part in ("labels", "annotations"):
            meta[part] = {key: value for key, value in meta.get(part, {}).items() if key.startswith(_OURS)}
        return {"metadata": meta, "taints": obj.get("spec", {}).get("taints", []), "allocatable": ours}
    if kind == "Pod":
        ready = [c["status"] for c in obj.get("status", {}).get("conditions", ()) if c["type"] == "Ready"]
        kept = {"labels": {k: v for k, v in meta.get("labels", {}).items() if k.startswith(_OURS)}}
        marks = {k: v for k, v in meta.get("annotations", {}).items() if k.startswith(_OURS) and k != names.REQUEST_ID}
        return {**kept, "annotations": marks, "node": _node_of(obj), "ready": ready}
    if kind == "ModuleConfig" or obj["metadata"]["name"] == "kube-root-ca.crt":
        return None  # people's own, and each cluster's own
    parts = (
        ("spec", "data") if kind == "DaemonSet" else ("spec", "status", "data")
    )  # Kubernetes counts a DaemonSet's pods
    return {"metadata": meta, **{key: value for key, value in obj.items() if key in parts}}


def _leaves(path: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for key, inner in value.items():
            if key not in _DROPPED:
                yield from _leaves(f"{path}.{key}", inner)
        if not value:
            yield path, {}
    elif isinstance(value, list):
        for place, inner in enumerate(value):
            key = (
                next((inner[k] for k in ("type", "name", "inventoryID", "key") if k in inner), place)
                if isinstance(inner, dict)
                else place
            )
            yield from _leaves(f"{path}[{key}]", inner)
    else:
        yield (
            path,
            _UID.sub("<uid>", _EPOCH.sub("<time>", _TIME.sub("<time>", value))) if isinstance(value, str) else value,
        )
