"""Every relative link leads somewhere, and every anchor stands where it points."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.docs.site import DOCS, IDS, MODULE, PAGES, ROOT, SITE, anchors, text
from tools.docs.markdown import without_blocks

LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")
ADDRESSES = {f"{page.stem.lower()}.html": page.stem for page in SITE}
"""Deckhouse's site shows `docs/FAQ.md` at `faq.html`."""


def target(page: Path, link: str) -> Path:
    """The file that a link means; on Deckhouse's site, `examples.html` of a page is that of its language."""
    where = link.removeprefix("./")
    if page.parent == DOCS and where in ADDRESSES:
        return page.with_name(ADDRESSES[where] + (".ru.md" if page.name.endswith(".ru.md") else ".md"))
    return (page.parent / link).resolve()


def broken(page: Path, words: str) -> list[str]:
    found = []
    for link in LINK.findall(without_blocks(words)):
        if re.match(r"[a-z]+:", link):
            continue
        where, _, anchor = link.partition("#")
        file = target(page, where) if where else page
        if not file.exists():
            found.append(f"{link}: there is no {file.name}")
        elif anchor and file.suffix == ".md" and anchor not in anchors(file):
            found.append(f"{link}: {file.name} has no such heading")
    return found


def elsewhere(page: Path, words: str) -> list[str]:
    """Links of a page of the site that lead to no page of the site in its language."""
    both = {address for address, name in ADDRESSES.items() if name in MODULE}
    known = both if page.name.endswith(".ru.md") else ADDRESSES.keys()
    links = [link.partition("#")[0] for link in LINK.findall(without_blocks(words)) if not re.match(r"[a-z]+:", link)]
    return [link for link in links if link and link.removeprefix("./") not in known]


@pytest.mark.parametrize("page", PAGES, ids=IDS)
def test_every_link_of_a_page_leads_somewhere(page: Path) -> None:
    assert broken(page, text(page)) == []


@pytest.mark.parametrize("page", sorted(DOCS.glob("*.md")), ids=lambda page: page.name)
def test_a_page_of_the_site_links_to_pages_of_the_site_alone(page: Path) -> None:
    """The site has neither docs/dev nor a Russian address of a page that is English alone."""
    assert elsewhere(page, text(page)) == []


@pytest.mark.parametrize(
    ("page", "link", "told"),
    [
        ("pools.md", "./admission.html#pods", False),
        ("pools.md", "dev/design.md", True),
        ("pools.md", "admission.md", True),
        ("pools.md", "https://example.com", False),
        ("FAQ.md", "./pools.html", False),
        ("FAQ.ru.md", "./examples.html", False),
        ("FAQ.ru.md", "./pools.html", True),
    ],
)
def test_a_link_that_leaves_the_site_is_told(page: str, link: str, told: bool) -> None:
    assert bool(elsewhere(DOCS / page, f"see [it]({link}).")) is told


@pytest.mark.parametrize(
    ("link", "told"),
    [
        ("./pools.html", False),
        ("./pools.html#approval", False),
        ("./pools.html#disapproval", True),
        ("nowhere.md", True),
        ("#what-a-refusal-says", False),
        ("#nothing", True),
        ("./cr.html#gpupool-v1alpha1-spec-allocation-mode", False),
        ("./cr.html#gpupool-v1alpha1-spec-alocation", True),
        ("./configuration.html#parameters-admission-maxunseen", False),
        ("https://example.com/x.md#y", False),
    ],
)
def test_a_broken_link_is_told(link: str, told: bool) -> None:
    assert bool(broken(DOCS / "admission.md", f"see [it]({link}).")) is told


def test_every_page_that_is_named_in_a_program_is_there() -> None:
    """Comments, messages and templates name pages by their path."""
    named = re.compile(r"(?<![\w/.])docs/(?:dev/)?(?:adr/)?[\w-]+\.md")
    folders = ("controllers", "webhook", "nodeagent", "kubectl_gpu", "sim", "images", "templates", "monitoring")
    paths = [
        path for folder in folders for path in (ROOT / folder).rglob("*") if path.suffix in {".py", ".yaml", ".tpl"}
    ]
    paths += [ROOT / name for name in ("Makefile", "values.yaml", "openapi/values.yaml", ".werf/stages/bundle.yaml")]
    found = {(path, name) for path in paths for name in named.findall(path.read_text("utf-8"))}

    assert len(found) > 20
    assert {f"{path.relative_to(ROOT)}: {name}" for path, name in found if not (ROOT / name).exists()} == set()
