"""Affinities as administrators may write them into a pool: what is right, and each mistake with what is said of it."""

from __future__ import annotations

from typing import Any

from webhook.decision.affinity import PREFERRED, REQUIRED


def nodes(*terms: Any) -> dict[str, Any]:
    """Required nodes."""
    return {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": list(terms)}}}


def label(key: str = "disk", operator: str = "In", *values: Any) -> dict[str, Any]:
    """A term with one expression about labels."""
    return {"matchExpressions": [{"key": key, "operator": operator, **({"values": list(values)} if values else {})}]}


def name(*values: str, key: str = "metadata.name", operator: str = "In") -> dict[str, Any]:
    """A term with one expression about the node's fields."""
    return {"matchFields": [{"key": key, "operator": operator, "values": list(values)}]}


def rather(weight: Any, **preference: Any) -> dict[str, Any]:
    """Preferred nodes."""
    return {"nodeAffinity": {PREFERRED: [{"weight": weight, "preference": preference}]}}


def near(**term: Any) -> dict[str, Any]:
    """Required pods."""
    return {"podAffinity": {REQUIRED: [{"topologyKey": "zone", **term}]}}


def away(**entry: Any) -> dict[str, Any]:
    """Pods that others would rather be away from."""
    return {"podAntiAffinity": {PREFERRED: [entry]}}


ZONE = {"topologyKey": "topology.kubernetes.io/zone"}
RIGHT: dict[str, dict[str, Any]] = {
    "nothing": {},
    "nulls": {"nodeAffinity": None, "podAffinity": None, "podAntiAffinity": {REQUIRED: None, PREFERRED: None}},
    "nulls in a selector": near(
        labelSelector={
            "matchLabels": {"a": None},
            "matchExpressions": [{"key": "app", "operator": "Exists", "values": None}],
        }
    ),
    "labels of nodes": nodes(label("disk", "In", "ssd", ""), label("a.b/c", "Exists"), label("mem", "Gt", "5")),
    "an empty term beside another": nodes({}, label("disk", "DoesNotExist")),
    "a node by name": nodes(name("node-1.example.com")),
    "nodes by weight": rather(1, **label("disk", "NotIn", "hdd")) | near(),
    "pods": near(
        labelSelector={"matchLabels": {"app": "x"}, **label("tier", "NotIn", "a")},
        namespaces=["team"],
        namespaceSelector={},
        matchLabelKeys=["pod-template-hash"],
    ),
    "pods by weight": away(weight=100, podAffinityTerm=ZONE),
}
UNKNOWN: dict[str, tuple[dict[str, Any], str]] = {
    "a misspelt kind": ({"nodeAfinity": {}}, "nodeAfinity: there is no such field"),
    "a name of ours": ({"node_affinity": {}}, "node_affinity: there is no such field"),
    "a misspelt list": (
        {"nodeAffinity": {"required": {}}},
        "nodeAffinity.required: there is no such field",
    ),
    "a selector at the wrong place": (
        away(weight=1, podAffinityTerm=ZONE, labelSelector={}),
        f"podAntiAffinity.{PREFERRED}[0].labelSelector: there is no such field",
    ),
}
"""What an API server drops without a word."""
REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "text": ({"nodeAffinity": "near"}, "nodeAffinity: expected an object"),
    "an object for a list": ({"podAffinity": {REQUIRED: {}}}, f"podAffinity.{REQUIRED}: expected a list"),
    "an operator in small letters": (
        nodes(label("disk", "in", "ssd")),
        f"nodeAffinity.{REQUIRED}.nodeSelectorTerms[0].matchExpressions[0].operator: expected 'In', 'NotIn', 'Exists',"
        " 'DoesNotExist', 'Gt' or 'Lt', found 'in'",
    ),
    "no values": (nodes(label("disk", "In")), "matchExpressions[0]: operator In needs values"),
    "values of Exists": (nodes(label("disk", "Exists", "ssd")), "operator Exists takes no values"),
    "two values of Gt": (nodes(label("mem", "Gt", "1", "2")), "operator Gt takes one value"),
    "a number for a value": (nodes(label("mem", "Gt", 1)), "values[0]: expected a text"),
    "no key of a label": (nodes(label("not a label!", "Exists")), "key: 'not a label!' is no label key"),
    "no value of a label": (nodes(label("disk", "In", "s s d")), "values[0]: 's s d' is no value of a label"),
    "another field": (nodes(name("n", key="metadata.uid")), "matchFields[0].key: expected 'metadata.name', found"),
    "two names": (nodes(name("n", "m")), "matchFields[0]: an expression about metadata.name takes one value"),
    "no name": (nodes(name("N!")), "'N!' is no name of a node"),
    "a field that is there": (
        nodes(name("n", operator="Exists")),
        "operator: expected 'In' or 'NotIn', found 'Exists'",
    ),
    "no weight": (
        {"nodeAffinity": {PREFERRED: [{"preference": label("disk", "Exists")}]}},
        f"nodeAffinity.{PREFERRED}[0].weight: is missing",
    ),
    "too much weight": (
        rather(101, **label("disk", "Exists")),
        "weight: expected less than or equal to 100, found 101",
    ),
    "weight 0": (away(weight=0, podAffinityTerm=ZONE), "weight: expected greater than or equal to 1, found 0"),
    "weight as text": (away(weight="5", podAffinityTerm=ZONE), "weight: expected a whole number"),
    "no term": (away(weight=5), f"podAntiAffinity.{PREFERRED}[0].podAffinityTerm: is missing"),
    "no topology": ({"podAntiAffinity": {REQUIRED: [{}]}}, f"podAntiAffinity.{REQUIRED}[0].topologyKey: is missing"),
    "an empty topology": (near(topologyKey=""), "topologyKey: '' is no label key"),
    "a topology that is no label": (near(topologyKey="not a label!"), "topologyKey: 'not a label!' is no label key"),
    "Gt of pods": (near(labelSelector=label("a", "Gt", "1")), "operator: expected 'In', 'NotIn', 'Exists' or"),
    "a label's key": (
        near(labelSelector={"matchLabels": {"a b": "x"}}),
        "labelSelector.matchLabels.a b: 'a b' is no label key",
    ),
    "a label's value": (near(namespaceSelector={"matchLabels": {"a": "x!"}}), "'x!' is no value of a label"),
    "a namespace": (near(namespaces=["Team"]), "namespaces[0]: 'Team' is no name of a namespace"),
    "a key in both lists": (
        near(matchLabelKeys=["a"], mismatchLabelKeys=["a"], labelSelector={}),
        "'a' is in both matchLabelKeys and mismatchLabelKeys",
    ),
    "keys without a selector": (
        near(matchLabelKeys=["a"]),
        "matchLabelKeys and mismatchLabelKeys need a labelSelector",
    ),
}
"""What an API server refuses in a pod."""
WRONG = UNKNOWN | REFUSED
