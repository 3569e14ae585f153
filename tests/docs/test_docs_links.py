"""Every relative link leads somewhere, and every anchor stands where it points."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.docs.site import IDS, MODULE, PAGES, ROOT, anchors, text
from tools.docs.markdown import without_blocks

LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")
SITE = {f"{name.lower()}.html": name for name in MODULE}


def target(page: Path, link: str) -> Path:
    """The file that a link means; on Deckhouse's site, `examples.html` of a page is that of its language."""
    where = link.removeprefix("./")
    if page.parent == ROOT / "docs" and where in SITE:
        return page.with_name(SITE[where] + (".ru.md" if page.name.endswith(".ru.md") else ".md"))
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


@pytest.mark.parametrize("page", PAGES, ids=IDS)
def test_every_link_of_a_page_leads_somewhere(page: Path) -> None:
    assert broken(page, text(page)) == []


@pytest.mark.parametrize(
    "page", [ROOT / "docs" / f"{n}{s}.md" for n in MODULE for s in ("", ".ru")], ids=lambda p: p.name
)
def test_a_page_of_the_site_links_to_pages_of_the_site_alone(page: Path) -> None:
    """What else is in docs/ is English, and the site makes other addresses of it."""
    links = [link.partition("#")[0] for link in LINK.findall(without_blocks(text(page)))]

    assert [link for link in links if link and link.removeprefix("./") not in SITE] == []


@pytest.mark.parametrize(
    ("link", "told"),
    [
        ("pools.md", False),
        ("pools.md#approval", False),
        ("pools.md#disapproval", True),
        ("nowhere.md", True),
        ("#what-the-refused-read", False),
        ("#nothing", True),
        ("./cr.html#gpupool-v1alpha1-spec-allocation-mode", False),
        ("./cr.html#gpupool-v1alpha1-spec-alocation", True),
        ("./configuration.html#parameters-admission-maxunseen", False),
        ("https://example.com/x.md#y", False),
    ],
)
def test_a_broken_link_is_told(link: str, told: bool) -> None:
    assert bool(broken(ROOT / "docs" / "admission.md", f"see [it]({link}).")) is told
