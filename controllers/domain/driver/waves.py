"""Canary and waves of one kind of node: how many of them may have a new revision by now. Pure.

Nothing is remembered but what nodes say: which have the revision, which are under way to it and in which wave each of
them was begun, and on which it failed.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

    from controllers.api.driver_rollout import Rollout

CANARY: Final = 0
"""The wave of the first nodes."""


@dataclass(slots=True)
class Progress:
    """Nodes of one kind, counted by how far they are with a revision."""

    total: int = 0
    """All of them."""
    started: int = 0
    """Those that have it, are under way to it, or on which it failed."""
    finished: int = 0
    """Those that have it and are not at work, or on which it failed."""
    soaked: int = 0
    """Those that serve with it and are not at work."""
    failed_alone: int = 0
    """Those on which it failed by a fault of the node: they say nothing of the revision."""
    under_way: list[int] = field(default_factory=list)
    """The waves of those that are under way, a canary's being 0."""


@dataclass(frozen=True, slots=True)
class Stage:
    """The wave in which nodes of one kind are begun now."""

    wave: int
    """0 is the canary."""
    free: int
    """How many more may be begun in it."""


def wave_word(wave: int, rollout: Rollout) -> str:
    """A wave for people: the canary, or which of how many."""
    return "canary" if wave == CANARY else f"{wave}/{len(rollout.waves)}"


def caps(total: int, rollout: Rollout) -> tuple[int, ...]:
    """Nodes that may have been begun by the end of each wave, the canary first, of `total` nodes."""
    return (min(total, rollout.canary.per_stratum), *(-(-total * percent // 100) for percent in rollout.waves))


def stage(progress: Progress, rollout: Rollout, *, good: bool) -> Stage:
    """Where nodes of one kind are. `good`: the revision is proved on one of them.

    So it is where as many as canaries serve with it, which were of another kind when they got it. A wave is begun once
    all nodes of the wave before it have served for long enough, or failed. A canary on which the revision failed by the
    node's own fault makes room for another one, as often as `maxFailures.nodes` allows.
    """
    limits, running = caps(progress.total, rollout), max(progress.under_way, default=None)
    proved = (good and rollout.canary.per_stratum == 1) or progress.soaked >= max(1, limits[CANARY])
    if running is not None and running > CANARY:
        last = min(running, len(limits) - 1)
        return Stage(running, _free(limits[last], progress.started) if proved else 0)
    if running is not None or not proved:
        alone = min(progress.failed_alone, rollout.max_failures.nodes)
        return Stage(CANARY, _free(limits[CANARY], progress.started - alone))
    return _next(limits, progress.started)


def _next(limits: Sequence[int], started: int) -> Stage:
    """The first wave that has room."""
    for wave, limit in enumerate(limits):
        if wave > CANARY and limit > started:
            return Stage(wave, limit - started)
    return Stage(len(limits) - 1, 0)


def _free(limit: int, started: int) -> int:
    return max(0, limit - started)
