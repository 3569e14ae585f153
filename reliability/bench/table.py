"""How the figures are shown: one table for people, one file for programs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.table import Table

from reliability.kit import report

if TYPE_CHECKING:
    from collections.abc import Iterable

    from reliability.bench.rows import Row

WIDTH = 110


def show(rows: Iterable[Row], machine: dict[str, Any]) -> None:
    """Print the table on standard output; plain text where it is no terminal."""
    table = Table(title=report.hardware(machine), title_justify="left")
    table.add_column("row", overflow="fold")
    table.add_column("measured", justify="right", no_wrap=True)
    table.add_column("budget", justify="right", no_wrap=True)
    table.add_column("verdict")
    for row in rows:
        table.add_row(
            f"{row.name} ({row.note})" if row.note else row.name, row.measured, row.budget, report.verdict(row.verdict)
        )
    report.console(WIDTH).print(table)
