"""How long work is shown to a person: a bar on a terminal, a line now and then elsewhere.

A :class:`Progress` is used by one thread. Its ``task`` is a context; whoever works calls
``update`` at least every second, which is what makes the elapsed time move and the lines
of a non-terminal appear.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol, TextIO

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
)
from rich.progress import Progress as RichProgress

LINE_PERIOD = 15.0


class Task(Protocol):
    """One piece of work that is shown while it runs."""

    def update(self, done: int = 0, total: int | None = None, detail: str = "") -> None:
        """Say how far it is; ``total`` None where nobody knows."""


class Progress(Protocol):
    """Where the story of long work goes."""

    def note(self, text: str) -> None:
        """Tell one fact that stays on the screen."""

    @contextmanager
    def task(self, title: str) -> Iterator[Task]:
        """Show ``title`` until the context ends."""
        raise NotImplementedError(title)
        yield


class Silent:
    """Shows nothing; for libraries and tests."""

    def note(self, text: str) -> None:
        """Drop it."""

    def update(self, done: int = 0, total: int | None = None, detail: str = "") -> None:
        """Drop it."""

    @contextmanager
    def task(self, title: str) -> Iterator[Task]:
        """Show nothing."""
        del title
        yield self


class Lines:
    """For logs and pipes: a line at the start, every ``period`` seconds, and at the end."""

    def __init__(self, stream: TextIO, period: float = LINE_PERIOD) -> None:
        """Write to ``stream``."""
        self._stream = stream
        self._period = period
        self._title = ""
        self._started = self._shown = 0.0

    def note(self, text: str) -> None:
        """Write a line at once."""
        self._stream.write(f"{text}\n")
        self._stream.flush()

    def update(self, done: int = 0, total: int | None = None, detail: str = "") -> None:
        """Write a line when the last one is old enough."""
        now = time.monotonic()
        if now - self._shown < self._period:
            return
        self._shown = now
        count = f", {done} of about {total}" if total else ""
        tail = f", {detail}" if detail else ""
        self.note(f"{self._title}: {now - self._started:.0f} s{count}{tail}")

    @contextmanager
    def task(self, title: str) -> Iterator[Task]:
        """Name the work, then how long it took."""
        self._title, self._started = title, time.monotonic()
        self._shown = self._started
        self.note(f"{title} …")
        yield self
        self.note(f"{title}: done in {time.monotonic() - self._started:.0f} s")


class Bar:
    """For a terminal: a bar with the elapsed time, replaced by one line when done."""

    def __init__(self, console: Console) -> None:
        """Draw on ``console``."""
        self._console = console

    def note(self, text: str) -> None:
        """Print a line above the bar."""
        self._console.print(text, highlight=False, markup=False)

    @contextmanager
    def task(self, title: str) -> Iterator[Task]:
        """Draw a bar until the context ends."""
        started = time.monotonic()
        with RichProgress(
            SpinnerColumn(),
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("[dim]{task.fields[detail]}"),
            console=self._console,
            transient=True,
        ) as bars:
            yield _BarTask(bars, title)
        self.note(f"✓ {title} ({time.monotonic() - started:.0f} s)")


class _BarTask:
    def __init__(self, bars: RichProgress, title: str) -> None:
        self._bars = bars
        self._id = bars.add_task(title, total=None, detail="")

    def update(self, done: int = 0, total: int | None = None, detail: str = "") -> None:
        self._bars.update(self._id, completed=done, total=total, detail=detail[-60:])


def for_stream(stream: TextIO | None = None) -> Progress:
    """Choose by whether ``stream`` (standard error where not given) is a terminal."""
    stream = stream or sys.stderr
    if stream.isatty():
        return Bar(Console(file=stream))
    return Lines(stream)
