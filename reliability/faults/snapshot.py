"""A cluster's state at the end of a run, flat and without what is new each time, for comparison.

`flatten` makes one entry for each leaf, `path: value`. Times, versions and ports are no part of it, and an object's uid
is told by who bears it now, or that nobody does. What else differs between two runs in which nothing went wrong differs
by nature: `mask` learns it. Pure.
"""

from __future__ import annotations

import copy
import re
from collections import Counter
from typing import TYPE_CHECKING, Any

from controllers.api import names, validation
from controllers.api.components import EXPORTER
from controllers.components.build import object_name
from controllers.components.pods import dcgm_exporter

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from reliability.faults.trace import Objects

Picture = dict[str, Any]
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
_EPOCH = re.compile(r"\b1[0-9]{9}\b")
"""Seconds since 1970, as GPU feature discovery writes them into a label."""
_UID = re.compile(r"(?<!GPU-)\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b")
_PORT = re.compile(r"127\.0\.0\.1:\d+")
_VERSIONS = {"uid", "resourceVersion", "creationTimestamp", "managedFields", "generation", "observedGeneration"}
_DROPPED = {
    *_VERSIONS,
    "took",  # seconds that a driver's installation took
    *("spent", "gpuSeconds", "outSeconds"),  # how long it took, and when
    "history",  # who had a card grows with each run, and what ends while nobody looks is in none
    "temperatureC",  # what a sensor said when a status was written for another reason
    validation.key(validation.CONTAINER, validation.CUDA),  # marks that are hashes over the node's boot, among others
}
_OURS = ("gpu.deckhouse.io/", "nvidia.com/", "feature.node.kubernetes.io/")
_NOT_SHOWN = ("ModuleConfig", "Event")
"""People's own; and what only grows."""
EXPORTER_OBJECT = object_name(EXPORTER)
GENERATION = "deprecated.daemonset.template.generation"
ABSENT = "<absent>"
GONE = "<gone>"


def picture(objects: Objects) -> Picture:
    """All objects."""
    found: Picture = {}
    bearers = _bearers(objects)
    for (kind, name), obj in objects.items():
        shown = _shown(kind, obj, bearers)
        if shown is not None:
            found.update(_leaves(f"{kind} {_name(kind, name, obj)}", shown, bearers))
    return found


def _bearers(objects: Objects) -> dict[str, str]:
    """Who bears a uid now; a reservation's request is known by its pod."""
    found = {}
    for (kind, name), obj in objects.items():
        found[str(obj["metadata"].get("uid"))] = what = f"<{kind} {_name(kind, name, obj)}>"
        if kind == "Pod" and (request := obj["metadata"].get("annotations", {}).get(names.REQUEST_ID)):
            found[request] = f"<request of {what[1:]}"
    return found


def alike(shown: Mapping[str, Any], patterns: Sequence[tuple[str, str]]) -> Picture:
    """With what stands for all that match a pattern; what falls together is kept as a sorted list of its values."""
    if not patterns:
        return dict(shown)
    found: dict[str, list[Any]] = {}
    several = set[str]()
    for path, value in shown.items():
        place, what = path, value
        for pattern, stands in patterns:
            place = re.sub(pattern, stands, place)
            what = re.sub(pattern, stands, what) if isinstance(what, str) else what
        found.setdefault(place, []).append(what)
        if place != path:
            several.add(place)
    return {place: sorted(values, key=repr) if place in several else values[0] for place, values in found.items()}


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


def _shown(kind: str, obj: Mapping[str, Any], bearers: Mapping[str, str]) -> Mapping[str, Any] | None:
    """The part of an object that the module, or whoever asks it for something, answers for."""
    if kind in _NOT_SHOWN or obj["metadata"]["name"] == "kube-root-ca.crt":  # each cluster's own
        return None
    meta = {key: value for key, value in obj["metadata"].items() if key in ("labels", "annotations", "finalizers")}
    owners = sorted(bearers.get(o.get("uid", ""), f"<{o['kind']} {o['name']}> {GONE}") for o in _owners(obj))
    if "deletionTimestamp" in obj["metadata"]:
        meta["deleted"] = True
    if kind == "Node":
        status = obj.get("status", {})
        ours = {key: value for key, value in status.get("allocatable", {}).items() if key.startswith(_OURS)}
        for part in ("labels", "annotations"):
            meta[part] = {key: value for key, value in meta.get(part, {}).items() if key.startswith(_OURS)}
        said = {one["type"]: one["status"] for one in status.get("conditions", ()) if one["type"].startswith(_OURS)}
        taints = obj.get("spec", {}).get("taints", [])
        return {"metadata": meta, "taints": taints, "allocatable": ours, "conditions": said}
    if kind == "Pod":
        ready = [c["status"] for c in obj.get("status", {}).get("conditions", ()) if c["type"] == "Ready"]
        kept = {"labels": {k: v for k, v in meta.get("labels", {}).items() if k.startswith(_OURS)}}
        marks = {k: v for k, v in meta.get("annotations", {}).items() if k.startswith(_OURS) and k != names.REQUEST_ID}
        gates = [gate["name"] for gate in obj["spec"].get("schedulingGates", ())]
        return {**kept, "annotations": marks, "owners": owners, "node": _node_of(obj), "gates": gates, "ready": ready}
    meta["owners"] = owners
    if kind == "Secret":
        return {"metadata": meta, "keys": sorted(obj.get("data", {}))}  # what is in it: `trust`
    if kind.endswith("WebhookConfiguration"):
        return {"metadata": {}, "webhooks": [_without_bundle(webhook) for webhook in obj.get("webhooks", ())]}
    parts = ("spec", "data") if kind == "DaemonSet" else ("spec", "status", "data")
    found = {"metadata": meta, **{key: value for key, value in obj.items() if key in parts}}
    return _daemonset(found, obj["metadata"]["name"]) if kind == "DaemonSet" else found


def _daemonset(found: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """Without what Kubernetes counts; of the exporter's without its pools: which of them it was told of is luck."""
    shown = copy.deepcopy(dict(found))
    shown["metadata"].get("annotations", {}).pop(GENERATION, None)
    if name == EXPORTER_OBJECT:
        shown["metadata"].get("annotations", {}).pop(names.SPEC_HASH, None)
        for container in shown["spec"]["template"]["spec"]["containers"]:
            container["env"] = [each for each in container.get("env", ()) if each["name"] != dcgm_exporter.RESOURCES]
    return shown


def _owners(obj: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    found: Sequence[Mapping[str, Any]] = obj["metadata"].get("ownerReferences", ())
    return found


def _without_bundle(webhook: Mapping[str, Any]) -> Mapping[str, Any]:
    client = {key: value for key, value in webhook.get("clientConfig", {}).items() if key != "caBundle"}
    return {**webhook, "clientConfig": client, "trusts": "caBundle" in webhook.get("clientConfig", {})}


def _leaves(path: str, value: Any, bearers: Mapping[str, str]) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for key, inner in value.items():
            if key not in _DROPPED:
                yield from _leaves(f"{path}.{key}", inner, bearers)
        if not value:
            yield path, {}
    elif isinstance(value, list):
        known = Counter[Any]()
        for place, inner in enumerate(value):
            known[key := _key(inner, place)] += 1  # what is there twice must not fall together
            yield from _leaves(f"{path}[{key}]" if known[key] == 1 else f"{path}[{key}#{known[key]}]", inner, bearers)
    else:
        yield path, _plain(value, bearers) if isinstance(value, str) else value


def _key(inner: Any, place: int) -> Any:
    """What an entry of a list is known by."""
    if not isinstance(inner, dict):
        return place
    return next((inner[key] for key in ("type", "name", "inventoryID", "key", "pod") if key in inner), place)


def _plain(text: str, bearers: Mapping[str, str]) -> str:
    text = _PORT.sub("<address>", _EPOCH.sub("<time>", _TIME.sub("<time>", text)))
    return _UID.sub(lambda found: bearers.get(found[0], GONE), text)
