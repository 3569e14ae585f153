"""When nodes may be started by the windows of their driver and of their pools. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from controllers.domain.driver.windows import opens_at, schedule
from controllers.driver.rollout.budget import NO_RULES
from controllers.driver.rollout.counts import Usual, stratum_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from controllers.driver.rollout.observed import Candidate, ObservedRollout


class Openings:
    """The next opening of each kind of node in each set of pools, found once."""

    def __init__(self, observed: ObservedRollout, times: Mapping[str, Usual], now: float) -> None:
        """Ask at that time."""
        self._observed, self._times, self._now = observed, times, now
        self._schedule = schedule(observed.driver.spec.rollout.windows)
        self._known: dict[tuple[str, tuple[str, ...]], float | None] = {}

    def left(self, one: Candidate) -> float | None:
        """Seconds until the node may be started; 0 for now, None where no window is as long as it needs."""
        key = stratum_of(one), tuple(one.facts.pools)
        if key not in self._known:
            self._known[key] = self._found(*key)
        return self._known[key]

    def _found(self, stratum: str, pools: tuple[str, ...]) -> float | None:
        schedules = [self._schedule, *(self._observed.rules.get(pool, NO_RULES).schedule for pool in pools)]
        opens = opens_at(schedules, self._now, self._times.get(stratum, Usual()).most)
        return opens - self._now if opens is not None else None
