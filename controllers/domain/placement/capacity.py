"""What a pool has free on each node, less what is on its way to the API server. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from controllers.domain import near

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from controllers.api.gpudevice import GPUDevice
    from controllers.api.kube import Node
    from controllers.domain.near import CardLocation, Locality
    from controllers.domain.placement.choice import Share
    from controllers.domain.slots import NodeSlots


@dataclass(frozen=True, slots=True)
class FreeCard:
    """A card with free slots."""

    device: GPUDevice
    free: int


@dataclass(frozen=True, slots=True)
class NodeCapacity:
    """A pool's cards on one node, and its slots there, less reservations in flight."""

    node: Node | None
    slots: NodeSlots
    free_cards: tuple[FreeCard, ...]
    free: int
    taken: int
    total: int
    in_flight: int
    locations: Mapping[str, CardLocation]
    """Where each card sits, by name."""
    locality: Locality
    """The most free slots in one group of each level of nearness."""
    reserved_for_pending: int = 0
    """Free slots that are left for pending pods; `free` is without them."""


def node_capacity(node: Node | None, slots: NodeSlots, flying: Mapping[str, Mapping[str, int]]) -> NodeCapacity:
    """What a node has free, less reservations that are on their way to the API server (card → request → slots).

    A request whose reservation the card already shows is not counted twice.
    """
    free_cards, in_flight = [], 0
    for card in slots.cards:
        shown = {reservation.request_id for reservation in card.device.status.reservations}
        pending = sum(units for request, units in flying.get(card.device.name, {}).items() if request not in shown)
        in_flight += pending
        if card.free > pending:
            free_cards.append(FreeCard(card.device, card.free - pending))
    total = sum(card.slots for card in slots.cards)
    taken = slots.taken + in_flight
    free = slots.offered(max(0, sum(card.free for card in free_cards) - slots.overflow - slots.displaced), taken)
    locations = near.locations(card.device for card in slots.cards)
    locality = _locality(free_cards, locations)
    return NodeCapacity(node, slots, tuple(free_cards), free, taken, total, in_flight, locations, locality)


def subtract_shares(capacity: NodeCapacity, shares: Collection[Share]) -> NodeCapacity:
    """A node less what is given of its cards."""
    given = {share.device.name: share.slots for share in shares}
    left = tuple(
        FreeCard(card.device, rest)
        for card in capacity.free_cards
        if (rest := card.free - given.get(card.device.name, 0)) > 0
    )
    units = sum(given.values())
    return replace(
        capacity,
        free_cards=left,
        free=max(0, capacity.free - units),
        taken=capacity.taken + units,
        locality=_locality(left, capacity.locations),
    )


def without_cards(capacities: Iterable[NodeCapacity], cards: Collection[str]) -> list[NodeCapacity]:
    """The same nodes without some cards, which turned out not to be there."""
    return [_without_cards_of(capacity, cards) for capacity in capacities]


def _without_cards_of(capacity: NodeCapacity, cards: Collection[str]) -> NodeCapacity:
    left = tuple(card for card in capacity.free_cards if card.device.name not in cards)
    if len(left) == len(capacity.free_cards):
        return capacity
    free = max(0, sum(card.free for card in left) - capacity.slots.overflow - capacity.slots.displaced)
    free = capacity.slots.offered(free, capacity.taken)
    return replace(capacity, free_cards=left, free=free, locality=_locality(left, capacity.locations))


def _locality(free_cards: Iterable[FreeCard], locations: Mapping[str, CardLocation]) -> Locality:
    return near.locality((locations[card.device.name], card.free) for card in free_cards)
