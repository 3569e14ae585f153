"""The index of a folder of dumps: from which repository, commit and file each is, and under which licence."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

LINE = re.compile(r"- `([^`]+)`.* Source: (\S+)@([0-9a-f]+) `([^`]+)`; licence ([^;]+); (.+); \d+ B\.")

Source = dict[str, str]


def sources(folder: Path) -> dict[str, Source]:
    """The source of each dump that `INDEX.md` names."""
    found = (LINE.match(line) for line in (folder / "INDEX.md").read_text().splitlines() if line.startswith("- `"))
    return {line[1]: _source(line) for line in found if line}


def _source(line: re.Match[str]) -> Source:
    source = {"commit": line[3], "licence": line[5], "path": line[4], "repository": line[2]}
    if part := re.search("lines ([0-9]+-[0-9]+)", line[6]):
        source["lines"] = part[1]
    if "DERIVED" in line[6]:
        source["derived"] = "PCI data as NFD would report them"
    return source
