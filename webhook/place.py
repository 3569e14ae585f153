"""Chooses a node and cards for a pod. Pure: a seed, the request's id, takes the place of chance.

Nodes whose free cards are near enough to each other for the pod come before those where it would be
split (`webhook.topology`): how full a node is decides among nodes that are as good in that. Then Spread
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
from controllers.domain.node_fit import PodConstraints, node_fits
from webhook import topology
from webhook.topology import Room

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    from controllers.api.gpudevice import GPUDevice
    from controllers.api.kube import Node
    from controllers.domain.slots import NodeSlots
    from controllers.domain.waiting import PendingPod
    from webhook.topology import Seat
    from webhook.verdict import Ask

Strategy = Literal["Spread", "BinPack"]
KEEP_WORK = 100_000
"""Labels, expressions, values and tolerations of pods that wait which one review holds against nodes: tens of ms."""


@dataclass(frozen=True, slots=True)
class Spot:
    """A card with free slots."""

    device: GPUDevice
    free: int


@dataclass(frozen=True, slots=True)
class Shelf:
    """A pool's cards on one node, less what requests in flight hold."""

    node: Node | None
    slots: NodeSlots
    spots: tuple[Spot, ...]
    free: int
    taken: int
    total: int
    held: int
    seats: Mapping[str, Seat]
    """Where each card sits, by name."""
    near: tuple[int, int]
    """The most free slots in one NVLink group, and on one NUMA node."""
    kept: int = 0
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
class Rules:
    """How a pool places."""

    strategy: Strategy
    topology_key: str


def shelf(node: Node | None, slots: NodeSlots, held: Mapping[str, Mapping[str, int]]) -> Shelf:
    """Take requests in flight (card → request → slots) off what is free on a node.

    A request whose reservation the card already shows is not counted twice.
    """
    spots, in_flight = [], 0
    for card in slots.cards:
        shown = {reservation.request_id for reservation in card.device.status.reservations}
        waiting = sum(units for request, units in held.get(card.device.name, {}).items() if request not in shown)
        in_flight += waiting
        if card.free > waiting:
            spots.append(Spot(card.device, card.free - waiting))
    total = sum(card.slots for card in slots.cards)
    taken = slots.taken + in_flight
    free = slots.offered(max(0, sum(spot.free for spot in spots) - slots.overflow - slots.displaced), taken)
    seats = topology.seats(card.device for card in slots.cards)
    near = _near(spots, seats)
    return Shelf(node, slots, tuple(spots), free, taken, total, in_flight, seats, near)


def candidates(
    shelves: Iterable[Shelf], ask: Ask, wants: PodConstraints, rules: Rules, seed: str
) -> list[tuple[Node, Shelf]]:
    """Nodes that have room and that the pod can go to, the best first."""
    everything = list(shelves)
    label = names.pool_node_label(ask.pool)
    possible = [
        (node, entry)
        for entry in everything
        if entry.free >= ask.units and (node := entry.node) is not None
        if label in node.metadata.labels and node_fits(wants, node)
    ]
    possible.sort(key=_rank(everything, ask.units, rules, seed))
    return possible


def _rank(
    shelves: list[Shelf], units: int, rules: Rules, seed: str
) -> Callable[[tuple[Node, Shelf]], tuple[float, float, float, int]]:
    """The order of candidates: smaller is better."""
    if rules.strategy == "BinPack":
        return lambda item: (_apart(item[1], units), item[1].free, -item[1].taken, _chance(seed, item[0].name))
    taken: dict[str, int] = defaultdict(int)
    total: dict[str, int] = defaultdict(int)
    for entry in shelves:
        domain = entry.node.metadata.labels.get(rules.topology_key, "") if entry.node else ""
        taken[domain] += entry.taken
        total[domain] += entry.total

    shares = {domain: taken[domain] / slots for domain, slots in total.items() if slots}

    def rank(item: tuple[Node, Shelf]) -> tuple[float, float, float, int]:
        node, entry = item
        domain = node.metadata.labels.get(rules.topology_key, "")
        return shares[domain], _apart(entry, units), entry.taken / entry.total, _chance(seed, node.name)

    return rank


def _apart(entry: Shelf, units: int) -> int:
    """How far apart the cards for so many slots would be: 0 in one NVLink group, 1 on one NUMA node, 2 anywhere."""
    linked, local = entry.near
    return 0 if linked >= units else 1 if local >= units else 2


def pick(node: str, entry: Shelf, units: int, rules: Rules, seed: str) -> Placement | None:
    """Cards of a node for so many slots; None where it has not enough."""
    if entry.free < units:
        return None
    seats = entry.seats
    sign = 1 if rules.strategy == "BinPack" else -1
    rooms = [
        Room(spot.device.name, spot.free, (sign * spot.free, _chance(seed, spot.device.name)), seats[spot.device.name])
        for spot in entry.spots
    ]
    found, shares = {spot.device.name: spot.device for spot in entry.spots}, []
    for room in topology.nearest(rooms, ((seats[card.device.name], card.slots) for card in entry.slots.cards), units):
        take = min(units, room.free)
        shares.append(Share(found[room.card], take))
        units -= take
        if units == 0:
            return Placement(node, tuple(shares))
    return None


def keep(shelves: Iterable[Shelf], waiting: Iterable[PendingPod]) -> list[Shelf]:
    """The same nodes less what pods that wait longer can use, as far as `KEEP_WORK` lets them be looked at."""
    entries = {entry.slots.node: entry for entry in shelves}
    there = (
        queue.NodeCapacity(entry.node, entry.free, entry.total) for entry in entries.values() if entry.node is not None
    )
    rooms = queue.NodeCapacities(there, KEEP_WORK)
    for pod in waiting:
        if not rooms:
            break
        if (room := rooms.take(pod)) is None:
            continue
        entry, units = entries[room.node.name], min(pod.units, room.free)
        entries[room.node.name] = replace(entry, free=entry.free - units, kept=entry.kept + units)
    return list(entries.values())


def without(shelves: Iterable[Shelf], cards: Collection[str]) -> list[Shelf]:
    """The same nodes without some cards, which turned out not to be there."""
    return [_without(entry, cards) for entry in shelves]


def _without(entry: Shelf, cards: Collection[str]) -> Shelf:
    left = tuple(spot for spot in entry.spots if spot.device.name not in cards)
    if len(left) == len(entry.spots):
        return entry
    free = max(0, sum(spot.free for spot in left) - entry.slots.overflow - entry.slots.displaced)
    free = entry.slots.offered(free, entry.taken)
    return replace(entry, spots=left, free=free, near=_near(left, entry.seats))


def _near(spots: Iterable[Spot], seats: Mapping[str, Seat]) -> tuple[int, int]:
    return topology.near((seats[spot.device.name], spot.free) for spot in spots)


def _chance(seed: str, name: str) -> int:
    return crc32(f"{seed}{name}".encode())
