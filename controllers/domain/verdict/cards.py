"""What each card of a pool is to one pod, and the same in numbers. Pure."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from controllers.api.conditions import CONFIGURED, find
from controllers.domain.lifecycle import live
from controllers.domain.node_fit import unmet, untolerated
from controllers.domain.slots import blocked_by
from controllers.domain.verdict.pool_cards import spelled_taint
from controllers.domain.verdict.records import REASONS, CardVerdict, Room, Summary

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from controllers.api.gpudevice import GPUDevice, Reservation
    from controllers.api.kube import Pod
    from controllers.domain.node_fit import PodConstraints
    from controllers.domain.verdict.pool_cards import CardState, NodeCards
    from controllers.domain.verdict.records import Asked, CardReason

_OWN: Final = frozenset(REASONS[: REASONS.index("NodeRefused")])
"""Reasons that come before what the node says of the pod."""


def card_verdicts(
    nodes: Mapping[str, NodeCards], asked: Asked, holders: Mapping[str, Pod], since: Mapping[str, str], now: float
) -> tuple[CardVerdict, ...]:
    """Every card, by node and name.

    `holders`: pods that are bound, by the inventoryID of each card that they were given; `since`: by key
    (`namespace/name`) of pods that run, since when, RFC 3339.
    """
    return tuple(found for place in nodes.values() for found in _of_node(place, asked, holders, since, now))


def summarize(nodes: Mapping[str, NodeCards], asked: Asked, now: float) -> Summary:
    """The verdicts in numbers: as many as `card_verdicts` names."""
    cards: Counter[CardReason] = Counter()
    for place in nodes.values():
        own = _promised_here(place, asked, now)
        refused, of_free = _refused(place, asked.constraints), _of_free(place, asked.units, own)
        cards.update(_reason(card, asked, refused=bool(refused), of_free=of_free, now=now) for card in place.cards)
    return Summary(asked.units, room(nodes), {reason: cards[reason] for reason in REASONS if cards[reason]})


def room(nodes: Mapping[str, NodeCards]) -> Room:
    """What the nodes have left."""
    there = nodes.values()
    return Room(
        total=sum(place.total for place in there),
        free=sum(place.left for place in there),
        most=max((place.left for place in there), default=0),
        kept=sum(place.free - place.left for place in there),
        most_with_kept=max((place.free for place in there), default=0),
    )


def _of_node(
    place: NodeCards, asked: Asked, holders: Mapping[str, Pod], since: Mapping[str, str], now: float
) -> Iterator[CardVerdict]:
    own = _promised_here(place, asked, now)
    refused, of_free = _refused(place, asked.constraints), _of_free(place, asked.units, own)
    for card in place.cards:
        reason = _reason(card, asked, refused=bool(refused), of_free=of_free, now=now)
        device = card.device
        match reason:
            case "InUse":
                yield _in_use(place.name, device, holders, since)
            case "Promised":
                yield _promised(place.name, device, asked, now)
            case _:
                detail = _detail(reason, card, place, asked, refused)
                slots = card.free if reason in ("KeptFor", "TooFewHere", "Free") else 0
                yield CardVerdict(device.name, place.name, reason, slots, detail=detail)


def _reason(card: CardState, asked: Asked, *, refused: bool, of_free: CardReason, now: float) -> CardReason:
    """The first reason that holds. `of_free`: what a free card of the node is to the pod."""
    if card.reason in _OWN:
        return card.reason
    if _own_promise(card.device, asked, now) is not None:
        return "Promised"
    if refused:
        return "NodeRefused"
    return of_free if card.reason == "Free" else card.reason


def _of_free(place: NodeCards, units: int, own: int) -> CardReason:
    """What a free card of the node is to a pod that asks for so many slots, `own` of which are promised to it here."""
    wanted = max(1, units - own)
    if place.left >= wanted:
        return "Free"
    return "KeptFor" if place.kept is not None and (place.free >= wanted or not place.left) else "TooFewHere"


def _refused(place: NodeCards, constraints: PodConstraints) -> str:
    """Why the node takes no pod of the pool, or not this one: the first that the scheduler would come to, in words."""
    if place.refuses or place.node is None:
        return place.refuses
    first = next(iter(unmet(constraints, place.node)), "")
    taint = untolerated(constraints, place.node) if first == "taints" else None
    return spelled_taint(taint) if taint is not None else first


def _detail(reason: CardReason, card: CardState, place: NodeCards, asked: Asked, refused: str) -> str:
    status = card.device.status
    match reason:
        case "OtherPool":
            return status.pool_ref.name if status.pool_ref is not None else "in no pool"
        case "NotPublished":
            configured = find(status.conditions, CONFIGURED)
            return configured.reason if configured is not None else ""
        case "NodeRefused":
            return refused
        case "KeptFor":
            return f"position {place.kept.position}" if place.kept and place.kept.position else "pods before it"
        case "TooFewHere":
            return f"{place.left} of {asked.units}"
        case _:
            blocking = blocked_by(card.device)
            return blocking.reason if blocking is not None else ""


def _in_use(node: str, device: GPUDevice, holders: Mapping[str, Pod], since: Mapping[str, str]) -> CardVerdict:
    status = device.status
    users = dict.fromkeys((taken.namespace, taken.pod) for taken in status.allocations)
    foreign = dict.fromkeys((taken.namespace, taken.pod) for taken in status.foreign_allocations)
    detail = f"by {status.foreign_allocations[0].resource}" if foreign and not users else ""
    every = [*users, *(user for user in foreign if user not in users)]
    pod = holders.get(status.inventory_id or "")
    if not every and pod is not None:
        every = [(pod.metadata.namespace or "", pod.name)]
    if not every:
        return CardVerdict(device.name, node, "InUse")
    namespace, name = every[0]
    more = f"and {len(every) - 1} more" if len(every) > 1 else ""
    began = since.get(f"{namespace}/{name}", "")
    return CardVerdict(
        device.name,
        node,
        "InUse",
        namespace=namespace,
        pod=name,
        since=began,
        detail=" ".join(filter(None, (detail, more))),
    )


def _promised(node: str, device: GPUDevice, asked: Asked, now: float) -> CardVerdict:
    own = _own_promise(device, asked, now)
    found = own or next((each for each in device.status.reservations if live(each, now)), None)
    if found is None:  # one that is being written
        return CardVerdict(device.name, node, "Promised")
    slots = found.slots if own is not None else 0
    return CardVerdict(
        device.name, node, "Promised", slots, namespace=found.namespace, pod=found.pod, until=found.expires_at
    )


def _promised_here(place: NodeCards, asked: Asked, now: float) -> int:
    """Slots of the node that are promised to the pod itself."""
    if not asked.request_id:
        return 0
    found = (_own_promise(card.device, asked, now) for card in place.cards if card.device.status.reservations)
    return sum(each.slots for each in found if each is not None)


def _own_promise(device: GPUDevice, asked: Asked, now: float) -> Reservation | None:
    if not asked.request_id or not device.status.reservations:
        return None
    found = (each for each in device.status.reservations if each.request_id == asked.request_id and live(each, now))
    return next(found, None)
