"""Retired words stay out of identifiers and of pages (tests/tools/retired.py, docs/dev/glossary.md)."""

from __future__ import annotations

import re
from itertools import chain
from pathlib import Path

import pytest

from tests.tools.retired import NAMES, PARTS, PHRASES
from tests.tools.vocabulary import ROOT, Uses, counted, identifiers, in_code, on_pages, recorded, retired

UPDATE = "python -m tests.tools.vocabulary --update"
GLOSSARY = ROOT / "docs" / "dev" / "glossary.md"


def standard(word: str, where: str) -> str:
    """What to write in place of a retired word or phrase."""
    return (PARTS | PHRASES | NAMES[""] | NAMES.get(where, {}))[word]


def differences(now: Uses, allowed: Uses) -> list[str]:
    """What differs from the allowance, with what to do about it."""
    found = []
    for word in sorted(now.keys() | allowed.keys()):
        for where in sorted(now.get(word, {}).keys() | allowed.get(word, {}).keys()):
            count, limit = now.get(word, {}).get(where, 0), allowed.get(word, {}).get(where, 0)
            if count > limit:
                found.append(f"{where}: {word!r} {count} times, {limit} allowed; write {standard(word, where)!r}")
            if count < limit:
                found.append(f"{where}: {word!r} {count} times, {limit} allowed; lower it: {UPDATE}")
    return found


@pytest.mark.parametrize("kind", ["identifiers", "phrases"])
def test_no_retired_word_is_used_more_than_it_was(kind: str) -> None:
    assert differences(counted()[kind], recorded()[kind]) == []


@pytest.mark.parametrize(
    ("now", "allowed", "differs"),
    [
        ({"told": {"webhook": 1}}, {"told": {"webhook": 1}}, False),
        ({"told": {"webhook": 2}}, {"told": {"webhook": 1}}, True),
        ({"told": {"webhook": 1}}, {"told": {"webhook": 2}}, True),
        ({"gate": {"webhook": 1}}, {}, True),
        ({"told": {"nodeagent": 1}}, {"told": {"webhook": 1}}, True),
        ({}, {"told": {"webhook": 1}}, True),
    ],
)
def test_the_allowance_is_exact(now: Uses, allowed: Uses, differs: bool) -> None:
    assert bool(differences(now, allowed)) is differs


@pytest.mark.parametrize(
    ("name", "where", "words"),
    [
        ("told_early", "webhook", {"told"}),
        ("_told", "webhook", {"told"}),
        ("CardTold", "webhook", {"told"}),
        ("Ward", "controllers/bootstrap", {"ward"}),
        ("toward", "webhook", set()),
        ("Gate", "webhook", {"gate"}),
        ("Gate", "nodeagent", set()),
        ("SchedulingGate", "webhook", set()),
        ("reconcile", "controllers/gpupool", set()),
    ],
)
def test_a_word_is_found_in_an_identifier(name: str, where: str, words: set[str]) -> None:
    assert retired(name, where) == words


def test_identifiers_are_classes_functions_and_fields() -> None:
    text = "class Ward:\n    told: int\n    def hear(self) -> None:\n        said = 1\n"

    assert list(identifiers(text, fields=True)) == ["Ward", "told", "hear"]
    assert list(identifiers(text, fields=False)) == ["Ward", "hear"]


def test_pages_for_developers_and_the_console_are_read_and_history_is_not(tmp_path: Path) -> None:
    read = ("README.md", "CONTRIBUTING.md", "docs/faq.md", "docs/dev/design.md")
    for name in (*read, "docs/dev/adr/0001.md", "CHANGELOG.md", "docs/faq.ru.md"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("The card stands aside.", "utf-8")
    (tmp_path / "console").mkdir()
    (tmp_path / "console" / "hub.py").write_text("def told() -> None: ...\n", "utf-8")

    assert {page for _, page in on_pages(tmp_path)} == set(read)
    assert dict(in_code(tmp_path)) == {("told", "console"): 1}


@pytest.mark.parametrize("phrase", PHRASES)
def test_a_phrase_is_a_pattern(phrase: str) -> None:
    re.compile(phrase)


def test_no_word_is_its_own_replacement() -> None:
    for word, instead in chain(PARTS.items(), *(names.items() for names in NAMES.values())):
        assert word not in instead.lower().split(", "), word


def test_the_glossary_has_no_retired_word() -> None:
    terms = re.findall(r"^\| \*\*(.+?)\*\* \|", GLOSSARY.read_text("utf-8"), re.MULTILINE)

    assert len(terms) >= 25
    assert [term for term in terms if retired(term.replace(" ", "_"), "")] == []


def test_what_the_glossary_names_is_there() -> None:
    """A term lives in a module, with a name in it, or in a field of a custom resource or of the settings."""
    schemas = " ".join(path.read_text("utf-8") for path in [*ROOT.glob("crds/*.yaml"), *ROOT.glob("openapi/*.yaml")])
    lost = []
    for path, name in re.findall(r"`([\w/]+(?:\.py|/))`(?:: `(\w+)`)?", GLOSSARY.read_text("utf-8")):
        file = ROOT / path
        if not file.exists() or (name and not re.search(rf"\b{name}\b", file.read_text("utf-8"))):
            lost.append(f"{path}: {name}")
    for field in re.findall(r"`(?:GPU\w+|ModuleConfig)\.([\w.\[\]]+)`", GLOSSARY.read_text("utf-8")):
        last = field.rpartition(".")[2].removesuffix("[]")
        if not re.search(rf"^\s+{last}:", schemas, re.MULTILINE) and f" {last}:" not in schemas:
            lost.append(field)

    assert lost == []
