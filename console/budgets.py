"""What viewers have the console compute, in seconds of its event loop: no viewer may keep it from the others.

Open pages are bounded by their number (`open_pages`), and computed once for all of equal rights. A page that is asked
for once is computed for whoever asks, so each viewer has a budget: it holds `FULL` seconds, and `SHARE` of the time is
added to it.
Lives as long as its server, in its event loop.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

    from console.viewers import Viewer

T = TypeVar("T")
FULL: Final = 3.0
"""Seconds that a viewer may have computed at once: some pages of a pool of 8,000 cards, hundreds of small ones."""
SHARE: Final = 0.1
"""Of the time, that a viewer may have computed on and on."""
LONGEST: Final = 30.0
"""Seconds that a viewer has to wait at most: pages that stay open cost them, too."""


class BudgetSpentError(Exception):
    """A viewer had too much computed; the text is a sentence for them."""

    def __init__(self, seconds: float) -> None:
        """`seconds`: after which they may ask again."""
        self.seconds = max(1, round(seconds + 0.5))
        super().__init__(
            f"You have asked for so many large pages that others would wait for theirs: come again in {self.seconds} s."
        )


class Budgets:
    """The budgets of all viewers."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """Make one in which all budgets are full; `clock` in seconds."""
        self._clock = clock
        # Of those whose budget is not full: what is missing of it, and when that was so.
        self._missing: dict[tuple[str, str], tuple[float, float]] = {}

    def of(self, viewer: Viewer) -> Budget:
        """The budget of one viewer."""
        return Budget(self, viewer.who)

    def missing(self, who: tuple[str, str]) -> float:
        """Seconds that are missing of a budget."""
        found = self._missing.get(who)
        return 0.0 if found is None else self._now(found)

    def spend(self, who: tuple[str, str], seconds: float) -> None:
        """Take so much from it, also what is not left: how long a page takes is known afterwards."""
        missing = min(self.missing(who) + seconds, FULL + SHARE * LONGEST)
        self._missing = {each: found for each, found in self._missing.items() if self._now(found) > 0}
        self._missing[who] = missing, self._clock()

    def _now(self, found: tuple[float, float]) -> float:
        missing, at = found
        return max(0.0, missing - (self._clock() - at) * SHARE)


@dataclass(frozen=True, slots=True)
class Budget:
    """The budget of one viewer: what is left of it."""

    budgets: Budgets
    who: tuple[str, str]

    def check(self) -> None:
        """Raise BudgetSpentError where nothing is left."""
        if (debt := self.budgets.missing(self.who) - FULL) >= 0:
            raise BudgetSpentError(debt / SHARE)

    def pay(self, make: Callable[[], T]) -> T:
        """Compute something, and take how long that was from the budget."""
        began = time.monotonic()
        try:
            return make()
        finally:
            self.budgets.spend(self.who, time.monotonic() - began)
