"""Lists of DCGM's fields: names alone, or the exporter's CSV with the type of each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path


def names(path: Path) -> dict[str, Any]:
    """One name a line."""
    return {"fields": sorted(path.read_text().split())}


def types(path: Path) -> dict[str, Any]:
    """`field, type, help`, with comments; the help is left out."""
    rows = [line.split(",") for line in path.read_text().splitlines() if not line.startswith("#")]
    return {"fields": {row[0].strip(): row[1].strip() for row in rows if len(row) > 2}}
