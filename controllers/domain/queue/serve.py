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
    from collections.abc import Iterable, Mapping

    from controllers.domain.node_fit import PodConstraints
    from controllers.domain.placement.capacity import NodeCapacity
    from controllers.domain.placement.choice import Placement, PlacementPolicy
    from controllers.domain.queue.entry import Entry, Member
    from controllers.domain.queue.order import Ranked
    from controllers.domain.queue.policy import QueuePolicy

Outcome = Literal["Waiting", "OverLimit", "NoNodeFits"]
WORK_MAX: Final = 250_000
"""Labels, expressions, values and tolerations of one namespace's pods that one walk compares with nodes: 0.1 s at most.
Those beyond it wait, behind their own."""


@dataclass(frozen=True, slots=True)
class Decision:
    """What becomes of an entry now."""

    entry: Entry
    placements: tuple[tuple[Member, Placement], ...] = ()
    """Where each of its pods is served; none where it waits."""
    outcome: Outcome = "Waiting"
    kept_nodes: tuple[str, ...] = ()
    """Nodes on which free slots are kept for it."""


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
            return Decision(entry, outcome="OverLimit")
        possible = {member: self._nodes_for(entry, member) for member in entry.members}
        if any(nodes is None for nodes in possible.values()):
            return Decision(entry)
        able = {member: self._able(member, nodes or ()) for member, nodes in possible.items()}
        if not all(able.values()) or entry.units > self._total(able):
            return Decision(entry, outcome="NoNodeFits")
        before, hopeless = dict(self._capacities), set(self._hopeless)
        placements = self._place_all(entry, able)
        if len(placements) == len(entry.members):
            return Decision(entry, tuple(placements))
        if placements:  # of a gang, which gets all or nothing
            self._capacities, self._hopeless = before, hopeless
            self._largest = max((each.free for each in before.values()), default=0)
        return Decision(entry, kept_nodes=self._keep(entry, able))

    def _nodes_for(self, entry: Entry, member: Member) -> tuple[str, ...] | None:
        """The nodes that a pod can go to, whatever they have free; None where that is too much to look at."""
        known = self._fits.get(member.constraints)
        if known is None:
            self._work[entry.namespace] += member.constraints.size * len(self._capacities)
            if self._work[entry.namespace] > WORK_MAX:
                return None
            nodes = ((name, capacity.node) for name, capacity in self._capacities.items())
            known = tuple(name for name, node in nodes if node is not None and node_fits(member.constraints, node))
            self._fits[member.constraints] = known
        return known

    def _able(self, member: Member, nodes: Iterable[str]) -> tuple[str, ...]:
        """Those of the nodes that have enough cards, in use or not."""
        return tuple(name for name in nodes if self._capacities[name].total >= member.units)

    def _total(self, able: Mapping[Member, Iterable[str]]) -> int:
        """Slots of all nodes that any of these pods can go to."""
        return sum(self._capacities[name].total for name in {name for nodes in able.values() for name in nodes})

    def _place_all(self, entry: Entry, able: Mapping[Member, tuple[str, ...]]) -> list[tuple[Member, Placement]]:
        """Place the pods of an entry, the largest first, as far as that goes."""
        found: list[tuple[Member, Placement]] = []
        for member in sorted(entry.members, key=lambda member: (-member.units, member.key)):
            placement = self._place(member, able[member])
            if placement is None:
                break
            self._set(less(self._capacities[placement.node], placement.shares))
            found.append((member, placement))
        return found

    def _place(self, member: Member, able: tuple[str, ...]) -> Placement | None:
        if member.units > self._largest or (member.units, member.constraints) in self._hopeless:
            return None  # what is free only shrinks
        here = [self._capacities[name] for name in able]
        wanted = PoolRequest(self._pool, member.units)
        found = place(here, wanted, member.constraints, self._placement, member.request_id)
        if found is None:
            self._hopeless.add((member.units, member.constraints))
        return found

    def _keep(self, entry: Entry, able: Mapping[Member, tuple[str, ...]]) -> tuple[str, ...]:
        """Keep free slots for an entry that has waited long enough: those of the emptiest nodes that can suffice."""
        if self._holds <= 0:
            return ()
        since = _created(entry, self._now) + self._policy.hold_after
        if since > self._now:
            self.next_hold = min(self.next_hold, since)
            return ()
        self._holds -= 1
        nodes = {name for nodes in able.values() for name in nodes}
        kept, covered = list[str](), 0
        for name in sorted(nodes, key=lambda name: (self._capacities[name].free, name), reverse=True):
            if covered >= entry.units:
                break
            kept.append(name)
            covered += self._capacities[name].total
        for name in kept:
            self._set(replace(self._capacities[name], free=0, free_cards=()))
        return tuple(kept)

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
