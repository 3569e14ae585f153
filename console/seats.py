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


class NoSeatError(Exception):
    """Too many pages are open; the text is a sentence for the viewer."""


class Seats:
    """Who has how many pages open."""

    def __init__(self) -> None:
        """Make one with all seats free."""
        self._taken: Counter[tuple[str, str]] = Counter()

    @contextmanager
    def taken(self, viewer: Viewer) -> Iterator[None]:
        """A seat for as long as a page is open; raises NoSeatError."""
        # By the user alone: what else a viewer is known by differs from token to token.
        who = (viewer.user, viewer.uid)
        if self._taken[who] >= EACH_MAX:
            raise NoSeatError(f"You have {EACH_MAX} pages of the console open, as many as it keeps: close some.")
        if self._taken.total() >= ALL_MAX:
            raise NoSeatError(f"The console has {ALL_MAX} pages open, which is as many as it keeps; come again.")
        self._taken[who] += 1
        try:
            yield
        finally:
            self._taken[who] -= 1
            if not self._taken[who]:
                del self._taken[who]
