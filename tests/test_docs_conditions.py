"""docs/conditions.md has a row for each reason that the code can give a condition, and no other."""

from __future__ import annotations

import ast
import itertools
import re
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from controllers.api import conditions as kinds
from tests.test_architecture import parsed
from tests.tools.reasons import REASON_AT, SOURCES, Source, UnresolvedError

ROOT = Path(__file__).resolve().parents[1]
DOC = ROOT / "docs" / "conditions.md"
COLUMNS = 5
POOL_CONDITIONS = (kinds.AVAILABLE, kinds.MAINTENANCE, kinds.MISCONFIGURED, kinds.CAPACITY_LOW)
NO_CONDITION = {"Check", "CardSlots", "Entry", "PendingCard", "CandidatePool", "MigApply", "Note", "Validation"}
"""Records with a reason that stands in no condition, or is counted where a validator's check is made."""


@cache
def reasons() -> dict[str, set[str]]:
    """Every reason of the code, with the files that give it."""
    found: dict[str, set[str]] = {}
    for path in SOURCES:
        source = Source(path)
        for reason in source.reasons():
            found.setdefault(reason, set()).add(str(source.path))
    return found


@cache
def rows() -> frozenset[tuple[str, str, str]]:
    """Condition, status and reason of each row of the page; a cell may name several."""
    found = set()
    for line in DOC.read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split(" | ")]
        if not line.startswith("| `") or len(cells) != COLUMNS:
            continue
        first = [re.findall(r"`([A-Za-z][A-Za-z0-9]*)`", cell) for cell in cells[:3]]
        assert all(first), f"a row without condition, status or reason: {line}"
        assert cells[3], line
        assert cells[4], line
        found |= set(itertools.product(*first))
    return frozenset(found)


def test_every_reason_has_a_row() -> None:
    documented = {reason for _, _, reason in rows()}
    missing = {reason: sorted(files) for reason, files in reasons().items() if reason not in documented}

    assert not missing, f"{DOC.name} has no row for {missing}"


def test_every_row_has_a_reason() -> None:
    left = sorted({reason for _, _, reason in rows()} - reasons().keys())

    assert not left, f"{DOC.name} has rows for {left}, which nothing gives as a reason"


def test_every_condition_has_rows_and_no_other() -> None:
    known = {*kinds.NODE_OWNERS, *kinds.DEVICE_OWNERS, *POOL_CONDITIONS}

    assert {condition for condition, _, _ in rows()} == known
    assert {status for _, status, _ in rows()} <= {"True", "False", "Unknown"}


def test_whatever_carries_a_reason_is_looked_at() -> None:
    """A new kind of record with a reason must be counted, or said to be none of a condition's."""
    carriers = {
        node.name
        for path in SOURCES
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.ClassDef)
        for field in node.body
        if isinstance(field, ast.AnnAssign) and ast.unparse(field.target) == "reason"
    }

    assert carriers - REASON_AT.keys() - {"Condition"} == NO_CONDITION


@pytest.mark.parametrize(
    ("code", "found"),
    [
        ('Finding(True, "Plain", "m")', {"Plain"}),
        ('ONE = "Constant"\nFinding(True, ONE, "m")', {"Constant"}),
        ('def f(late):\n    return Finding(True, "A" + ("B" if late else "C"), "m")', {"AB", "AC"}),
        (
            'def f(word):\n    return Finding(True, f"{word}Ready", "m")\nf("Driver")\nf(word="Cuda")',
            {"DriverReady", "CudaReady"},
        ),
        (
            'def g():\n    return 1, "Returned"\ndef f():\n    _, r = g()\n    return condition((), "K", reason=r)',
            {"Returned"},
        ),
        ("def f(found):\n    return Finding(True, found.reason, found.message)", set()),
        ("def f(found):\n    return Finding(True, strange(found), found.message)", UnresolvedError),
        ("def f(table):\n    return Finding(True, table[0], 'm')", UnresolvedError),
    ],
)
def test_a_reason_is_found_however_it_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: str, found: Any
) -> None:
    """The collector is not a formality."""
    (tmp_path / "written.py").write_text(f"Finding = condition = lambda *_, **__: None\n{code}\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "written", raising=False)
    source = Source(tmp_path / "written.py", tmp_path)
    if found is UnresolvedError:
        with pytest.raises(UnresolvedError):
            source.reasons()
        return
    assert source.reasons() == found


def test_the_page_for_administrators_names_each_setting_with_its_default() -> None:
    text = (ROOT / "docs" / "bootstrap.md").read_text(encoding="utf-8")
    written = dict(re.findall(r"^\| `((?:bootstrap|health)\.[A-Za-z.]+)` \| `([^`]*)` \|", text, re.MULTILINE))
    schema = yaml.safe_load((ROOT / "openapi" / "config-values.yaml").read_text(encoding="utf-8"))["properties"]
    bootstrap, monitoring = schema["bootstrap"]["properties"], schema["bootstrap"]["properties"]["monitoring"]
    found = {f"health.{name}": one for name, one in schema["health"]["properties"].items()}
    found |= {f"bootstrap.monitoring.{name}": one for name, one in monitoring["properties"].items()}
    found |= {f"bootstrap.{name}": one for name, one in bootstrap.items() if one["type"] != "object"}
    components = {name for name, one in bootstrap.items() if one["type"] == "object"} - {"monitoring"}

    assert written == {name: str(one.get("default", [])) for name, one in found.items()}
    assert components == set(re.findall(r"`(?:bootstrap)?\.(\w+)`", text.partition("| all enabled |")[0][-200:]))
