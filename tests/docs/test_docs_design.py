"""What the repository says of its design stands in docs/dev/design.md; references lead there and nowhere else."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest
import yaml

from controllers.api import reasons
from controllers.bootstrap.preparation.phases import PHASES
from controllers.domain import lifecycle, pool_lifecycle
from controllers.domain.driver.states import STATES
from tests.docs.site import ROOT, headings, text
from tools.docs import driver_phases, tables

PAGE = ROOT / "docs" / "dev" / "design.md"
FOLDERS = (
    "controllers",
    "webhook",
    "nodeagent",
    "kubectl_gpu",
    "sim",
    "tools",
    "reliability",
    "images",
    "tests",
    "templates",
    "docs",
    "charts",
)
SUFFIXES = {".py", ".md", ".yaml", ".tpl", ".toml", ".sh", ".csv", ""}
SKIPPED = re.compile(r"tests/data/|/__pycache__/|tests/docs/test_docs_design\.py$")
DECISIONS = ROOT / "docs" / "dev" / "adr"
REFERENCE = re.compile(r"docs/dev/design\.md(?![\"#)\]`]|  )(?:, (?P<headings>[^)\n\"]+?)(?:[).]|$| -))?", re.MULTILINE)
"""As comments write it: `(docs/dev/design.md, Fence; Invariants)`. test_docs_links follows Markdown's links."""
SECTION = re.compile(r"[Dd]esign (?:§ ?|section )(\d+(?:\.\d+)?)")
ELSEWHERE = re.compile(
    r"[Dd]esign (?:§|section \d|card\b)|\bdesign-2\b|(?<![\w/])/?(?:work/)?shared/(?:design|reference)"
)


@cache
def files() -> tuple[Path, ...]:
    """Whatever people wrote; facts of other projects (tests/data) are not ours."""
    found = [path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*"))]
    found += sorted(path for path in ROOT.iterdir() if path.is_file() and not path.name.startswith("."))
    return tuple(
        path
        for path in found
        if path.is_file() and path.suffix in SUFFIXES and not SKIPPED.search(str(path.relative_to(ROOT)))
    )


def names() -> set[str]:
    return {words for _, words in headings(PAGE)}


def lost(words: str) -> list[str]:
    """References of a text that lead to no heading of the page."""
    found = []
    for reference in REFERENCE.finditer(words):
        wanted = (reference["headings"] or "no heading is named").split("; ")
        found += [heading for heading in wanted if heading not in names()]
    return found


def strangers(words: str) -> list[str]:
    """References of a text to what is not in the repository."""
    return [found[0] for found in ELSEWHERE.finditer(words)]


def test_every_reference_leads_to_a_heading() -> None:
    read = {path: path.read_text("utf-8", "replace") for path in files()}
    broken = {str(path.relative_to(ROOT)): found for path, words in read.items() if (found := lost(words))}

    assert broken == {}
    assert sum(len(REFERENCE.findall(words)) for words in read.values()) > 20, "nobody refers to the page any more"


def test_nothing_refers_to_a_paper_outside_the_repository() -> None:
    """Decisions that were made before the page was written name its parts by number: the next test."""
    ours = [path for path in files() if DECISIONS not in path.parents and path not in (PAGE, ROOT / "CHANGELOG.md")]
    broken = {
        str(path.relative_to(ROOT)): found for path in ours if (found := strangers(path.read_text("utf-8", "replace")))
    }

    assert broken == {}


def test_every_number_that_a_decision_names_has_its_part_of_the_page() -> None:
    numbers = {number for path in DECISIONS.glob("*.md") for number in SECTION.findall(text(path))}
    rows = dict(re.findall(r"^\| §([\d.]+) \| (.+) \|$", text(PAGE), re.MULTILINE))

    assert numbers - rows.keys() == set()
    linked = [words for row in rows.values() for words in re.findall(r"\[([^]]+)\]\(#", row)]
    assert linked
    assert set(linked) - names() == set()


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("(docs/dev/design.md, Fence)", []),
        ("(docs/dev/design.md, Fence; Invariants). Pure.", []),
        ("# --- managers (docs/dev/design.md, Field managers) ---", []),
        ("(docs/dev/design.md, Hence)", ["Hence"]),
        ("(docs/dev/design.md, Fence; Nowhere)", ["Nowhere"]),
        ("as docs/dev/design.md says", ["no heading is named"]),
        ("[design](docs/dev/design.md#fence), `docs/dev/design.md`", []),
        ("docs/dev/design.md      a file in a list", []),
    ],
)
def test_a_reference_that_leads_nowhere_is_told(words: str, told: list[str]) -> None:
    assert lost(words) == told


@pytest.mark.parametrize(
    "words",
    ["(design §6)", "the table of design section 5", "/work/shared/design.md", "shared/reference/x.md", "design-2"],
)
def test_a_reference_to_another_paper_is_told(words: str) -> None:
    assert strangers(words)


def test_every_field_and_condition_of_a_status_has_its_owner_on_the_page() -> None:
    (table,) = re.findall(r"<!-- owners:begin -->\n(.*?)<!-- owners:end -->", text(PAGE), re.DOTALL)
    rows = re.findall(r"^\| `([^`]+)` \| (.+?) \| (.*) \|$", table, re.MULTILINE)
    told = {name for name, _, _ in rows if "." in name}
    told |= {f"{name} {kind}" for name, _, what in rows if "." not in name for kind in re.findall(r"`(\w+)`", what)}
    wanted = {f"GPUDevice {kind}" for kind in reasons.DEVICE_OWNERS}
    wanted |= {f"GPUNodeInventory {kind}" for kind in reasons.NODE_OWNERS}
    for path in (ROOT / "crds").glob("gpu*.yaml"):
        crd = yaml.safe_load(path.read_text("utf-8"))["spec"]
        status = crd["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["status"]["properties"]
        wanted |= {f"{crd['names']['kind']}.{field}" for field in status if field != "conditions"}

    assert len(wanted) > 40
    assert wanted - told == set()
    assert all(owner.startswith("`gpu") for _, owner, _ in rows)


def test_the_tables_say_all_that_the_code_has() -> None:
    made = tables.blocks(ROOT)

    assert all(f"| {name} |" in made["card-happenings"] for name in lifecycle.TRANSITIONS)
    assert all(f"| {name} |" in made["pool-happenings"] for name in pool_lifecycle.TRANSITIONS)
    assert all(f"`{phase.name}`" in made["phases"] for phase in PHASES)
    assert {name for name in made if f"<!-- {name}:begin -->" not in text(PAGE)} == set()


def test_the_table_of_work_on_a_driver_has_every_phase_with_its_limit() -> None:
    (table,) = re.findall(r"<!-- driver-phases:begin -->\n(.*?)\n<!-- driver-phases:end -->", text(PAGE), re.DOTALL)
    rows = dict(re.findall(r"^\| `(\w+)` \| (.+)$", table, re.MULTILINE))

    assert list(rows) == list(STATES)
    assert list(driver_phases.ENDS.keys() ^ STATES.keys()) == []
    for phase, state in STATES.items():
        assert state.limit is None or rows[phase].startswith(f"{state.limit / 60:g} min"), phase
        assert state.late is None or f"`{state.late}`" in rows[phase], phase
