"""Chooses a node and cards for a pod. Pure: a seed, the request's id, takes the place of chance.

Nodes whose free cards are near enough to each other for the pod come before those where it would be
split (`webhook.decision.topology`): how full a node is decides among nodes that are as good in that. Then Spread
takes the emptiest node, BinPack that with the least room that suffices, and on the node the nearest cards
are taken. Before all that Spread takes the emptiest topology domain. Equals are ordered by the seed, so
that several replicas, which see the same free cards, do not all run for the first one.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal
from zlib import crc32

from controllers.api import names
from controllers.domain import waiting as queue
from controllers.domain.fits import Wants, fits
from webhook.decision import topology
from webhook.decision.topology import CardOption

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    from controllers.api.gpudevice import GPUDevice
    from controllers.api.kube import Node
    from controllers.domain.slots import NodeSlots
    from controllers.domain.waiting import Waiting
    from webhook.decision.records import PoolRequest
    from webhook.decision.topology import CardLocation

Strategy = Literal["Spread", "BinPack"]
PENDING_WORK_MAX = 100_000
"""Labels, expressions, values and tolerations of pods that wait which one review holds against nodes: tens of ms."""


@dataclass(frozen=True, slots=True)
class FreeCard:
    """A card with free slots."""

    device: GPUDevice
    free: int


@dataclass(frozen=True, slots=True)
class NodeCapacity:
    """A pool's cards on one node, less what requests in flight hold."""

    node: Node | None
    slots: NodeSlots
    free_cards: tuple[FreeCard, ...]
    free: int
    taken: int
    total: int
    in_flight: int
    locations: Mapping[str, CardLocation]
    """Where each card sits, by name."""
    locality: tuple[int, int]
    """The most free slots in one NVLink group, and on one NUMA node."""
    reserved_for_pending: int = 0
    """Free slots that are left for pods that wait longer; `free` is without them."""


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


def node_capacity(node: Node | None, slots: NodeSlots, held: Mapping[str, Mapping[str, int]]) -> NodeCapacity:
    """Take requests in flight (card → request → slots) off what is free on a node.

    A request whose reservation the card already shows is not counted twice.
    """
    free_cards, in_flight = [], 0
    for card in slots.cards:
        shown = {reservation.request_id for reservation in card.device.status.reservations}
        waiting = sum(units for request, units in held.get(card.device.name, {}).items() if request not in shown)
        in_flight += waiting
        if card.free > waiting:
            free_cards.append(FreeCard(card.device, card.free - waiting))
    total = sum(card.slots for card in slots.cards)
    taken = slots.taken + in_flight
    free = slots.offered(max(0, sum(card.free for card in free_cards) - slots.overflow - slots.displaced), taken)
    locations = topology.locations(card.device for card in slots.cards)
    locality = _locality(free_cards, locations)
    return NodeCapacity(node, slots, tuple(free_cards), free, taken, total, in_flight, locations, locality)


def candidate_nodes(
    capacities: Iterable[NodeCapacity], ask: PoolRequest, wants: Wants, rules: PlacementPolicy, seed: str
) -> list[tuple[Node, NodeCapacity]]:
    """Nodes that have room and that the pod can go to, the best first."""
    everything = list(capacities)
    label = names.pool_node_label(ask.pool)
    possible = [
        (node, entry)
        for entry in everything
        if entry.free >= ask.units and (node := entry.node) is not None
        if label in node.metadata.labels and fits(wants, node)
    ]
    possible.sort(key=_rank(everything, ask.units, rules, seed))
    return possible


def _rank(
    capacities: list[NodeCapacity], units: int, rules: PlacementPolicy, seed: str
) -> Callable[[tuple[Node, NodeCapacity]], tuple[float, float, float, int]]:
    """The order of candidates: smaller is better."""
    if rules.strategy == "BinPack":
        return lambda item: (_distance(item[1], units), item[1].free, -item[1].taken, _tie_break(seed, item[0].name))
    taken: dict[str, int] = defaultdict(int)
    total: dict[str, int] = defaultdict(int)
    for entry in capacities:
        domain = entry.node.metadata.labels.get(rules.topology_key, "") if entry.node else ""
        taken[domain] += entry.taken
        total[domain] += entry.total

    shares = {domain: taken[domain] / slots for domain, slots in total.items() if slots}

    def rank(item: tuple[Node, NodeCapacity]) -> tuple[float, float, float, int]:
        node, entry = item
        domain = node.metadata.labels.get(rules.topology_key, "")
        return shares[domain], _distance(entry, units), entry.taken / entry.total, _tie_break(seed, node.name)

    return rank


def _distance(entry: NodeCapacity, units: int) -> int:
    """How far apart the cards for so many slots would be: 0 in one NVLink group, 1 on one NUMA node, 2 anywhere."""
    linked, local = entry.locality
    return 0 if linked >= units else 1 if local >= units else 2


def pick_cards(node: str, entry: NodeCapacity, units: int, rules: PlacementPolicy, seed: str) -> Placement | None:
    """Cards of a node for so many slots; None where it has not enough."""
    if entry.free < units:
        return None
    locations = entry.locations
    sign = 1 if rules.strategy == "BinPack" else -1
    rooms = [
        CardOption(
            card.device.name,
            card.free,
            (sign * card.free, _tie_break(seed, card.device.name)),
            locations[card.device.name],
        )
        for card in entry.free_cards
    ]
    found, shares = {card.device.name: card.device for card in entry.free_cards}, []
    for room in topology.nearest(
        rooms, ((locations[card.device.name], card.slots) for card in entry.slots.cards), units
    ):
        take = min(units, room.free)
        shares.append(Share(found[room.card], take))
        units -= take
        if units == 0:
            return Placement(node, tuple(shares))
    return None


def reserve_for_pending(capacities: Iterable[NodeCapacity], waiting: Iterable[Waiting]) -> list[NodeCapacity]:
    """The same nodes less what pods that wait longer can use, as far as `KEEP_WORK` lets them be looked at."""
    entries = {entry.slots.node: entry for entry in capacities}
    there = (queue.Room(entry.node, entry.free, entry.total) for entry in entries.values() if entry.node is not None)
    rooms = queue.Rooms(there, PENDING_WORK_MAX)
    for pod in waiting:
        if not rooms:
            break
        if (room := rooms.take(pod)) is None:
            continue
        entry, units = entries[room.node.name], min(pod.units, room.free)
        entries[room.node.name] = replace(
            entry, free=entry.free - units, reserved_for_pending=entry.reserved_for_pending + units
        )
    return list(entries.values())


def without_cards(capacities: Iterable[NodeCapacity], cards: Collection[str]) -> list[NodeCapacity]:
    """The same nodes without some cards, which turned out not to be there."""
    return [_without_cards_of(entry, cards) for entry in capacities]


def _without_cards_of(entry: NodeCapacity, cards: Collection[str]) -> NodeCapacity:
    left = tuple(card for card in entry.free_cards if card.device.name not in cards)
    if len(left) == len(entry.free_cards):
        return entry
    free = max(0, sum(card.free for card in left) - entry.slots.overflow - entry.slots.displaced)
    free = entry.slots.offered(free, entry.taken)
    return replace(entry, free_cards=left, free=free, locality=_locality(left, entry.locations))


def _locality(free_cards: Iterable[FreeCard], locations: Mapping[str, CardLocation]) -> tuple[int, int]:
    return topology.locality((locations[card.device.name], card.free) for card in free_cards)


def _tie_break(seed: str, name: str) -> int:
    return crc32(f"{seed}{name}".encode())
