"""The pages of the module have what Deckhouse's site expects, in English and in Russian."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from tests.docs.site import CYRILLIC, DEVELOPERS, DOCS, IDS, MODULE, PAGES, ROOT, SITE, front_matter, headings, text
from tools.docs.markdown import blocks, without_blocks

WITH_SCHEMA = {"CONFIGURATION", "CR"}
READER = {
    "en": r"For (administrators|developers|SREs|security engineers|everyone|whoever)\b",
    "ru": r"Для (администраторов|SRE)",
}
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
    weights = {page.stem: front_matter(page)["weight"] for page in SITE}

    assert len(set(weights.values())) == len(SITE)
    assert [weights[name] for name in MODULE] == sorted(weights[name] for name in MODULE)


@pytest.mark.parametrize("page", SITE, ids=lambda page: page.name)
def test_a_page_that_is_shipped_has_front_matter(page: Path) -> None:
    assert {"title", "description", "weight"} <= front_matter(page).keys()


@pytest.mark.parametrize("stage", ["bundle", "release"])
def test_the_bundle_ships_the_pages_for_users_alone(stage: str) -> None:
    shipped = re.findall(
        r"^  - (docs\S*)$", (ROOT / ".werf" / "stages" / f"{stage}.yaml").read_text("utf-8"), re.MULTILINE
    )

    assert shipped == ["docs/*.md"], "`*` of a glob goes into no folder"


@pytest.mark.parametrize(
    "page", [*DOCS.glob("*.md"), *DEVELOPERS.glob("*.md"), ROOT / "CONTRIBUTING.md"], ids=lambda page: page.name
)
def test_a_page_says_first_whom_it_is_for(page: Path) -> None:
    prose = text(page).partition("\n---\n")[2] if front_matter(page) else text(page).partition("\n")[2]
    first = next(line for line in prose.splitlines() if line)

    assert re.match(READER["ru" if page.name.endswith(".ru.md") else "en"], first)


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
