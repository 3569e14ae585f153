"""The Markdown of the repository, and what may be linked to in it."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from tools.docs.markdown import without_blocks

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted(
    [
        *ROOT.glob("*.md"),
        *(ROOT / "docs").rglob("*.md"),
        *(ROOT / "images").rglob("*.md"),
        *ROOT.glob("kubectl_gpu/*.md"),
    ]
)
IDS = [str(path.relative_to(ROOT)) for path in PAGES]
DOCS = ROOT / "docs"
DEVELOPERS = DOCS / "dev"
"""Pages for developers: Deckhouse's site leaves this folder out, and so does the module's bundle."""
SITE = tuple(sorted(path for path in DOCS.glob("*.md") if not path.name.endswith(".ru.md")))
"""The pages for users, which the bundle ships."""
MODULE = ("README", "CONFIGURATION", "CR", "EXAMPLES", "ADVANCED_USAGE", "FAQ", "alerts")
"""Those that have a Russian page each. Alerts link to the last."""
CYRILLIC = re.compile(r"[А-Яа-яЁё]")
_FRONT = re.compile(r"\A---\n(.*?)^---\n", re.DOTALL | re.MULTILINE)
_HEADING = re.compile(r"^(#{1,6}) +(.+?) *#*$", re.MULTILINE)


@cache
def text(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def front_matter(path: Path) -> dict[str, Any]:
    found = _FRONT.match(text(path))
    return yaml.safe_load(found[1]) if found else {}


def headings(path: Path) -> list[tuple[int, str]]:
    """Level and words of each heading, those of the front matter's title not among them."""
    prose = without_blocks(_FRONT.sub("", text(path)))
    return [(len(level), words) for level, words in _HEADING.findall(prose)]


@cache
def anchors(path: Path) -> frozenset[str]:
    """The anchors of a page: of its headings as GitHub makes them, and of what Deckhouse puts for SCHEMA."""
    found: list[str] = []
    for _, words in headings(path):
        plain = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", words).lower()
        slug = re.sub(r"[^\w\- ]", "", plain).replace(" ", "-")
        found.append(f"{slug}-{found.count(slug)}" if slug in found else slug)
    if "<!-- SCHEMA -->" in text(path):
        found += _generated(path.name.partition(".")[0])
    return frozenset(found)


def _generated(page: str) -> list[str]:
    """The anchors that Deckhouse's site gives to settings and to fields of custom resources."""
    if page == "CONFIGURATION":
        schema = yaml.safe_load((ROOT / "openapi" / "config-values.yaml").read_text(encoding="utf-8"))
        return _fields("parameters", schema)
    found: list[str] = []
    for path in (ROOT / "crds").glob("gpu*.yaml"):
        spec = yaml.safe_load(path.read_text(encoding="utf-8"))["spec"]
        kind = spec["names"]["kind"].lower()
        found.append(kind)
        for version in spec["versions"]:
            found += _fields(f"{kind}-{version['name']}", version["schema"]["openAPIV3Schema"])
    return found


def _fields(prefix: str, schema: Any) -> list[str]:
    found = [prefix]
    for name, child in (schema.get("properties") or {}).items():
        found += _fields(f"{prefix}-{name.lower()}", child)
    if isinstance(schema.get("items"), dict):
        found += _fields(prefix, schema["items"])[1:]
    return found
