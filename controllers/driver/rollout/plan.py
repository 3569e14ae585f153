"""The starts of one GPUDriver's roll-out, and why each node that waits does. Pure.

Two writes are made here: a node is begun, which takes nothing from anybody but a look, and a node is taken out of
service. What a start needs is counted from what all nodes say, with the starts that were decided before it.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from controllers.domain.driver.pause import paused_to
from controllers.driver.node.due import time_to_retry
from controllers.driver.rollout import steps
from controllers.driver.rollout.budget import Budget
from controllers.driver.rollout.counts import usual
from controllers.driver.rollout.openings import Openings
from controllers.driver.rollout.order import ordered
from controllers.driver.rollout.turns import Turn, keeps, turn_of
from controllers.driver.rollout.wave_allocator import WaveAllocator
from controllers.runtime.plan import Plan, PlanBuilder

if TYPE_CHECKING:
    from collections.abc import Mapping

    from controllers.api.reasons.typed import Reason
    from controllers.domain.driver.waves import Progress, Stage
    from controllers.driver.rollout.observed import Candidate, ObservedRollout

AT_ONCE: Final = 16
"""Nodes that one plan begins at most, and takes out of service: a pause is looked for between two plans."""
AHEAD: Final = 1800.0
"""Seconds before a window in which nodes are looked at for it."""
RECHECK: Final = 30.0
"""Seconds after which nodes that wait are looked through again, should nothing have been seen of a change."""
SOON: Final = 0.05
PREFERENCE: Final = ("Undo", "HandOver", "Roll")
BY_OTHERS: Final[frozenset[Reason]] = frozenset(("PoolBudgetReached", "TooManyNodesOut"))
"""What keeps a node while others of its kind may go before it."""


@dataclass(frozen=True, slots=True)
class RolloutPlan:
    """What is done, and what is not."""

    plan: Plan = field(default_factory=Plan)
    waiting: Mapping[str, Reason] = field(default_factory=dict)
    """Why nodes wait, by name: one reason for each."""
    stages: Mapping[str, Stage] = field(default_factory=dict)
    """The wave of each kind of node."""
    progress: Mapping[str, Progress] = field(default_factory=dict)
    """How far each kind of node is."""


def plan_rollout(observed: ObservedRollout, now: float) -> RolloutPlan:
    """The next starts. `now` in seconds since the epoch."""
    draft = _Draft(observed, now)
    turns = [turn for one in observed.candidates if (turn := turn_of(one, observed, now)) is not None]
    free = draft.free_ones(turns)
    for turn in free:
        if turn.step == "Start":
            draft.start(turn)
    for turn in free:
        if turn.step == "Looked":
            draft.wait(turn, "AwaitingSlot")
    for turn in free:
        if turn.step == "Begin":
            draft.begin(turn)
    return draft.made()


class _Draft:
    """A plan while it is made."""

    def __init__(self, observed: ObservedRollout, now: float) -> None:
        times = usual(observed)
        self._observed, self._now = observed, now
        self._plan, self._begun, self._looks = PlanBuilder(), 0, observed.looks
        self._budget, self._waves = Budget(observed, times, now), WaveAllocator(observed)
        self._openings = Openings(observed, times, now)
        self._waiting: dict[str, Reason] = {}
        self._queued: Counter[str] = Counter()  # nodes that wait for a start, by pool; under "" all of the driver's

    def made(self) -> RolloutPlan:
        """The plan."""
        for one in self._observed.candidates:
            work = one.facts.work
            if work is not None and work.phase in ("Deferred", "RolledBack") and work.retry_at is not None:
                left = time_to_retry(work, self._now)
                self._plan.requeue_within(left if left > 0 else RECHECK)
        if self._waiting:
            self._plan.requeue_within(RECHECK)
        return RolloutPlan(self._plan.build(), self._waiting, self._waves.stages, self._waves.progress)

    def free_ones(self, turns: list[Turn]) -> list[Turn]:
        """The nodes that nothing of their own keeps, in the order in which they are begun."""
        free: dict[str, Turn] = {}
        for turn in turns:
            kept = keeps(turn, self._observed, self._now)
            if kept is None:
                free[turn.candidate.name] = turn
                continue
            self._waiting[turn.candidate.name] = kept
            if (end := paused_to(self._observed.driver, turn.candidate.facts.node, self._now)) is not None:
                self._plan.requeue_within(end - self._now)
        order = [free[one.name] for one in ordered(turn.candidate for turn in free.values())]
        return sorted(order, key=lambda turn: PREFERENCE.index(turn.kind))

    def start(self, turn: Turn) -> None:
        """Take a node out of service, if that may be."""
        one = turn.candidate
        refused = self._not_started(turn)
        if refused is None and self._is_full(AT_ONCE):
            refused = "AwaitingSlot"
        if refused is not None or (write := steps.start(turn, self._waves.wave(one), self._now)) is None:
            self.wait(turn, refused or "AwaitingSlot")
            return
        self._plan.add(write)
        self._begun += 1
        self._budget.take(one)
        if turn.kind == "Roll":
            self._waves.give(one)

    def _not_started(self, turn: Turn) -> Reason | None:
        """Why a node is not taken out of service now."""
        one = turn.candidate
        if turn.kind == "Roll":
            if (refused := self._waves.refusal(one)) is not None:
                return refused
            if self._opens_in(one) != 0:
                return "AwaitingWindow"
        return self._budget.refusal(one)

    def wait(self, turn: Turn, reason: Reason) -> None:
        """The node has been begun and waits for its start."""
        one = turn.candidate
        self._waiting[one.name] = reason
        self._queued.update(one.facts.pools.keys())
        if reason not in BY_OTHERS:
            self._queued[""] += 1
            if turn.kind == "Roll":
                self._waves.queue(one)

    def begin(self, turn: Turn) -> None:
        """Begin with a node, if it may be started soon."""
        one = turn.candidate
        refused = self._not_begun(one) if turn.kind == "Roll" else None
        if refused is None and self._is_full(2 * AT_ONCE):
            refused = "AwaitingSlot"
        wave, driver = self._waves.wave(one), self._observed.driver
        if refused is not None or (write := steps.begin(turn, driver, wave, self._now)) is None:
            self._waiting[one.name] = refused or "AwaitingSlot"
            return
        self._plan.add(write)
        self._begun += 1
        self._looks -= turn.kind == "Roll"
        self.wait(turn, "AwaitingSlot")

    def _not_begun(self, one: Candidate) -> Reason | None:
        """Why a node is not looked at now: only one that may be started soon is."""
        if (refused := self._waves.refusal(one, ahead=True)) is not None:
            return refused
        opens = self._opens_in(one)
        if opens is None or opens > AHEAD:
            return "AwaitingWindow"
        kept = self._budget.refusal(one)
        if kept in ("TooManyNodesOut", "GPUHoursSpent"):
            return kept
        if self._is_enough(one):
            return kept or "AwaitingSlot"
        return "AwaitingSlot" if self._looks <= 0 else None

    def _is_enough(self, one: Candidate) -> bool:
        """Whether as many wait for a start as may come to it soon: twice what is free, or half of what may be out."""
        limits = {"": (self._budget.free(one), self._budget.nodes)}
        limits |= {pool: (self._budget.free_in(pool), self._budget.limit_in(pool)) for pool in one.facts.pools}
        return any(self._queued[key] >= max(2 * free, most // 2, 1) for key, (free, most) in limits.items())

    def _opens_in(self, one: Candidate) -> float | None:
        """Seconds until the node's windows open; then it is asked for again, and a while before that."""
        opens = self._openings.left(one)
        if opens:
            self._plan.requeue_within(opens - AHEAD if opens > AHEAD else opens)
        return opens

    def _is_full(self, most: int) -> bool:
        """Whether this plan has enough writes; the next one follows at once."""
        if self._begun < most:
            return False
        self._plan.requeue_within(SOON)
        return True
