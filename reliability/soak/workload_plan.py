"""The requests of one cycle of the soak, with their times, from a seed. Pure.

Each cycle ends where it began: who came goes, what broke is mended, each card is in its pool again. Names of pods, of
one pool and of one node are new in each cycle, as they are where ReplicaSets and autoscalers make them, so that
whatever is kept by name shows; another node comes back under its old name. No act begins in a cycle's last seconds.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass
from typing import Literal

Verb = Literal[
    "pod", "strand", "unpod", "assign", "break", "pool", "resize", "unpool", "leave", "join", "settings"
]  # fmt: skip
BENCHMARK_GAP = 1.1
"""Seconds between two cards, and two pods, of the benchmark's theme `pod` (`reliability.bench.rows.Sizes.gap`)."""
LOAD = 2.0
"""So many times the benchmark's load."""
CARDS = 8
"""Of each node."""

STEADY, LEFT, RIGHT, GUESTS = "steady", "left", "right", "guests"
"""Pools that stay. Pods mostly go to the first; cards go to and fro between the next two; nodes come into the last."""
STAYING_NODES = {"steady-1": STEADY, "steady-2": STEADY, "steady-3": STEADY, "movers-1": "movers", "brief-1": "brief"}
"""Nodes that stay, and their parts."""
GUEST = "guest-1"
"""The node that is deleted and comes back under its name."""
POOLS = ((STEADY, 0.94), (LEFT, 0.02), (RIGHT, 0.02), (GUESTS, 0.02))
"""Where pods go, and their shares."""
LOST = 7
"""Position of the cards that vanish and come back: one that is in a pool, one that is in none."""
BRIEF, GROWN = "0-1", "0-3"
"""Positions of the cards that the pool of a cycle takes, before and after it is resized."""


@dataclass(frozen=True, slots=True)
class Pace:
    """How much happens; times in seconds. Acts a second are a mean over the whole cycle, its rest included."""

    cycle: float = 30.0
    rest: float = 10.0
    """The end of a cycle, in which nothing is begun."""
    pods_a_second: float = LOAD / BENCHMARK_GAP
    pod_lives: tuple[float, float] = (1.5, 4.0)
    rounds: int = 2
    """Times that each of the moving cards leaves its pool and comes back, by four acts."""

    @property
    def busy(self) -> float:
        """The part of a cycle in which acts begin."""
        return self.cycle - self.rest


@dataclass(frozen=True, slots=True)
class Act:
    """One thing that somebody does."""

    at: float
    """Seconds from the cycle's begin."""
    verb: Verb
    subject: str
    """What it is done to; acts on one subject follow one another."""
    value: str = ""


def cycle(seed: int, number: int, pace: Pace) -> list[Act]:
    """The acts of a cycle, by time; the same for the same arguments."""
    chance = random.Random(f"{seed}/{number}")  # noqa: S311 - no secret
    acts = [*_pods(number, pace, chance), *_cards(pace), *_pool(number, pace), *_nodes(number, pace), *_rest(pace)]
    acts += _expiry(number, pace)
    return sorted(acts, key=lambda act: act.at)


def brief_pool(number: int) -> str:
    """The pool that lives within a cycle."""
    return f"brief-{number}"


def visitor(number: int) -> str:
    """The node that lives within a cycle."""
    return f"visitor-{number}"


def _pods(number: int, pace: Pace, chance: random.Random) -> list[Act]:
    count = math.ceil(pace.cycle * pace.pods_a_second)
    pools, shares = [name for name, _ in POOLS], [share for _, share in POOLS]
    acts = []
    for place in range(count):
        at, life = place * pace.busy / count, chance.uniform(*pace.pod_lives)
        name = f"pod-{number}-{place}"
        (pool,) = chance.choices(pools, shares)
        acts += [Act(at, "pod", name, pool), Act(min(at + life, pace.busy + 0.3 * pace.rest), "unpod", name)]
    return acts


def _cards(pace: Pace) -> list[Act]:
    """Each card leaves its pool, goes into the other, and back: once by way of no pool, once at once."""
    acts = []
    for position in range(CARDS):
        home = home_of(position)
        away = RIGHT if home == LEFT else LEFT
        ways = ("", away, "", home), (away, home, "", home)
        steps = [word for turn in range(pace.rounds) for word in ways[turn % 2]]
        gap = pace.busy / len(steps)
        acts += [
            Act((step + position / CARDS) * gap, "assign", f"movers-1/{position}", word)
            for step, word in enumerate(steps)
        ]
    return acts


def home_of(position: int) -> str:
    """The pool in which a moving card begins and ends each cycle."""
    return LEFT if position < CARDS // 2 else RIGHT


def _pool(number: int, pace: Pace) -> list[Act]:
    name, pod = brief_pool(number), f"in-{brief_pool(number)}"
    return [
        Act(0.02 * pace.busy, "pool", name, BRIEF),
        Act(0.25 * pace.busy, "pod", pod, name),
        Act(0.35 * pace.busy, "resize", name, GROWN),
        Act(0.50 * pace.busy, "unpod", pod),
        Act(0.60 * pace.busy, "resize", name, BRIEF),
        Act(0.70 * pace.busy, "unpool", name),
    ]


def _nodes(number: int, pace: Pace) -> list[Act]:
    """One is deleted and comes back; one with a new name comes and goes; two cards vanish and come back."""
    new = visitor(number)
    return [
        Act(0.05 * pace.busy, "leave", GUEST),
        Act(0.15 * pace.busy, "join", GUEST, GUESTS),
        Act(0.08 * pace.busy, "join", new, GUESTS),
        Act(0.80 * pace.busy, "leave", new),
        Act(0.10 * pace.busy, "break", "steady-1", str(LOST)),
        Act(0.55 * pace.busy, "break", "steady-1"),
        Act(0.12 * pace.busy, "break", "brief-1", str(LOST)),
        Act(0.60 * pace.busy, "break", "brief-1"),
    ]


def _rest(pace: Pace) -> list[Act]:
    """Settings change, and change back."""
    return [
        Act(0.30 * pace.busy, "settings", "module", "BinPack"),
        Act(0.75 * pace.busy, "settings", "module", "Spread"),
    ]


def _expiry(number: int, pace: Pace) -> list[Act]:
    """A pod that nobody binds, whose reservation ends before it does."""
    name = f"stranded-{number}"
    return [Act(0.10 * pace.busy, "strand", name, STEADY), Act(0.85 * pace.busy, "unpod", name)]
