"""Jobs that come and go for half an hour, more than the cards can take: the trace, and what is read off a run. Pure.

Each team's jobs are the same mix, in blocks, so that two teams differ by how many jobs they bring and by their order
alone. The first team brings twice as much as its share of the cards, each other a fifth more than its share.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from reliability.bench.rows import Sizes

TEAMS: Final = tuple(f"churn-{number}" for number in range(10))
MIX: Final = {1: 15, 2: 5, 4: 3, 8: 2}
"""Jobs of a block, by the cards that each takes."""
GREEDY, OTHERS = 2.0, 1.2
"""What the first team brings, and each other, in its share of the cards."""


@dataclass(frozen=True, slots=True)
class Arrival:
    """A job of the trace; times in seconds."""

    at: float
    """Since the trace began."""
    team: str
    name: str
    cards: int
    runs: float


def trace(cards: int, sizes: Sizes, seed: int = 1) -> list[Arrival]:
    """The jobs, by the time at which they come; the same for the same arguments."""
    chance = random.Random(seed)  # noqa: S311 - no secret
    mean = sum(size * count for size, count in MIX.items()) / sum(MIX.values()) * sizes.churn_job
    found: list[Arrival] = []
    for team in TEAMS:
        load = (GREEDY if team == TEAMS[0] else OTHERS) * cards / len(TEAMS)
        gap = mean / load
        at, block = chance.uniform(0.0, gap), list[int]()
        while at < sizes.churn_seconds:
            if not block:
                block = [size for size, count in MIX.items() for _ in range(count)]
                chance.shuffle(block)
            runs = chance.uniform(0.5, 1.5) * sizes.churn_job
            found.append(Arrival(at, team, f"job-{len(found)}", block.pop(), runs))
            at += gap
    return sorted(found, key=lambda arrival: arrival.at)


def usable(free: Iterable[int], waiting: Iterable[int]) -> int:
    """Free cards on which pods that wait would fit, at least. `free`: by node; `waiting`: cards of each pod."""
    left, used = sorted(free, reverse=True), 0
    for cards in sorted(waiting, reverse=True):
        best = min((at for at, there in enumerate(left) if there >= cards), key=lambda at: left[at], default=None)
        if best is not None:
            left[best] -= cards
            used += cards
    return used


def jain(values: Iterable[float]) -> float:
    """Jain's index of fairness: 1 where all are equal, 1/n where one has everything; 1 of nothing."""
    every = list(values)
    squares = sum(value * value for value in every)
    return sum(every) ** 2 / (len(every) * squares) if squares else 1.0


@dataclass(frozen=True, slots=True)
class Sample:
    """A moment; cards."""

    at: float
    idle: int
    """Free, although a waiting pod would fit, on nodes that `queue.hold` cannot have kept."""
    kept: int
    """The same on the one node that it can have kept: a pod has waited for `hold.after`, and fits nowhere."""
    waiting: int
    """Pods or jobs that wait."""


def sample(at: float, free: Mapping[str, int], waiting: Sequence[tuple[int, float]], *, hold_after: float) -> Sample:
    """Look at a moment. `free`: cards by node; `waiting`: cards of each pod that waits, and since when (like `at`)."""
    most = max(free.values(), default=0)
    held = any(cards > most and at - since >= hold_after for cards, since in waiting)
    kept = max(free, key=lambda node: free[node]) if held and most else None
    sizes = [cards for cards, _ in waiting]
    idle = usable((count for node, count in free.items() if node != kept), sizes)
    return Sample(at, idle, usable([free[kept]], sizes) if kept else 0, len(waiting))


@dataclass
class Run:
    """A run of the trace; times in seconds since it began."""

    seconds: float
    warm_up: float
    """Not measured at the start."""
    cards: int
    began: dict[str, float] = field(default_factory=dict)
    """By job, when its pod was ready."""
    ended: dict[str, float] = field(default_factory=dict)
    """By job, when it had ended."""
    elsewhere: set[str] = field(default_factory=set)
    """Jobs whose pod was bound to another node than that of the cards that were promised to it."""
    samples: list[Sample] = field(default_factory=list)
    late: float = 0.0
    """By which a job came after its time, at most."""

    def waits(self, arrivals: Iterable[Arrival], cards: int) -> list[float]:
        """Of the jobs of a size of the teams with the usual load that came early enough to be served.

        One that never began has waited until the end, at least.
        """
        until = self.seconds - (self.seconds - self.warm_up) / 4
        return [
            self.began.get(each.name, self.seconds) - each.at
            for each in arrivals
            if each.cards == cards and each.team != TEAMS[0] and self.warm_up <= each.at <= until
        ]

    def never_began(self, arrivals: Iterable[Arrival], cards: int) -> int:
        """How many jobs of a size never began."""
        return sum(each.cards == cards and each.name not in self.began for each in arrivals)

    def card_seconds(self, arrivals: Iterable[Arrival]) -> dict[str, float]:
        """What each team had after the warm-up."""
        used = dict.fromkeys(TEAMS, 0.0)
        for each in arrivals:
            if (began := self.began.get(each.name)) is not None:
                ended = min(self.ended.get(each.name, self.seconds), self.seconds)
                used[each.team] += each.cards * max(0.0, ended - max(began, self.warm_up))
        return used

    def share(self, part: str) -> float:
        """The mean of a part of the samples over all cards, in per cent."""
        cards: int = sum(getattr(each, part) for each in self.samples)
        return 100 * cards / (len(self.samples) * self.cards)
