"""WaveAllocator in the waves of each kind of node: who has one, and who waits for one. Pure."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from controllers.domain.driver.waves import CANARY, Progress, Stage, stage
from controllers.driver.rollout.counts import is_started, progress, stratum_of

if TYPE_CHECKING:
    from controllers.api.reasons.typed import Reason
    from controllers.driver.rollout.observed import Candidate, ObservedRollout

NONE: Final = Stage(CANARY, 0)


class WaveAllocator:
    """WaveAllocator while starts are decided, with those that have been given."""

    def __init__(self, observed: ObservedRollout) -> None:
        """Begin with what nodes are at now."""
        self._observed, rollout = observed, observed.driver.spec.rollout
        self.progress: dict[str, Progress] = progress(observed)
        self.stages = {
            key: stage(one, rollout, good=observed.results.on(key) == "Good") for key, one in self.progress.items()
        }
        self._given: Counter[str] = Counter()
        self._queued: Counter[str] = Counter()
        self._canaries = sum(one.under_way.count(CANARY) for one in self.progress.values())
        self._queued_canaries = 0
        self._most_canaries = max(1, observed.own.nodes * rollout.canary.percent // 100)

    def wave(self, one: Candidate) -> int:
        """The wave in which the node is begun."""
        return self._stage(one).wave

    def refusal(self, one: Candidate, *, ahead: bool = False) -> Reason | None:
        """Why there is no place for the node. `ahead`: those that wait for a start have theirs first."""
        key, at = stratum_of(one), self._stage(one)
        if is_started(one, self._observed):
            return None  # it has its place
        canaries = self._canaries + (self._queued_canaries if ahead else 0)
        if at.free <= self._given[key] + (self._queued[key] if ahead else 0):
            return "AwaitingProof" if at.wave == CANARY else "AwaitingWave"
        return "AwaitingProof" if at.wave == CANARY and canaries >= self._most_canaries else None

    def give(self, one: Candidate) -> None:
        """The node is taken out of service."""
        if not is_started(one, self._observed):
            self._given[stratum_of(one)] += 1
            self._canaries += self.wave(one) == CANARY

    def queue(self, one: Candidate) -> None:
        """The node waits for its start, and nothing keeps it but those before it."""
        if not is_started(one, self._observed):
            self._queued[stratum_of(one)] += 1
            self._queued_canaries += self.wave(one) == CANARY

    def _stage(self, one: Candidate) -> Stage:
        return self.stages.get(stratum_of(one), NONE)
