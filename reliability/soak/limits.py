"""How fast what may grow, in an hour of churn at twice the benchmark's load. Pure.

A limit is less than what one leak of its kind would show, and more than what the way of measuring shows where nothing
leaks. At this pace 6,545 pods come and go in an hour, and 120 cycles pass.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from reliability.soak.records import Own, Reading

MEMORY = 4.0
"""MB. The smallest record that a process caches takes 0.7 kB: one for each pod, kept for ever, would be 4.6."""
COUNT = 1.0
"""One thing kept in each cycle would be 120; at rest these are whole numbers that do not waver."""
SHARE = 0.10
"""Of the mean, of what is counted for each cycle. Pods that differ in when they come make it waver by some percent."""
LEAST_CYCLES = 8
"""With fewer the range of a slope is as wide as all there is: such a run shows and does not judge."""


@dataclass(frozen=True, slots=True)
class Level:
    """Something that a process has.

    Of each cycle the least is taken, or what there is at its end: what leaks raises both, and what comes and goes
    neither.
    """

    name: str
    take: Callable[[Reading], float]
    unit: str = ""
    limit: float | None = COUNT
    """Growth an hour, at most; None where it is shown and not judged."""
    moves: bool = False
    """Whether it moves between replicas, with their connections: judged of all together, and shown of each."""
    at_end: bool = False
    """Whether a cycle's end is taken, where it follows the cluster's objects, which are then as they were: its least
    depends on whether a reading falls into the moment in which a node is away."""


@dataclass(frozen=True, slots=True)
class Flow:
    """Something that a process does, counted from one end of a cycle to the next."""

    name: str
    take: Callable[[Reading], float]
    unit: str = ""
    share: float | None = SHARE
    """Growth an hour, at most, of the mean; None where it is shown and not judged."""
    moves: bool = False
    """As of a level."""


def _own(take: Callable[[Own], float]) -> Callable[[Reading], float]:
    def of(reading: Reading) -> float:
        return take(reading.own) if reading.own is not None else 0.0

    return of


LEVELS = (
    Level("memory (RSS)", lambda r: r.rss, "MB", MEMORY),
    Level("anonymous memory", lambda r: r.anonymous, "MB", MEMORY),
    Level("descriptors", lambda r: r.descriptors, moves=True),
    Level("threads", lambda r: r.threads),
)
OWN_LEVELS = (
    Level("tasks", _own(lambda o: o.tasks), moves=True),
    Level("keys that wait", _own(lambda o: o.queue)),
    Level("cached objects", _own(lambda o: o.cached), at_end=True),
    Level("series of metrics", _own(lambda o: o.series), at_end=True),
)
FLOWS = (Flow("CPU a cycle", lambda r: r.cpu, "s", share=None),)
"""CPU is the machine's as much as ours: a neighbour's work shows in it."""
OWN_FLOWS = (
    Flow("requests a cycle", _own(lambda o: o.sent), moves=True),
    Flow("writes a cycle", _own(lambda o: o.writes), share=None),
)
EVENTS = "Event"
"""The kind that comes and goes by time, not with a cycle: judged as a flow is."""
