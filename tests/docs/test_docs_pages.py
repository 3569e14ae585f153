"""The pages of the module have what Deckhouse's site expects, in English and in Russian."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from tests.docs.site import CYRILLIC, IDS, MODULE, PAGES, ROOT, front_matter, headings, text
from tools.docs.markdown import blocks, without_blocks

DOCS = ROOT / "docs"
WITH_SCHEMA = {"CONFIGURATION", "CR"}
LENGTH = 1000
"""Characters of a line outside blocks, as Deckhouse's linter has it; 400 in blocks."""


@pytest.mark.parametrize("name", MODULE)
def test_a_page_and_its_russian_one_have_the_same_front_matter(name: str) -> None:
    english, translation = (front_matter(DOCS / f"{name}{suffix}.md") for suffix in ("", ".ru"))

    assert english.keys() == translation.keys()
    assert {"title", "description", "weight"} <= english.keys()
    assert "lang" not in english
    assert (english["weight"], english.get("moduleStatus")) == (translation["weight"], translation.get("moduleStatus"))
    assert CYRILLIC.search(translation["title"]) or name == "README" or "FAQ" in translation["title"]
    assert CYRILLIC.search(translation["description"]) or name == "CR"


def test_the_pages_stand_in_an_order() -> None:
    weights = [front_matter(DOCS / f"{name}.md")["weight"] for name in MODULE]

    assert weights == sorted(set(weights))


def test_the_first_page_tells_the_modules_name_and_stage() -> None:
    module = yaml.safe_load((ROOT / "module.yaml").read_text("utf-8"))
    for suffix in ("", ".ru"):
        front = front_matter(DOCS / f"README{suffix}.md")
        assert front["moduleStatus"] == module["stage"].lower()
        assert module["name"] in front["title"]
        assert front["menuTitle"]


@pytest.mark.parametrize("name", MODULE)
def test_a_page_and_its_russian_one_say_the_same(name: str) -> None:
    english, translation = DOCS / f"{name}.md", DOCS / f"{name}.ru.md"

    assert [level for level, _ in headings(english)] == [level for level, _ in headings(translation)]
    assert [(b.language, b.text, b.markers) for b in blocks(text(english))] == [
        (b.language, b.text, b.markers) for b in blocks(text(translation))
    ]
    codes = [set(re.findall(r"`([^`\n]+)`", without_blocks(text(page)))) for page in (english, translation)]
    assert {code for code in codes[0] ^ codes[1] if "<" not in code} == set()
    for level, words_of_heading in headings(translation):
        # Names are the same in both: a kind's, an alert's, to which its runbook_url leads in both.
        name_or_russian = re.fullmatch(r"[A-Z]\w+", words_of_heading) or CYRILLIC.search(words_of_heading)
        assert name_or_russian or not re.search(r"[a-z]{3}", words_of_heading.replace("Deployment", ""))
        assert level > 1, "the title is in the front matter"


@pytest.mark.parametrize("name", MODULE)
def test_a_schema_stands_where_the_site_puts_one(name: str) -> None:
    for suffix in ("", ".ru"):
        assert text(DOCS / f"{name}{suffix}.md").count("<!-- SCHEMA -->") == (name in WITH_SCHEMA)


@pytest.mark.parametrize("path", PAGES, ids=IDS)
def test_an_english_page_is_english_and_a_russian_one_russian(path: Path) -> None:
    words = text(path)

    assert bool(CYRILLIC.search(words)) == str(path).endswith(".ru.md")


@pytest.mark.parametrize("path", PAGES, ids=IDS)
def test_a_page_begins_with_its_title_and_ends_with_a_line(path: Path) -> None:
    first = next(iter(headings(path)), (0, ""))
    assert bool(front_matter(path)) != (first[0] == 1), "the title is in the front matter, or the first heading"
    assert text(path).endswith("\n")
    assert not text(path).endswith("\n\n")
    assert max(len(line) for line in text(path).splitlines()) <= LENGTH
