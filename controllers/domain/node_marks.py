"""What the module puts on a Node: labels known by their names, and taints whose owners an annotation names. Pure.

A taint that is not in the annotation, or that somebody gave another value, is somebody else's and stays. The annotation
is written together with the taints, in one patch on the version that was read: the list of taints is one value.
Nothing of somebody else's is replaced, so there is no former value to remember: where a node has another taint of the
same key and effect, ours is not put there.
"""

from __future__ import annotations

import json
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from controllers.api import names
from controllers.api.record import to_json

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from controllers.api.gpupool import Taint
    from controllers.api.kube import Node, NodeTaint

Place = tuple[str, str]
"""Key and effect: a node has at most one taint of them."""
LABELS: Final = (names.deploy_label(""), names.pool_node_label(""))
"""How the labels begin that our processes put on nodes."""


class TaintMark(NamedTuple):
    """A taint that we put on a node."""

    value: str
    owner: str
    """The pool that wants it."""


def taint_marks(node: Node) -> dict[Place, TaintMark]:
    """The taints that we put on a node; none where the annotation cannot be read."""
    return dict(_read(node.metadata.annotations.get(names.POOL_TAINTS, "[]")))


@lru_cache(maxsize=64)
def _read(text: str) -> tuple[tuple[Place, TaintMark], ...]:
    """The entries of an annotation; on most nodes of a pool it is the same."""
    try:
        entries = json.loads(text)
        found = [(entry["key"], entry["effect"], entry.get("value", ""), entry["pool"]) for entry in entries]
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return ()
    if not all(isinstance(part, str) for entry in found for part in entry):
        return ()
    return tuple(((key, effect), TaintMark(value, pool)) for key, effect, value, pool in found)


def is_ours(taint: NodeTaint, marks: Mapping[Place, TaintMark]) -> bool:
    """Whether we put a taint there, and nobody has changed it since."""
    found = marks.get((taint.key, taint.effect))
    return found is not None and found.value == taint.value


def record_taints(taints: Iterable[Mapping[str, Any]], owners: Mapping[Place, str]) -> str | None:
    """The annotation beside these taints of a node, of which those in `owners` are ours; None where none is."""
    entries = [
        {"key": taint["key"], "value": taint.get("value", ""), "effect": taint["effect"], "pool": owner}
        for taint in taints
        if (owner := owners.get((taint["key"], taint["effect"]))) is not None
    ]
    return json.dumps(sorted(entries, key=lambda entry: (entry["key"], entry["effect"]))) if entries else None


def taint_json(taint: Taint | NodeTaint) -> dict[str, Any]:
    """A taint as it is written; empty fields are left out."""
    return {key: value for key, value in to_json(taint).items() if value != ""}


def marked_labels(node: Node) -> list[str]:
    """Keys of the labels that our processes put on a node."""
    return sorted(key for key in node.metadata.labels if key.startswith(LABELS))


def unmarked(node: Node) -> dict[str, Any]:
    """The merge patch that takes all labels and taints of ours off a node; empty where there are none."""
    labels, marks = marked_labels(node), taint_marks(node)
    noted = [key for key in (names.POOL_TAINTS, names.DRIVER_TAINTED) if key in node.metadata.annotations]
    of_driver = names.DRIVER_TAINT if names.DRIVER_TAINTED in noted else None
    stay = [taint for taint in node.spec.taints if not is_ours(taint, marks) and taint.key != of_driver]
    if not labels and not noted:
        return {}
    body: dict[str, Any] = {"metadata": {}}
    if labels:
        body["metadata"]["labels"] = dict.fromkeys(labels)
    if noted:
        body["metadata"]["annotations"] = dict.fromkeys(noted)
    if len(stay) < len(node.spec.taints):
        body["spec"] = {"taints": [taint_json(taint) for taint in stay] or None}
    return body
