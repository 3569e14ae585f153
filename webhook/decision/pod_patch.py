"""The JSON patch for a pod that has cards or waits for them: what it should have, laid over what it has. Pure.

`overlay` writes the smallest operations that make nested fields have given values, creates
parents that are missing (or null), and replaces lists as a whole; so no operation depends
on another, and what the pod had is kept unless we own it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import orjson

from controllers.api import names
from controllers.api.record import to_json
from controllers.domain.json_pointer import pointer
from webhook.decision import affinity, visible_devices

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from controllers.api.gpupool import Toleration
    from controllers.domain.placement.choice import Placement
    from webhook.decision.records import UserInfo

Patch = tuple[dict[str, Any], ...]
MARKS = (
    ("labels", names.LABEL_POOL),
    *(("annotations", key) for key in (names.REQUEST_ID, names.DEVICES, names.REQUESTED_BY)),
)
NO_SPREAD: Final[dict[str, Any]] = {
    "maxSkew": 1,
    "topologyKey": names.LABEL_HOSTNAME,
    "whenUnsatisfiable": "ScheduleAnyway",
    "labelSelector": {
        "matchExpressions": [
            {"key": names.LABEL_POOL, "operator": "Exists"},
            {"key": names.LABEL_POOL, "operator": "DoesNotExist"},
        ]
    },
}
"""Its selector matches no pod, so all nodes are alike to it. A pod without any constraint is spread by the scheduler's
own defaults, whose score weighs as much as the preference for the node of the pod's cards. Without a selector the API
server warns at each creation, and Karpenter counts all pods of the namespace."""


@dataclass(frozen=True, slots=True)
class Additions:
    """What a pool adds to each of its pods."""

    pool: str
    request_id: str
    tolerations: Iterable[Toleration] = ()
    runtime_class: str | None = None
    """For pods that name none."""
    affinity: Mapping[str, Any] = field(default_factory=dict)
    """Beside the pod's own."""
    person: UserInfo | None = None
    """On whose groups or rights the pod's access rests; None where on its own."""


def admitted(raw: Mapping[str, Any], additions: Additions, placement: Placement) -> Patch:
    """The patch for a pod that has cards."""
    return _patch(raw, additions, placement)


def queued(raw: Mapping[str, Any], additions: Additions) -> Patch:
    """The patch for a pod that waits: our gate, and all that does not depend on which cards it will have."""
    gates = list((raw.get("spec") or {}).get("schedulingGates") or ())
    if not any(gate.get("name") == names.CARDS_GATE for gate in gates):
        gates.append({"name": names.CARDS_GATE})
    return _patch(raw, additions, None, schedulingGates=gates)


def _patch(raw: Mapping[str, Any], additions: Additions, placement: Placement | None, **fields: Any) -> Patch:
    spec, node = raw.get("spec") or {}, placement.node if placement is not None else None
    pool = additions.pool
    wanted: dict[str, Any] = {
        "affinity": affinity.merged(spec, pool=pool, node=node, added=additions.affinity),
        **fields,
    }
    if not spec.get("topologySpreadConstraints"):
        wanted["topologySpreadConstraints"] = [NO_SPREAD]
    if added := _tolerations(spec, additions.tolerations):
        wanted["tolerations"] = added
    if additions.runtime_class and not spec.get("runtimeClassName"):
        wanted["runtimeClassName"] = additions.runtime_class
    marks = {"labels": {names.LABEL_POOL: pool}, "annotations": {names.REQUEST_ID: additions.request_id}}
    if placement is not None:
        marks["annotations"][names.DEVICES] = placement.devices
    if additions.person is not None:
        marks["annotations"][names.REQUESTED_BY] = orjson.dumps(to_json(additions.person)).decode()
    set_here = {(field, key) for field, entries in marks.items() for key in entries}
    laid = overlay(raw, {"metadata": marks, "spec": wanted})
    return (*_without(raw, set(MARKS) - set_here), *laid, *visible_devices.operations(spec))


def remove_marks(raw: Mapping[str, Any]) -> Patch:
    """The patch for a pod that reserves nothing: it must not carry the marks of one that does."""
    return _without(raw, MARKS)


def _without(raw: Mapping[str, Any], marks: Iterable[tuple[str, str]]) -> Patch:
    """Operations after which the pod has none of these labels and annotations."""
    metadata = raw.get("metadata") or {}
    return tuple(
        {"op": "remove", "path": pointer("metadata", field, key)}
        for field, key in marks
        if key in (metadata.get(field) or {})
    )


def _tolerations(spec: Mapping[str, Any], added: Iterable[Toleration]) -> list[dict[str, Any]] | None:
    """The pod's tolerations with the new ones; None where it has them all."""
    existing = list(spec.get("tolerations") or ())
    new: list[dict[str, Any]] = []
    for toleration in map(to_json, added):
        if toleration not in existing and toleration not in new:
            new.append(toleration)
    return [*existing, *new] if new else None


def overlay(raw: Mapping[str, Any], wanted: Mapping[str, Any], path: tuple[str, ...] = ()) -> Patch:
    """Operations after which `raw` has every value of `wanted`."""
    operations: list[dict[str, Any]] = []
    for key, value in wanted.items():
        there = raw.get(key)
        if isinstance(value, dict) and isinstance(there, dict):
            operations += overlay(there, value, (*path, key))
        elif there != value:
            # `add` to a member that exists replaces it (RFC 6902, 4.1).
            operations.append({"op": "add", "path": pointer(*path, key), "value": value})
    return tuple(operations)
