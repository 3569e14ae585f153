"""Tables as kubectl prints them: columns as wide as their widest cell, no lines. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

GAP = "   "


@dataclass(frozen=True, slots=True)
class Cell:
    """One cell with the tone in which it is shown on a terminal."""

    text: str
    tone: str = ""


@dataclass(frozen=True, slots=True)
class Column:
    """A column; a wide one is shown on request."""

    title: str
    wide: bool = False


def rendered(
    columns: Sequence[Column],
    rows: Iterable[Sequence[Cell]],
    *,
    wide: bool,
    headers: bool,
    paint: Callable[[str, str], str],
) -> list[str]:
    """The table's lines. `paint`: a text in a tone."""
    shown = [at for at, column in enumerate(columns) if wide or not column.wide]
    cells = [[row[at] for at in shown] for row in rows]
    if headers:
        cells.insert(0, [Cell(columns[at].title) for at in shown])
    widths = [max((len(row[at].text) for row in cells), default=0) for at in range(len(shown))]
    return [_line(row, widths, paint) for row in cells]


def _line(row: Sequence[Cell], widths: Sequence[int], paint: Callable[[str, str], str]) -> str:
    # Padded before it is painted: escape sequences have no width.
    padded = [cell.text.ljust(width) for cell, width in zip(row, widths, strict=True)]
    padded[-1] = row[-1].text
    parts = [paint(text, cell.tone) for text, cell in zip(padded, row, strict=True)]
    return GAP.join(parts).rstrip()
