"""Open pages, counted: no viewer, and not all of them together, may have the console compute without end."""

from __future__ import annotations

from collections import Counter
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

    from console.viewers import Viewer

EACH_MAX: Final = 32
"""Open pages of one viewer."""
ALL_MAX: Final = 512
"""Open pages of all viewers."""


class TooManyPagesError(Exception):
    """Too many pages are open; the text is a sentence for the viewer."""


class OpenPages:
    """Counts the open pages of each viewer."""

    def __init__(self) -> None:
        """Make one with no page open."""
        self._open: Counter[tuple[str, str]] = Counter()

    @contextmanager
    def opened(self, viewer: Viewer) -> Iterator[None]:
        """Count a page for as long as it is open; raises TooManyPagesError."""
        who = viewer.who
        if self._open[who] >= EACH_MAX:
            raise TooManyPagesError(f"You have {EACH_MAX} pages of the console open, as many as it keeps: close some.")
        if self._open.total() >= ALL_MAX:
            raise TooManyPagesError(f"The console has {ALL_MAX} pages open, which is as many as it keeps; come again.")
        self._open[who] += 1
        try:
            yield
        finally:
            self._open[who] -= 1
            if not self._open[who]:
                del self._open[who]
