"""When all nodes of a GPUDriver will have the revision that is wanted, as far as can be said. Pure."""

from __future__ import annotations

from math import ceil
from statistics import median
from typing import TYPE_CHECKING, Final

from controllers.domain.clock import begun
from controllers.domain.driver.waves import CANARY, caps
from controllers.driver.rollout.budget import share
from controllers.driver.rollout.counts import UNKNOWN, usual

if TYPE_CHECKING:
    from collections.abc import Iterator

    from controllers.domain.driver.waves import Progress
    from controllers.driver.rollout.observed import ObservedRollout
    from controllers.driver.rollout.plan import RolloutPlan

STEP: Final = 600.0
"""Seconds to which the time is rounded: nobody needs a status written for less."""
BY_PEOPLE: Final = frozenset(
    ("ConfigMapMissing", "RevisionBad", "RolloutHalted", "RolloutPaused", "NodeCordoned", "NodeNotReady")
)
"""What keeps nodes until a person does something."""


def eta(observed: ObservedRollout, made: RolloutPlan, now: float) -> float | None:
    """The time in seconds since the epoch; None where nothing is to be done, or it depends on a person.

    Counted from the last thing that happened, so that it does not move while nodes soak. Windows, and nodes that are
    given back, make it later.
    """
    left = sum(one.total - one.finished for one in made.progress.values())
    if not left or any(reason in BY_PEOPLE for reason in made.waiting.values()):
        return None
    times = usual(observed)
    each = median(one.median for one in times.values()) if times else UNKNOWN
    rounds = ceil(left / share(observed.driver.spec.rollout.max_unavailable.nodes, observed.own.nodes))
    soaks = max(_soaks(observed, key, one) for key, one in made.progress.items())
    last = max(_moments(observed, now), default=now)
    return STEP * ceil(max(now, last + rounds * each + soaks) / STEP)


def _soaks(observed: ObservedRollout, key: str, counted: Progress) -> float:
    """Seconds for which nodes of one kind have to serve before the last of them is done."""
    rollout = observed.driver.spec.rollout
    if counted.finished >= counted.total:
        return 0.0
    limits = caps(counted.total, rollout)
    waves = {limit for wave, limit in enumerate(limits) if wave > CANARY and limit > counted.finished}
    proved = observed.results.on(key) == "Good"
    return len(waves) * rollout.wave_soak + (0.0 if proved else rollout.canary.soak)


def _moments(observed: ObservedRollout, now: float) -> Iterator[float]:
    """When nodes' works ended, or came to their phase."""
    for one in observed.candidates:
        if one.facts.work is not None:
            yield begun(one.facts.work.since, now)
        if one.facts.last is not None and one.facts.last.revision == observed.revision:
            yield begun(one.facts.last.at, now)
