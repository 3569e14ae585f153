"""The parts of pages that are made from the code.

A block between `<!-- name:begin -->` and `<!-- name:end -->` is replaced; the rest of the file is
people's.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from controllers.domain import lifecycle, poolcycle

if TYPE_CHECKING:
    from pathlib import Path

PAGES: Final = ("README.md", "docs/pools.md")


def blocks() -> dict[str, str]:
    """What each block is to contain, by name."""
    return {
        "lifecycle": f"```mermaid\n{lifecycle.diagram()}```",
        "poolcycle": f"```mermaid\n{poolcycle.diagram()}```\n\n{poolcycle.table()}".rstrip(),
    }


def filled(text: str) -> str:
    """The text with every known block as it should be."""
    for name, content in blocks().items():
        pattern = re.compile(f"(<!-- {name}:begin -->\n).*?(<!-- {name}:end -->)", re.DOTALL)
        if (found := pattern.search(text)) is not None:
            text = f"{text[: found.start()]}{found[1]}{content}\n{found[2]}{text[found.end() :]}"
    return text


def pages(root: Path) -> dict[Path, str]:
    """Each page with such parts as it should be, by its path."""
    return {path: filled(path.read_text(encoding="utf-8")) for path in map(root.joinpath, PAGES)}
