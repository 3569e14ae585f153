"""Windows of a week in which nodes may be started, in UTC. Pure.

Times are seconds since the epoch. A start fits where what it needs ends before its window does. Windows that meet are
one, also across midnight: `23:59` as an end is midnight.
"""

from __future__ import annotations

from bisect import bisect_right
from functools import lru_cache
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

    from controllers.api.driver_rollout import Window

DAYS: Final = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
DAY: Final = 86_400.0
WEEK: Final = 7 * DAY
EPOCH_DAY: Final = 3 * DAY
"""The epoch began on a Thursday."""
LAST_MINUTE: Final = "23:59"


class Schedule:
    """Windows, ready to be asked."""

    __slots__ = ("_begins", "_spans")

    def __init__(self, windows: Iterable[Window]) -> None:
        """Lay the windows out over two weeks, so that none is cut by the end of the first."""
        week = [span for window in windows for span in _spans(window)]
        self._spans = _merged([*week, *((begin + WEEK, end + WEEK) for begin, end in week)])
        self._begins = [begin for begin, _ in self._spans]

    def fits(self, at: float, needed: float) -> bool:
        """Whether what lasts `needed` seconds can be begun at that time; always, without windows."""
        if not self._spans:
            return True
        second = (at + EPOCH_DAY) % WEEK
        # A window that is open since last week is seen in the second one.
        return any(self._is_within(moment, needed) for moment in (second, second + WEEK))

    def _is_within(self, moment: float, needed: float) -> bool:
        place = bisect_right(self._begins, moment) - 1
        if place < 0:
            return False
        begin, end = self._spans[place]
        return end - begin >= WEEK or moment + needed <= end

    def beginnings(self, after: float) -> list[float]:
        """When windows begin in the week after that time."""
        base = after - (after + EPOCH_DAY) % WEEK
        found = (base + shift + begin for shift in (0.0, WEEK) for begin in self._begins)
        return sorted({at for at in found if after < at <= after + WEEK})


@lru_cache(maxsize=256)
def schedule(windows: tuple[Window, ...]) -> Schedule:
    """The schedule of these windows."""
    return Schedule(windows)


def is_open(schedules: Iterable[Schedule], at: float, needed: float) -> bool:
    """Whether what lasts `needed` seconds can be begun at that time by all schedules."""
    return all(one.fits(at, needed) for one in schedules)


def opens_at(schedules: Iterable[Schedule], now: float, needed: float) -> float | None:
    """When it can be begun by all of them, now or later; None where no week has such a time."""
    every = tuple(schedules)
    moments = [now, *sorted({at for one in every for at in one.beginnings(now)})]
    return next((at for at in moments if is_open(every, at, needed)), None)


def _spans(window: Window) -> Iterable[tuple[float, float]]:
    """The window's parts of a week, in seconds since Monday."""
    begin, end = _second(window.from_), DAY if window.to == LAST_MINUTE else _second(window.to)
    for day in window.days or DAYS:
        start = DAYS.index(day) * DAY
        yield start + begin, start + end


def _second(clock: str) -> float:
    hours, minutes = clock.split(":")
    return int(hours) * 3600.0 + int(minutes) * 60.0


def _merged(spans: list[tuple[float, float]]) -> list[tuple[float, float]]:
    made: list[tuple[float, float]] = []
    for begin, end in sorted(spans):
        if made and begin <= made[-1][1]:
            made[-1] = (made[-1][0], max(made[-1][1], end))
        else:
            made.append((begin, end))
    return made
