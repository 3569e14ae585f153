"""How the figures are shown: one table for people, one file for programs."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table

if TYPE_CHECKING:
    from collections.abc import Iterable

    from reliability.bench.rows import Row

WIDTH = 110
COLOURS = {"met": "green", "missed": "red", "info": "dim"}


def show(rows: Iterable[Row], machine: dict[str, Any]) -> None:
    """Print the table on standard output; plain text where it is no terminal."""
    console = Console(highlight=False, width=None if sys.stdout.isatty() else WIDTH)
    table = Table(
        title=f"{machine['cores']} cores of {machine['cpu']}, Python {machine['python']}", title_justify="left"
    )
    table.add_column("row", overflow="fold")
    table.add_column("measured", justify="right", no_wrap=True)
    table.add_column("budget", justify="right", no_wrap=True)
    table.add_column("verdict")
    for row in rows:
        verdict = f"[{COLOURS[row.verdict]}]{row.verdict}[/]"
        table.add_row(f"{row.name} ({row.note})" if row.note else row.name, row.measured, row.budget, verdict)
    console.print(table)
