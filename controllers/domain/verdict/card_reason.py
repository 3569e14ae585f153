"""What a card is to one pod: the reason alone. Pure.

A pod adds to a card's own reason what is promised to it, what its node says to its constraints, and whether enough of
the node is left for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from controllers.domain.lifecycle import live
from controllers.domain.node_fit import names_demanded, node_fits
from controllers.domain.verdict.nodes import refused_to
from controllers.domain.verdict.records import REASONS

if TYPE_CHECKING:
    from controllers.api.gpudevice import GPUDevice, Reservation
    from controllers.domain.node_fit import PodConstraints
    from controllers.domain.verdict.pool_cards import CardState, NodeCards
    from controllers.domain.verdict.records import Asked, CardReason

_OWN: Final = frozenset(REASONS[: REASONS.index("NodeRefused")])
"""Reasons that come before what the node says of the pod."""


def reason_of(card: CardState, asked: Asked, *, refused: bool, of_free: CardReason, now: float) -> CardReason:
    """The first reason that holds. `of_free`: what a free card of the node is to the pod."""
    if (
        card.verdict not in _OWN
        and card.device.status.reservations
        and own_promise(card.device, asked, now) is not None
    ):
        return "Promised"
    return reason_of_pod(card.verdict, of_free, refused=refused)


def reason_of_pod(reason: CardReason, of_free: CardReason, *, refused: bool) -> CardReason:
    """What a card is to one pod, of which nothing is promised to it."""
    if reason in _OWN:
        return reason
    if refused:
        return "NodeRefused"
    return of_free if reason == "Free" else reason


def reason_of_free(place: NodeCards, units: int, own: int) -> CardReason:
    """What a free card of the node is to a pod that asks for so many slots, `own` of which are promised to it here."""
    wanted = max(1, units - own)
    if place.left >= wanted:
        return "Free"
    return "KeptFor" if place.kept is not None and place.free >= wanted else "TooFewHere"


def refused_by(place: NodeCards, constraints: PodConstraints) -> str:
    """Why the node takes no pod of the pool, or not this one, in the words of the verdict on the node."""
    if place.refuses or place.node is None or node_fits(constraints, place.node):
        return place.refuses
    found = refused_to(constraints, names_demanded(constraints), place.node)
    return "" if found is None else found.detail or found.messages[0]


def promised_here(place: NodeCards, asked: Asked, now: float) -> int:
    """Slots of the node that are promised to the pod itself."""
    if not asked.request_id or not place.has_promises:
        return 0
    found = (own_promise(card.device, asked, now) for card in place.cards)
    return sum(each.slots for each in found if each is not None)


def own_promise(device: GPUDevice, asked: Asked, now: float) -> Reservation | None:
    """The reservation of the card for the pod itself, while it holds."""
    if not asked.request_id or not device.status.reservations:
        return None
    found = (each for each in device.status.reservations if each.request_id == asked.request_id and live(each, now))
    return next(found, None)
