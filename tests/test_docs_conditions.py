"""The catalogue of reasons is whole, the page is made of it, and no other word can be given as a reason."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path
from typing import get_args

import pytest
import yaml

from controllers.api import names, reasons
from controllers.api.components import COMPONENTS
from controllers.api.reasons.runtime import RUNTIME_REASONS
from controllers.api.reasons.typed import CheckWord, Reason
from tests.test_architecture import parsed
from tools.docs import blocks

ROOT = Path(__file__).resolve().parents[1]
NO_PLANNERS = ("formerly.py", "gpudevice.py", "gpunodeinventory.py")
"""Files that spell words which are not given there."""
CODE = [
    path
    for folder in ("controllers", "nodeagent/driver", "nodeagent/validate")
    for path in sorted((ROOT / folder).rglob("*.py"))
    if ("reasons" not in path.parts or path.name == "__init__.py") and path.name not in NO_PLANNERS
]
SCOPES = {
    "node": (reasons.NODE, reasons.NODE_OWNERS.keys()),
    "card": (reasons.DEVICE, reasons.DEVICE_OWNERS.keys()),
    "pool": (reasons.POOL, reasons.POOL_OWNERS.keys()),
    "pod": (reasons.POD, {names.QUEUED, names.NEAR}),
    "kube-node": (reasons.KUBE_NODE, {names.NODE_READY, names.NODE_HANDED_OVER}),
    "driver": (reasons.DRIVER, reasons.DRIVER_OWNERS.keys()),
}
NEIGHBOURS = re.compile(r"^(the same|as above|see above)\b|; the same\b")
"""What a cure cannot say: kubectl prints it without the rows around it."""


@cache
def rows() -> frozenset[tuple[str, str, str]]:
    """Condition, status and reason of every row."""
    return frozenset(cell for section in reasons.SECTIONS.values() for row in section for cell in row.cells())


@cache
def spelled() -> frozenset[str]:
    """Every string that the code has."""
    trees = (parsed(path) for path in CODE)
    nodes = (node for tree in trees for node in ast.walk(tree))
    return frozenset(node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str))


def test_the_types_know_every_reason_and_no_other() -> None:
    assert sorted(get_args(CheckWord)) == reasons.words("validators")
    assert sorted(get_args(Reason)) == reasons.words()
    assert blocks.pages(ROOT)[ROOT / "controllers/api/reasons/typed.py"] == (
        ROOT / "controllers/api/reasons/typed.py"
    ).read_text("utf-8")


def test_every_reason_is_given_somewhere() -> None:
    made = {word for component in COMPONENTS for word in (component.not_ready, component.overdue)}
    made |= set(RUNTIME_REASONS.values())  # of what the toolkit's pod tells of the runtime, by its state
    assert not set(reasons.words()) - spelled() - set(reasons.DEVICE_OWNERS) - made


@pytest.mark.parametrize("scope", SCOPES)
def test_rows_are_about_conditions_that_there_are(scope: str) -> None:
    found, kinds = SCOPES[scope]
    cells = [cell for row in found for cell in row.cells()]

    assert {kind for kind, _, _ in cells} == kinds
    assert {status for _, status, _ in cells} <= {"True", "False", "Unknown"}
    assert all(row.meaning and row.cure for row in found)


@pytest.mark.parametrize("scope", SCOPES)
def test_a_cure_stands_alone(scope: str) -> None:
    assert [row.cure for row in SCOPES[scope][0] if NEIGHBOURS.search(row.cure)] == []


def test_a_cure_names_what_it_is_about() -> None:
    row = reasons.find("card", "Faulted", "True", "RowRemapFailure")
    assert row is not None
    assert row.spoken(card="a-1") == (
        "replace the card; kubectl annotate gpudevice a-1 gpu.deckhouse.io/return=true accepts it as it is"
    )
    linked = reasons.find("node", "ManagedElsewhere", "True", "OperatorLabelled")
    assert linked is not None
    assert linked.spoken() == "leave the node to one manager: coexistence.md (docs/coexistence.md)"
    well = reasons.find("card", "Faulted", "False", "Healthy")
    assert well is not None
    assert well.spoken() == ""


def test_what_closes_a_pool_until_somebody_acts_is_marked() -> None:
    """Tenants are told to wait where the pool opens by itself, and whom to show the rest."""
    closing = [
        row
        for row in reasons.POOL
        if row.statuses == "True" and {"Maintenance", "Misconfigured"} & set(row.kinds.split())
    ]
    assert {row.reasons for row in closing if not row.lasting} == {
        row.reasons for row in closing if row.cure.startswith("wait")
    }
    assert [row for section in reasons.SECTIONS.values() for row in section if row.lasting and row not in closing] == []


def test_what_keeps_a_node_out_is_cured_as_in_the_condition_that_says_it() -> None:
    assert reasons.find("node", "ReadyForPooling", "False", "DriverNotFound") == reasons.find(
        "node", "DriverMissing", "True", "DriverNotFound"
    )
    assert reasons.find("node", "ReadyForPooling", "False", "NotManaged") is not None
    assert reasons.find("node", "ReadyForPooling", "False", "Published") is None


def test_a_word_that_no_row_is_about_is_no_reason() -> None:
    assert reasons.check_word("CudaError802") == "CudaError802"
    assert reasons.check_word("Held") == reasons.check_word("") == reasons.check_word("DriverNotReady") == "CheckFailed"


def test_the_page_for_administrators_names_each_setting_with_its_default() -> None:
    text = (ROOT / "docs" / "bootstrap.md").read_text(encoding="utf-8")
    written = dict(re.findall(r"^\| `((?:bootstrap|health)\.[A-Za-z.]+)` \| `([^`]*)` \|", text, re.MULTILINE))
    schema = yaml.safe_load((ROOT / "openapi" / "config-values.yaml").read_text(encoding="utf-8"))["properties"]
    bootstrap, monitoring = schema["bootstrap"]["properties"], schema["bootstrap"]["properties"]["monitoring"]
    found = {f"health.{name}": one for name, one in schema["health"]["properties"].items()}
    found |= {f"bootstrap.monitoring.{name}": one for name, one in monitoring["properties"].items()}
    found |= {f"bootstrap.{name}": one for name, one in bootstrap.items() if one["type"] != "object"}
    components = {name for name, one in bootstrap.items() if one["type"] == "object"} - {"monitoring"}
    block = text.partition("<!-- components:begin -->")[2].partition("<!-- components:end -->")[0]

    defaults = {name: one.get("default", []) for name, one in found.items()}
    spelled = {name: str(one).lower() if isinstance(one, bool) else str(one) for name, one in defaults.items()}
    assert written == spelled
    assert components == set(re.findall(r"^\| `bootstrap\.(\w+)` \|", block, re.MULTILINE))
