"""docs/security.md names for every threat the tests that show its control: they exist, and they are run."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from tests.test_architecture import parsed
from tools.docs.markdown import without_blocks

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "security.md"
NAMED = re.compile(r"`(tests/[\w/]+\.py)::(test_\w+)`")
CONSOLE = "A viewer of the console, or somebody else's page"
ATTACKERS = ("A tenant", "A node", "A replica of the webhook", CONSOLE, "An administrator's typo")
NOT_RUN = ("tests/e2e/", "tests/faults/")
"""`make test` leaves them out."""


def text() -> str:
    return PAGE.read_text("utf-8")


def tables(page: str) -> dict[str, list[list[str]]]:
    """The rows of each table of the page's third-level headings, a cell at a time; the head is left out."""
    found: dict[str, list[list[str]]] = {}
    for part in re.split(r"^###? ", without_blocks(page), flags=re.MULTILINE)[1:]:
        title, *lines = part.splitlines()
        rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("|")]
        found[title.strip()] = rows[2:]
    return found


@cache
def functions(path: str) -> frozenset[str]:
    """Tests that a file defines; none where there is no such file."""
    file = ROOT / path
    if not file.is_file():
        return frozenset()
    tree = parsed(file)
    return frozenset(node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


def missing(page: str) -> list[str]:
    """Tests that a page names and that are not there, or not run."""
    return [
        f"{path}::{name}"
        for path, name in NAMED.findall(page)
        if name not in functions(path) or path.startswith(NOT_RUN)
    ]


def test_every_test_that_the_page_names_exists() -> None:
    assert len(NAMED.findall(text())) > 50
    assert missing(text()) == []


@pytest.mark.parametrize(
    "name",
    [
        "tests/security/test_table.py::test_that_is_not_there",
        "tests/security/test_nothing.py::test_every_test_that_the_page_names_exists",
        "tests/e2e/test_node.py::test_anything",
    ],
)
def test_one_that_does_not_would_be_found(name: str) -> None:
    assert missing(f"| x | y | `{name}` |") == [name]


@pytest.mark.parametrize("attacker", ATTACKERS)
def test_every_threat_has_a_control_and_a_test(attacker: str) -> None:
    rows = tables(text())[attacker]
    assert len(rows) >= 8
    for row in rows:
        tries, control, shown = row
        assert tries, row
        assert control, row
        assert NAMED.search(shown), row


def test_what_is_open_says_how_it_is_closed() -> None:
    rows = tables(text())["What stays open"]
    assert rows
    for row in rows:
        assert len(row) == 3, row
        assert all(row), row


def test_every_test_of_this_folder_stands_in_the_page() -> None:
    here = {
        (f"tests/security/{file.name}", name)
        for file in Path(__file__).parent.glob("test_*.py")
        if file.name != Path(__file__).name
        for name in functions(f"tests/security/{file.name}")
        if name.startswith("test_") and "would_be_found" not in name
    }
    assert sorted(here - set(NAMED.findall(text()))) == []
