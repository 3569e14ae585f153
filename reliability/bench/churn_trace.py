"""Jobs that come and go for half an hour, more than the cards can take: the trace, and what is read off a run. Pure.

Each team's jobs are the same mix, in blocks, so that two teams differ by how many jobs they bring and by their order
alone. The first team brings twice as much as its share of the cards, each other a fifth more than its share.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from reliability.bench.rows import Sizes

MIX: Final = {1: 15, 2: 5, 4: 3, 8: 2}
"""Jobs of a block, by the cards that each takes."""
GREEDY, OTHERS = 2.0, 1.2
"""What a team brings, in its share of the cards."""


@dataclass(frozen=True, slots=True)
class Arrival:
    """A job of the trace; times in seconds."""

    at: float
    """Since the trace began."""
    team: str
    name: str
    cards: int
    runs: float


def trace(teams: Sequence[str], cards: int, sizes: Sizes, seed: int = 1) -> list[Arrival]:
    """The jobs, by the time at which they come; the same for the same arguments."""
    chance = random.Random(seed)  # noqa: S311 - no secret
    mean = sum(size * count for size, count in MIX.items()) / sum(MIX.values()) * sizes.churn_job
    found: list[Arrival] = []
    for number, team in enumerate(teams):
        load = (GREEDY if number == 0 else OTHERS) * cards / len(teams)
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
    """That are free though a waiting pod would fit, and that are kept for none that waits longer."""
    kept: int
    """Free on the node that is kept for a pod that has waited longer than its pool's `hold.after`."""
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
