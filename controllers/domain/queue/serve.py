"""Who of a pool's queue is served now: one walk over the order, which places whoever fits. Pure.

An entry that fits nowhere now is passed, so that cards do not idle (backfill); but for the first few that have waited
long enough (`queue.hold`), free slots of one node are kept, or small pods would keep one that needs many cards waiting
for ever. No more are kept than for these few: where every entry keeps what it could use, cards idle in a long queue.

The cards of a pod that ends come free one after another. What is free of them is kept, too, for an entry that fits as
soon as the last of them is: else the first ones would go to small pods each time, and a large one would never follow
a large one.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from math import inf
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Literal

from controllers.domain.clock import begun
from controllers.domain.node_fit import node_fits
from controllers.domain.placement.capacity import subtract_shares
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
    from controllers.domain.queue.supply import AwaitedSlots

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
    unlooked: bool = False
    """Whether it waits since it was too much to hold it against the nodes (`WORK_MAX`)."""


@dataclass(frozen=True, slots=True)
class _Nodes:
    """Nodes that have enough cards, in use or not, for pods that can go to them."""

    nodes: tuple[str, ...]
    total: int
    """Slots that they have in all."""


class Walk:
    """One walk over a queue, on capacities that shrink as entries are placed."""

    def __init__(
        self,
        pool: str,
        capacities: Iterable[NodeCapacity],
        policy: QueuePolicy,
        placement: PlacementPolicy,
        now: float,
        *,
        coming: Mapping[str, AwaitedSlots] = MappingProxyType({}),
    ) -> None:
        """Prepare; `now` in epoch seconds; `coming`: slots that are about to be free, by node."""
        self._pool, self._policy, self._placement, self._now = pool, policy, placement, now
        self._capacities = {capacity.slots.node: capacity for capacity in capacities if capacity.node is not None}
        self._largest = max((capacity.free for capacity in self._capacities.values()), default=0)
        self._holds, self._coming = policy.hold_pods, dict(coming)
        self._fits: dict[PodConstraints, tuple[str, ...]] = {}
        self._able: dict[tuple[int, PodConstraints], _Nodes] = {}
        self._hopeless: set[tuple[int, PodConstraints]] = set()
        self._work: Counter[str] = Counter()
        self.held: dict[str, Mapping[str, int]] = {}
        """By key of an entry for which slots are kept: how many on each node."""
        self.next_look = inf
        """Epoch seconds at which cards will be kept for a pod that waits, or not any more, though nothing changes."""

    def left(self) -> dict[str, int]:
        """Free slots by node that are given to nobody yet and kept for nobody: they shrink as the walk goes on."""
        return {name: capacity.free for name, capacity in self._capacities.items()}

    def fitting(self, constraints: PodConstraints) -> tuple[str, ...] | None:
        """The nodes to which a pod can go by its constraints; None where the walk did not come to look."""
        return self._fits.get(constraints)

    def decide(self, ranked: Ranked) -> Decision:
        """Serve the next entry of the order, or say why it waits."""
        entry = ranked.entry
        if ranked.over_limit:
            return Decision(entry, outcome="OverLimit")
        looked_at = [self._able_for(entry.namespace, member) for member in entry.members]
        able = [each for each in looked_at if each is not None]
        if len(able) < len(looked_at):
            return Decision(entry, unlooked=True)
        nodes = able[0] if len(able) == 1 else self._with_total({name for each in able for name in each.nodes})
        if not all(each.nodes for each in able) or entry.units > nodes.total:
            return Decision(entry, outcome="NoNodeFits")
        if len(able) == 1:
            placement = self._place(entry.members[0], nodes)
            placements = [] if placement is None else [(entry.members[0], placement)]
        else:
            placements = self._place_all(entry, able)
        kept = () if placements else self._keep_coming(entry, nodes) or self._keep(entry, nodes)
        return Decision(entry, tuple(placements), kept_nodes=kept)

    def _able_for(self, namespace: str, member: Member) -> _Nodes | None:
        """Where a pod can be served, whatever is free there; None where that is too much to look at."""
        kind = member.units, member.constraints
        known = self._able.get(kind)
        if known is None and (nodes := self._nodes_for(namespace, member.constraints)) is not None:
            able = (name for name in nodes if self._capacities[name].total >= member.units)
            known = self._able[kind] = self._with_total(able)
        return known

    def _nodes_for(self, namespace: str, constraints: PodConstraints) -> tuple[str, ...] | None:
        """The nodes that a pod can go to, whatever they have; None where that is too much to look at."""
        known = self._fits.get(constraints)
        if known is None:
            self._work[namespace] += constraints.size * len(self._capacities)
            if self._work[namespace] > WORK_MAX:
                return None
            nodes = ((name, capacity.node) for name, capacity in self._capacities.items())
            known = tuple(name for name, node in nodes if node is not None and node_fits(constraints, node))
            self._fits[constraints] = known
        return known

    def _with_total(self, names: Iterable[str]) -> _Nodes:
        nodes = tuple(names)
        return _Nodes(nodes, sum(self._capacities[name].total for name in nodes))

    def _place_all(self, entry: Entry, able: Iterable[_Nodes]) -> list[tuple[Member, Placement]]:
        """Place all pods of a gang, the largest first, or none."""
        before, hopeless = dict(self._capacities), set(self._hopeless)
        found: list[tuple[Member, Placement]] = []
        pods = sorted(zip(entry.members, able, strict=True), key=lambda pod: (-pod[0].units, pod[0].key))
        for member, nodes in pods:
            placement = self._place(member, nodes)
            if placement is not None:
                found.append((member, placement))
                continue
            if found:
                self._capacities, self._hopeless = before, hopeless
                self._largest = max((each.free for each in before.values()), default=0)
            return []
        return found

    def _place(self, member: Member, able: _Nodes) -> Placement | None:
        """Place a pod; what it gets is taken."""
        if member.units > self._largest or (member.units, member.constraints) in self._hopeless:
            return None  # what is free only shrinks
        here = [self._capacities[name] for name in able.nodes]
        wanted = PoolRequest(self._pool, member.units)
        found = place(here, wanted, member.constraints, self._placement, member.request_id)
        if found is None:
            self._hopeless.add((member.units, member.constraints))
        else:
            self._set(subtract_shares(self._capacities[found.node], found.shares))
        return found

    def _keep(self, entry: Entry, able: _Nodes) -> tuple[str, ...]:
        """Keep free slots for an entry that has waited long enough: those of the emptiest nodes that can suffice."""
        if self._holds <= 0:
            return ()
        since = begun(entry.created, self._now) + self._policy.hold_after
        if since > self._now:
            self.next_look = min(self.next_look, since)
            return ()
        self._holds -= 1
        kept, covered = list[str](), 0
        for name in sorted(able.nodes, key=lambda name: (self._capacities[name].free, name), reverse=True):
            if covered >= entry.units:
                break
            kept.append(name)
            covered += self._capacities[name].total
        return self._hold(entry, kept)

    def _keep_coming(self, entry: Entry, able: _Nodes) -> tuple[str, ...]:
        """Keep the free slots of a node for a pod that has room there once what is coming has come."""
        if not self._coming or len(entry.members) > 1:
            return ()
        for name in able.nodes:
            coming, free = self._coming.get(name), self._capacities[name].free
            if coming is not None and free and free + coming.slots >= entry.units:
                del self._coming[name]
                self.next_look = min(self.next_look, coming.until)
                return self._hold(entry, [name])
        return ()

    def _hold(self, entry: Entry, nodes: Iterable[str]) -> tuple[str, ...]:
        self.held[entry.key] = {name: self._capacities[name].free for name in nodes}
        for name in self.held[entry.key]:
            self._set(replace(self._capacities[name], free=0, free_cards=()))
        return tuple(self.held[entry.key])

    def _set(self, capacity: NodeCapacity) -> None:
        before = self._capacities[capacity.slots.node].free
        self._capacities[capacity.slots.node] = capacity
        if before == self._largest:
            self._largest = max(each.free for each in self._capacities.values())
