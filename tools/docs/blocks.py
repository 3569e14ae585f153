"""The parts of pages that are made from the code.

A block between `<!-- name:begin -->` and `<!-- name:end -->`, in a template between `# name:begin` and `# name:end`, is
replaced; the rest of the file is people's.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from controllers.api import ownership, reasons
from controllers.domain import lifecycle, pool_lifecycle
from tools.docs import catalogue, driver_phases, drivers, tables

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

PAGES: Final = (
    "docs/bootstrap.md",
    "docs/dev/design.md",
    "docs/pools.md",
    "docs/driver.md",
    "docs/conditions.md",
    "templates/policies/_owners.tpl",
)


def blocks(root: Path) -> dict[str, str]:
    """What each block is to contain, by name."""
    return tables.blocks(root) | {
        "components": tables.components(),
        "driver-images": drivers.images(),
        "driver-cards": drivers.cards(),
        "driver-phases": driver_phases.phases(),
        "lifecycle": f"```mermaid\n{lifecycle.diagram()}```",
        "poolcycle": f"```mermaid\n{pool_lifecycle.diagram()}```\n\n{pool_lifecycle.table()}".rstrip(),
        "status-owners": ownership.table(),
        **{f"reasons-{name}": catalogue.table(rows) for name, rows in reasons.SECTIONS.items()},
    }


def filled(text: str, contents: Mapping[str, str]) -> str:
    """The text with every known block as it should be."""
    for name, content in contents.items():
        pattern = re.compile(
            f"((?:<!-- {name}:begin -->|# {name}:begin)\n).*?(<!-- {name}:end -->|# {name}:end)", re.DOTALL
        )
        if (found := pattern.search(text)) is not None:
            text = f"{text[: found.start()]}{found[1]}{content}\n{found[2]}{text[found.end() :]}"
    return text


def pages(root: Path) -> dict[Path, str]:
    """Each page with such parts as it should be, by its path."""
    contents = blocks(root)
    made = {path: filled(path.read_text(encoding="utf-8"), contents) for path in map(root.joinpath, PAGES)}
    return made | {root / catalogue.WORDS: catalogue.words()}
