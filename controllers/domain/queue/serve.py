"""Who of a pool's queue is served now: one walk over the order, which places whoever fits. Pure.

An entry that fits nowhere now is passed, so that cards do not idle (backfill); but for the first few that have waited
long enough (`queue.hold`), free slots of one node are kept, or small pods would keep one that needs many cards waiting
for ever. No more are kept than for these few: where every entry keeps what it could use, cards idle in a long queue.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from math import inf
from typing import TYPE_CHECKING, Final, Literal

from controllers.domain.clock import seconds
from controllers.domain.node_fit import node_fits
from controllers.domain.placement.capacity import less
from controllers.domain.placement.choice import place
from controllers.domain.request import PoolRequest

if TYPE_CHECKING:
    from collections.abc import Iterable

    from controllers.domain.node_fit import PodConstraints
    from controllers.domain.placement.capacity import NodeCapacity
    from controllers.domain.placement.choice import Placement, PlacementPolicy
    from controllers.domain.queue.entry import Entry
    from controllers.domain.queue.order import Ranked
    from controllers.domain.queue.policy import QueuePolicy

Wait = Literal["Waiting", "OverLimit", "NoNodeFits"]
WORK_MAX: Final = 250_000
"""Labels, expressions, values and tolerations of one namespace's pods that one walk compares with nodes: 0.1 s at most.
Those beyond it wait, behind their own."""


@dataclass(frozen=True, slots=True)
class Decision:
    """What becomes of an entry now."""

    entry: Entry
    placement: Placement | None = None
    """Where it is served; None where it waits."""
    reason: Wait = "Waiting"
    kept_node: str | None = None
    """The node whose free slots are kept for it."""


class Walk:
    """One walk over a queue, on capacities that shrink as entries are placed."""

    def __init__(
        self, pool: str, capacities: Iterable[NodeCapacity], policy: QueuePolicy, placement: PlacementPolicy, now: float
    ) -> None:
        """Prepare; `now` in epoch seconds."""
        self._pool, self._policy, self._placement, self._now = pool, policy, placement, now
        self._capacities = {capacity.slots.node: capacity for capacity in capacities if capacity.node is not None}
        self._largest = max((capacity.free for capacity in self._capacities.values()), default=0)
        self._holds = policy.hold_pods
        self._fits: dict[PodConstraints, tuple[str, ...]] = {}
        self._hopeless: set[tuple[int, PodConstraints]] = set()
        self._work: Counter[str] = Counter()
        self.next_hold = inf
        """Epoch seconds at which a pod that waits will have waited long enough for cards to be kept for it."""

    def decide(self, ranked: Ranked) -> Decision:
        """Serve the next entry of the order, or say why it waits."""
        entry = ranked.entry
        if ranked.over_limit:
            return Decision(entry, reason="OverLimit")
        possible = self._nodes_for(entry)
        if possible is None:
            return Decision(entry)
        if not any(self._capacities[name].total >= entry.units for name in possible):
            return Decision(entry, reason="NoNodeFits")
        if (placement := self._place(entry, possible)) is not None:
            self._take(placement)
            return Decision(entry, placement)
        return Decision(entry, kept_node=self._keep(entry, possible))

    def _nodes_for(self, entry: Entry) -> tuple[str, ...] | None:
        """The nodes that the pod can go to, whatever they have free; None where that is too much to look at."""
        known = self._fits.get(entry.constraints)
        if known is None:
            self._work[entry.namespace] += entry.constraints.size * len(self._capacities)
            if self._work[entry.namespace] > WORK_MAX:
                return None
            nodes = ((name, capacity.node) for name, capacity in self._capacities.items())
            known = tuple(name for name, node in nodes if node is not None and node_fits(entry.constraints, node))
            self._fits[entry.constraints] = known
        return known

    def _place(self, entry: Entry, possible: tuple[str, ...]) -> Placement | None:
        if entry.units > self._largest or (entry.units, entry.constraints) in self._hopeless:
            return None  # what is free only shrinks
        here = [self._capacities[name] for name in possible]
        wanted = PoolRequest(self._pool, entry.units)
        found = place(here, wanted, entry.constraints, self._placement, entry.request_id)
        if found is None:
            self._hopeless.add((entry.units, entry.constraints))
        return found

    def _take(self, placement: Placement) -> None:
        """What is placed is free no more."""
        self._set(less(self._capacities[placement.node], placement.shares))

    def _keep(self, entry: Entry, possible: tuple[str, ...]) -> str | None:
        """Keep a node's free slots for an entry that has waited long enough; the node with the most."""
        if self._holds <= 0:
            return None
        since = _created(entry, self._now) + self._policy.hold_after
        if since > self._now:
            self.next_hold = min(self.next_hold, since)
            return None
        able = [self._capacities[name] for name in possible if self._capacities[name].total >= entry.units]
        best = max(able, key=lambda capacity: (capacity.free, capacity.slots.node))
        self._holds -= 1
        self._set(replace(best, free=0, free_cards=()))
        return best.slots.node

    def _set(self, capacity: NodeCapacity) -> None:
        before = self._capacities[capacity.slots.node].free
        self._capacities[capacity.slots.node] = capacity
        if before == self._largest:
            self._largest = max(each.free for each in self._capacities.values())


def _created(entry: Entry, now: float) -> float:
    try:
        return min(now, seconds(entry.created))
    except ValueError:
        return now
