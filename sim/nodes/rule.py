"""nfd-master: which NodeFeatures and rules speak of a node, and which of its labels are NFD's own. Pure.

The evaluation itself is the program `nfd-rule`'s, see `sim.nodes.evaluator`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

import orjson

from sim.nodes import names

if TYPE_CHECKING:
    from controllers.api.kube import Node
    from controllers.inventory.rule.node_feature_rule import NodeFeatureRule
    from sim.nodes.report import Report


def merged(reports: Iterable[Report]) -> list[Report]:
    """A node's NodeFeatures in the order in which nfd-master merges them: its own namespace's first."""
    return sorted(
        reports, key=lambda r: (r.metadata.namespace != names.NFD_NAMESPACE, r.name, r.metadata.namespace or "")
    )


def rules(objects: Iterable[NodeFeatureRule]) -> bytes:
    """The rules of all NodeFeatureRules, by the objects' names, as one list in JSON."""
    listed = sorted(objects, key=lambda rule: rule.name)
    return orjson.dumps([entry for rule in listed for entry in rule.spec.get("rules") or ()])


def owned(node: Node) -> dict[str, str]:
    """The labels that nfd-master gave the node before, with their present values."""
    given = node.metadata.annotations.get(names.NFD_OWNED, "").split(",")
    keys = [key if "/" in key else f"{names.NFD_LABELS}/{key}" for key in given if key]
    return {key: node.metadata.labels.get(key, "") for key in keys}


def patch(wanted: Mapping[str, str]) -> dict[str, object]:
    """The metadata to apply; what it leaves out goes away."""
    noted = ",".join(sorted(key.removeprefix(f"{names.NFD_LABELS}/") for key in wanted))
    return {"labels": dict(wanted), "annotations": {names.NFD_OWNED: noted} if wanted else {}}
