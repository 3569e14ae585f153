"""What may be out of service at once: nodes, nodes and cards of each pool, cards, GPU hours of a day. Pure.

All of it holds at once, and beside it that not too much is out of service for other causes. Of each kind of budget at
least one node may be out, else a node with many cards would never have its turn.
"""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING, Final

from controllers.domain.disruption_budget import limit
from controllers.driver.rollout.counts import Usual, spent, stratum_of
from controllers.driver.rollout.observed import Group, PoolRules

if TYPE_CHECKING:
    from collections.abc import Mapping

    from controllers.api.reasons.typed import Reason
    from controllers.driver.rollout.observed import Candidate, ObservedRollout

HOUR: Final = 3600.0
NO_RULES: Final = PoolRules()


def share(text: str, total: int) -> int:
    """A number of nodes, or a share of them rounded down; at least one."""
    return limit(total, int(text[:-1])) if text.endswith("%") else max(1, int(text))


def unplanned_limit(total: int, percent: int) -> int:
    """How many of a group may be out of service for other causes while a node is started."""
    return max(1, limit(total, percent) // 2)


class Budget:
    """What is out of service while starts are decided, with those that have been decided."""

    def __init__(self, observed: ObservedRollout, times: Mapping[str, Usual], now: float) -> None:
        """Begin with what is out now."""
        self._observed, self._times, self._limits = observed, times, observed.driver.spec.rollout.max_unavailable
        self._own = copy(observed.own)
        self._pools = {name: copy(group) for name, group in observed.pools.items()}
        self._spent = spent(observed, times, now) if self._limits.gpu_hours_per_day else 0.0

    def refusal(self, candidate: Candidate) -> Reason | None:
        """Why the node may not be taken out of service now; None where it may."""
        return self.held_by_others(candidate) or self._spent_by_driver(candidate)

    def held_by_others(self, candidate: Candidate) -> Reason | None:
        """The same, as far as it is not for the budget of the driver as a whole: other nodes may go first."""
        if not candidate.facts.has_left and self._is_troubled(candidate):
            return "TooManyNodesOut"
        if any(self._is_full(pool, cards) for pool, cards in candidate.facts.pools.items()):
            return "PoolBudgetReached"
        return None

    def _spent_by_driver(self, candidate: Candidate) -> Reason | None:
        if self.free(candidate) <= 0:
            return "BudgetReached"
        hours = self._limits.gpu_hours_per_day
        if hours and self._spent and self._spent + self._charge(candidate) > hours * HOUR:
            return "GPUHoursSpent"
        return None

    def take(self, candidate: Candidate) -> None:
        """The node is taken out of service."""
        facts = candidate.facts
        for group, cards in self._groups(candidate):
            group.planned += 1
            group.planned_cards += cards
            group.unplanned -= facts.is_unplanned
        self._spent += self._charge(candidate)

    def free(self, candidate: Candidate) -> int:
        """How many nodes like this one the driver as a whole may take out of service."""
        cards, most = max(1, len(candidate.facts.devices)), self._limits.cards
        nodes = self.nodes - self._own.planned
        if not most:
            return nodes
        by_cards = (most - self._own.planned_cards) // cards
        return min(nodes, by_cards if self._own.planned else max(1, by_cards))

    def free_in(self, pool: str) -> int:
        """How many nodes of the pool may be taken out of service."""
        group = self._group(pool)
        return self.limit_in(pool) - group.planned

    def limit_in(self, pool: str) -> int:
        """How many nodes of the pool may be out of service at once."""
        return share(self._limits.per_pool, self._group(pool).nodes)

    @property
    def nodes(self) -> int:
        """How many nodes of the driver may be out of service at once."""
        return share(self._limits.nodes, self._own.nodes)

    def _is_full(self, pool: str, cards: int) -> bool:
        group, most = self._group(pool), self._observed.rules.get(pool, NO_RULES).max_cards
        if group.planned + 1 > self.limit_in(pool):
            return True
        return most is not None and group.planned > 0 and group.planned_cards + cards > most

    def _is_troubled(self, candidate: Candidate) -> bool:
        """Whether too much of the cluster, or of a pool of the node, is out of service for other causes."""
        groups = [self._observed.cluster, *(self._group(pool) for pool in candidate.facts.pools)]
        return any(group.unplanned > unplanned_limit(group.nodes, self._observed.percent) for group in groups)

    def _charge(self, candidate: Candidate) -> float:
        return self._times.get(stratum_of(candidate), Usual()).median * len(candidate.facts.devices)

    def _groups(self, candidate: Candidate) -> list[tuple[Group, int]]:
        pools = candidate.facts.pools.items()
        return [(self._own, len(candidate.facts.devices)), *((self._group(pool), cards) for pool, cards in pools)]

    def _group(self, pool: str) -> Group:
        return self._pools.setdefault(pool, Group())
