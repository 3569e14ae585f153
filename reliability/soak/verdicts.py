"""Slopes of everything that was read, and their verdicts. Pure."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from itertools import pairwise
from typing import Any, Literal

from reliability.soak.limits import (
    COUNT,
    EVENTS,
    FLOWS,
    LEAST_CYCLES,
    LEVELS,
    OWN_FLOWS,
    OWN_LEVELS,
    SHARE,
    Flow,
    Level,
)
from reliability.soak.records import Boundary, Reading, is_ours
from reliability.soak.replicas import boundary_of, replicated, together
from reliability.soak.slopes import Slope, theil_sen

Verdict = Literal["met", "missed", "unsure", "info"]
HOUR = 3600.0
SERVER = "API server"
Points = list[tuple[float, float]]
"""Of each cycle its end (seconds) and the value."""


@dataclass(frozen=True, slots=True)
class Row:
    """One quantity of one process."""

    process: str
    name: str
    unit: str
    first: float
    last: float
    slope: Slope
    """An hour."""
    limit: float | None
    """Growth an hour, at most; None where it is not judged."""
    cycles: int

    @property
    def verdict(self) -> Verdict:
        """`unsure` where the estimate is above the limit and the range says that nothing may grow at all."""
        if self.limit is None or self.cycles < LEAST_CYCLES:
            return "info"
        if self.slope.value <= self.limit:
            return "met"
        return "missed" if self.slope.low > 0 else "unsure"

    def to_json(self) -> dict[str, Any]:
        """The row as JSON values."""
        return {**asdict(self), "verdict": self.verdict}


def rows(boundaries: Sequence[Boundary], readings: Sequence[Mapping[str, Reading]]) -> list[Row]:
    """Every quantity of every process over the cycles between the boundaries; none for fewer than two cycles.

    `readings` are those in between, in order; boundaries have some of their own. A process that was started anew is
    left out. What moves between the replicas of one is judged of all of them together.
    """
    if len(boundaries) < 3:
        return []
    processes = [name for name in boundaries[-1].readings if _lived(name, boundaries)]
    groups = replicated(processes)
    alike = {name for group in groups.values() for name in group}
    found: list[Row] = []
    for process in sorted(processes, key=lambda name: (not is_ours(name), name)):
        if is_ours(process):
            mine = partial(_is_its_own, alone=process not in alike)
            found += _of_process(process, boundaries, readings, lambda _: True, mine)
        else:
            found += _of_process(process, boundaries, readings, _is_the_kernels, lambda _: False)
    for name, group in groups.items():
        ends = [boundary_of(end, name, group) for end in boundaries]
        between = [together(one, name, group) for one in readings]
        found += _of_process(name, ends, between, lambda what: what.moves, lambda _: True)
    return found + _stored(boundaries)


def _lived(process: str, ends: Sequence[Boundary]) -> bool:
    """Whether it is one process from the first end to the last: another's counts begin anew."""
    return len({end.readings[process].pid if process in end.readings else None for end in ends}) == 1


def _is_its_own(what: Level | Flow, *, alone: bool) -> bool:
    """Whether a process is to be judged by it: not where it moves between this one and others like it."""
    return alone or not what.moves


def _is_the_kernels(what: Level | Flow) -> bool:
    """Whether it is known of a process that tells nothing of itself."""
    return what in LEVELS or what in FLOWS


def _of_process(
    process: str,
    ends: Sequence[Boundary],
    readings: Sequence[Mapping[str, Reading]],
    shown: Callable[[Level | Flow], bool],
    judged: Callable[[Level | Flow], bool],
) -> list[Row]:
    """What a process has and does, of that what is to be shown; with a limit where it is judged."""
    of_it = [one[process] for one in (*readings, *(end.readings for end in ends)) if process in one]
    found = []
    for level in filter(shown, (*LEVELS, *OWN_LEVELS)):
        points = _at_ends(ends, process, level.take) if level.at_end else _least(ends, of_it, level.take)
        found.append(_row(process, level.name, level.unit, points, level.limit if judged(level) else None))
    for flow in filter(shown, (*OWN_FLOWS, *FLOWS)):
        points = _counted(ends, process, flow.take)
        share = flow.share if judged(flow) else None
        limit = share * statistics.mean(value for _, value in points) if share is not None else None
        found.append(_row(process, flow.name, flow.unit, points, limit))
    return found


def _least(ends: Sequence[Boundary], readings: Sequence[Reading], take: Callable[[Reading], float]) -> Points:
    return [
        (end.at, min(take(one) for one in readings if begin.at < one.at <= end.at)) for begin, end in pairwise(ends)
    ]


def _at_ends(ends: Sequence[Boundary], process: str, take: Callable[[Reading], float]) -> Points:
    return [(end.at, take(end.readings[process])) for end in ends[1:]]


def _counted(ends: Sequence[Boundary], process: str, take: Callable[[Reading], float]) -> Points:
    """For the mean length of a cycle: one that took longer renews more leases and is no leak."""
    mean = (ends[-1].at - ends[0].at) / (len(ends) - 1)
    return [
        (end.at, (take(end.readings[process]) - take(begin.readings[process])) * mean / (end.at - begin.at))
        for begin, end in pairwise(ends)
    ]


def _stored(ends: Sequence[Boundary]) -> list[Row]:
    found = []
    for kind in ends[-1].stored:
        points = [(end.at, float(end.stored.get(kind, 0))) for end in ends[1:]]
        limit = SHARE * statistics.mean(value for _, value in points) if kind == EVENTS else COUNT
        found.append(_row(SERVER, f"stored: {kind}", "", points, limit))
    return found


def _row(process: str, name: str, unit: str, points: Points, limit: float | None) -> Row:
    slope = theil_sen(points) * HOUR
    return Row(process, name, unit, points[0][1], points[-1][1], slope, limit, len(points))
