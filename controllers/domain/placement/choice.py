"""Placement of a pod: its node, and cards on it. Pure: a seed, the request's id, takes the place of chance.

Nodes whose free cards are near enough to each other for the pod come before those where it would be
split (`controllers.domain.near`): how full a node is decides among nodes that are as good in that. Then
Spread takes the emptiest node, BinPack that with the least room that suffices, and on the node the nearest cards
are taken. Before all that Spread takes the emptiest topology domain. Equals are ordered by the seed, so
that several replicas, which see the same free cards, do not all run for the first one.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal
from zlib import crc32

from controllers.api import names
from controllers.domain import near
from controllers.domain.near import CardOption
from controllers.domain.node_fit import PodConstraints, node_fits

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from controllers.api.gpudevice import GPUDevice
    from controllers.api.gpupool import GPUPool
    from controllers.api.kube import Node
    from controllers.api.settings import SchedulingSettings
    from controllers.domain.placement.capacity import NodeCapacity
    from controllers.domain.request import PoolRequest

Strategy = Literal["Spread", "BinPack"]


@dataclass(frozen=True, slots=True)
class Share:
    """Slots of one card for one pod."""

    device: GPUDevice
    slots: int


@dataclass(frozen=True, slots=True)
class Placement:
    """Where a pod's slots are reserved."""

    node: str
    shares: tuple[Share, ...]

    @property
    def devices(self) -> str:
        """The cards as the pod's annotation names them."""
        return ",".join(share.device.status.inventory_id or share.device.name for share in self.shares)


@dataclass(frozen=True, slots=True)
class PlacementPolicy:
    """How a pool places."""

    strategy: Strategy
    topology_key: str


def policy_of(pool: GPUPool, defaults: SchedulingSettings) -> PlacementPolicy:
    """The pool's strategy and topology key; what it leaves out comes from the module's settings."""
    scheduling = pool.spec.scheduling
    return PlacementPolicy(
        (scheduling.strategy if scheduling else None) or defaults.default_strategy,
        (scheduling.topology_key if scheduling else None) or defaults.topology_key,
    )


def place(
    capacities: Iterable[NodeCapacity], wanted: PoolRequest, wants: PodConstraints, policy: PlacementPolicy, seed: str
) -> Placement | None:
    """The node and the cards for a pod; None where no node has room for it."""
    for node, capacity in candidate_nodes(capacities, wanted, wants, policy, seed):
        if (placement := pick_cards(node.name, capacity, wanted.units, policy, seed)) is not None:
            return placement
    return None


def candidate_nodes(
    capacities: Iterable[NodeCapacity], wanted: PoolRequest, wants: PodConstraints, policy: PlacementPolicy, seed: str
) -> list[tuple[Node, NodeCapacity]]:
    """Nodes that have room and that the pod can go to, the best first."""
    every = list(capacities)
    label = names.pool_node_label(wanted.pool)
    possible = [
        (node, capacity)
        for capacity in every
        if capacity.free >= wanted.units and (node := capacity.node) is not None
        if label in node.metadata.labels and node_fits(wants, node)
    ]
    possible.sort(key=_rank(every, wanted.units, policy, seed))
    return possible


def _rank(
    capacities: list[NodeCapacity], units: int, policy: PlacementPolicy, seed: str
) -> Callable[[tuple[Node, NodeCapacity]], tuple[float | near.Apart, ...]]:
    """The order of candidates: smaller is better."""
    if policy.strategy == "BinPack":
        return lambda item: (
            near.locality_rank(item[1].locality, units),
            item[1].free,
            -item[1].taken,
            _tie_break(seed, item[0].name),
        )
    taken: dict[str, int] = defaultdict(int)
    total: dict[str, int] = defaultdict(int)
    for capacity in capacities:
        domain = capacity.node.metadata.labels.get(policy.topology_key, "") if capacity.node else ""
        taken[domain] += capacity.taken
        total[domain] += capacity.total

    shares = {domain: taken[domain] / slots for domain, slots in total.items() if slots}

    def rank(item: tuple[Node, NodeCapacity]) -> tuple[float | near.Apart, ...]:
        node, capacity = item
        domain = node.metadata.labels.get(policy.topology_key, "")
        return (
            shares[domain],
            near.locality_rank(capacity.locality, units),
            capacity.taken / capacity.total,
            _tie_break(seed, node.name),
        )

    return rank


def pick_cards(node: str, capacity: NodeCapacity, units: int, policy: PlacementPolicy, seed: str) -> Placement | None:
    """Cards of a node for so many slots; None where it has not enough."""
    if capacity.free < units:
        return None
    locations = capacity.locations
    sign = 1 if policy.strategy == "BinPack" else -1
    options = [
        CardOption(
            card.device.name,
            card.free,
            (sign * card.free, _tie_break(seed, card.device.name)),
            locations[card.device.name],
        )
        for card in capacity.free_cards
    ]
    found, shares = {card.device.name: card.device for card in capacity.free_cards}, []
    for option in near.nearest(
        options, ((locations[card.device.name], card.slots) for card in capacity.slots.cards), units
    ):
        take = min(units, option.free)
        shares.append(Share(found[option.card], take))
        units -= take
        if units == 0:
            return Placement(node, tuple(shares))
    return None


def _tie_break(seed: str, name: str) -> int:
    return crc32(f"{seed}{name}".encode())
