"""How the story is told: steps with their times, commands, quoted messages, tables at the end."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

from rich.console import Console
from rich.markup import escape
from rich.table import Table

if TYPE_CHECKING:
    from sim.view import View

WIDTH = 110
"""Of the tables where there is no terminal; sentences are never broken."""


class Teller:
    """Writes to standard output; plain text where it is no terminal."""

    def __init__(self) -> None:
        """Start the clock of the story."""
        width = None if sys.stdout.isatty() else WIDTH
        self._console = Console(highlight=False, width=width, soft_wrap=False)
        self._started = time.monotonic()

    def chapter(self, title: str) -> None:
        """Begin a part of the story."""
        self._console.print(f"\n[bold]{escape(title)}[/bold]", soft_wrap=True)

    def did(self, who: str, what: str, seconds: float | None = None) -> None:
        """Something came true: who did it, what, and how long it took."""
        took = f"{seconds:5.2f} s" if seconds is not None else "       "
        self._console.print(f"  [green]✓[/green] {took}  [cyan]{who:27}[/cyan] {escape(what)}", soft_wrap=True)

    def waits(self, goal: str, seconds: float, found: str) -> None:
        """Something takes a while: what is waited for, and how far it is."""
        self._console.print(f"  [dim]… {seconds:5.0f} s  {escape(goal)}: {escape(found)}[/dim]", soft_wrap=True)

    def typed(self, command: str) -> None:
        """What the person types."""
        self._console.print(f"  [bold]$[/bold] {escape(command)}", soft_wrap=True)

    def quoted(self, message: str) -> None:
        """What the cluster answered, in its own words."""
        self._console.print(f"    [yellow]│[/yellow] {escape(message)}", soft_wrap=True)

    def failed(self, message: str) -> None:
        """A step did not come true."""
        self._console.print(f"  [red]✗ {escape(message)}[/red]", soft_wrap=True)

    def end(self) -> None:
        """How long it all took."""
        self._console.print(f"\nall of it in {time.monotonic() - self._started:.0f} s")

    def cards(self, view: View) -> None:
        """A table of the cards that are in a pool, and how many are not."""
        table = Table("card", "product", "state", "pool", "serves", title="cards", title_justify="left")
        others = 0
        for device in sorted(view.devices, key=lambda d: d.name):
            status = device.status
            if status.pool_ref is None:
                others += 1
                continue
            serves = ", ".join(f"{a.namespace}/{a.pod}" for a in status.allocations) or "–"
            product = (status.hardware.product if status.hardware else None) or "?"
            table.add_row(status.inventory_id, product, status.state, status.pool_ref.name, serves)
        self._console.print(table)
        self._console.print(f"  and {others} cards that nobody has put into a pool")

    def pools(self, view: View) -> None:
        """A table of the pools."""
        table = Table(
            "pool", "total", "used", "reserved", "unavailable", "available", title="pools", title_justify="left"
        )
        for pool in view.pools:
            if (c := pool.status.capacity) is not None:
                numbers = (c.total, c.used, c.reserved, c.unavailable, c.available)
                table.add_row(pool.name, *map(str, numbers))
        self._console.print(table)
