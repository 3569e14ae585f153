"""Which nodes are possible: the corners of Kubernetes' rules (the usual cases are in tests/webhook/test_decide.py)."""

from __future__ import annotations

from typing import Any

import pytest

from controllers.api.kube import Node
from controllers.api.record import adapter
from controllers.api.tenant import NodeTerm, TenantSpec
from controllers.domain.node_fit import PodConstraints, node_fits


def node(**labels: str) -> Node:
    return adapter(Node).validate_python({"metadata": {"name": "n1", "labels": labels}})


def spec(*terms: dict[str, Any]) -> TenantSpec:
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(terms)}}
    return adapter(TenantSpec).validate_python({"affinity": {"nodeAffinity": required}})


def compares(operator: str, found: str, *bounds: str) -> bool:
    term = {"matchExpressions": [{"key": "gen", "operator": operator, "values": list(bounds)}]}
    return node_fits(PodConstraints.of(spec(term)), node(gen=found))


@pytest.mark.parametrize(
    ("operator", "found", "bounds", "expected"),
    [
        ("Gt", "5", ["4"], True),
        ("Gt", "4", ["4"], False),
        ("Lt", "-5", ["4"], True),
        ("Gt", "+5", ["4"], True),
        ("Gt", "1_0", ["4"], False),  # a label may hold it, and Go reads no number in it
        ("Gt", "٥", ["4"], False),
        ("Gt", "", ["4"], False),
        ("Gt", "5", [], False),
        ("Gt", "5", ["3", "4"], False),
        ("Gt", "5", ["four"], False),
        ("Lt", "9223372036854775807", ["9223372036854775808"], False),  # beyond 64 bits
    ],
)
def test_numbers_compare_as_the_scheduler_compares_them(
    operator: str, found: str, bounds: list[str], expected: bool
) -> None:
    assert compares(operator, found, *bounds) == expected


def test_a_missing_label_is_no_number() -> None:
    term = {"matchExpressions": [{"key": "gen", "operator": "Lt", "values": ["4"]}]}
    assert not node_fits(PodConstraints.of(spec(term)), node())


def name(operator: str, *values: str) -> dict[str, Any]:
    return {"matchFields": [{"key": "metadata.name", "operator": operator, "values": list(values)}]}


@pytest.mark.parametrize(
    ("terms", "expected"),
    [
        ([name("NotIn", "n1")], False),
        ([name("NotIn", "n2")], True),
        ([name("NotIn", "n1"), name("In", "n1")], True),  # alternatives
        ([{**name("In", "n1"), "matchExpressions": [{"key": "no", "operator": "Exists"}]}], False),  # both of one
    ],
)
def test_fields(terms: list[dict[str, Any]], expected: bool) -> None:
    assert node_fits(PodConstraints.of(spec(*terms)), node()) == expected


def test_the_pools_terms_come_beside_the_pods() -> None:
    terms = tuple(
        adapter(NodeTerm).validate_python({"matchExpressions": [{"key": key, "operator": "Exists"}]})
        for key in ("ssd", "nvme")
    )
    mine = spec({"matchExpressions": [{"key": "big", "operator": "Exists"}]})
    assert node_fits(PodConstraints.of(mine, (), terms), node(big="", nvme=""))
    assert not node_fits(PodConstraints.of(mine, (), terms), node(big=""))
    assert not node_fits(PodConstraints.of(mine, (), terms), node(nvme=""))
    assert node_fits(PodConstraints.of(TenantSpec(), (), terms), node(ssd=""))
    assert not node_fits(PodConstraints.of(TenantSpec(), (), ()), node(ssd=""))
