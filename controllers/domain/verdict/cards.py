"""What each card of a pool is to one pod, with who has it, until when, and more of the reason. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from controllers.api.conditions import CONFIGURED, find
from controllers.domain.issuing import blocked_by
from controllers.domain.lifecycle import live
from controllers.domain.verdict.card_reason import own_promise, promised_here, reason_of, reason_of_free
from controllers.domain.verdict.records import CardVerdict

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from controllers.api.gpudevice import GPUDevice
    from controllers.api.kube import Pod
    from controllers.domain.verdict.pool_cards import CardState, NodeCards
    from controllers.domain.verdict.records import Asked, CardReason


def card_verdicts(
    nodes: Mapping[str, NodeCards],
    asked: Asked,
    holders: Mapping[str, Pod],
    since: Mapping[str, str],
    now: float,
    *,
    refused: Mapping[str, str],
) -> tuple[CardVerdict, ...]:
    """Every card, by node and name.

    `refused`: why a node does not take the pod (`card_reason.refused_by`), by its name; empty where it does.
    `holders`: pods that are bound, by the inventoryID of each card that they were given; `since`: by key
    (`namespace/name`) of pods that run, since when, RFC 3339.
    """
    made = (_of_node(place, asked, holders, since, now, refused=refused[place.name]) for place in nodes.values())
    return tuple(found for each in made for found in each)


def _of_node(
    place: NodeCards, asked: Asked, holders: Mapping[str, Pod], since: Mapping[str, str], now: float, *, refused: str
) -> Iterator[CardVerdict]:
    own = promised_here(place, asked, now)
    of_free = reason_of_free(place, asked.units, own)
    for card in place.cards:
        reason = reason_of(card, asked, refused=bool(refused), of_free=of_free, now=now)
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


def _detail(reason: CardReason, card: CardState, place: NodeCards, asked: Asked, refused: str) -> str:
    status = card.device.status
    match reason:
        case "OtherPool":
            return status.pool_ref.name if status.pool_ref is not None else "in no pool"
        case "NotPublished":
            configured = find(status.conditions, CONFIGURED)
            return f"{configured.reason}" if configured is not None else ""
        case "NodeRefused":
            return refused
        case "KeptFor":
            return f"position {place.kept.position}" if place.kept and place.kept.position else "pods before it"
        case "TooFewHere":
            return f"{place.left} of {asked.units}"
        case _:
            blocking = blocked_by(card.device)
            return f"{blocking.reason}" if blocking is not None else ""


def _in_use(node: str, device: GPUDevice, holders: Mapping[str, Pod], since: Mapping[str, str]) -> CardVerdict:
    status = device.status
    if len(status.allocations) == 1 and not status.foreign_allocations:  # nearly all
        taken = status.allocations[0]
        began = since.get(f"{taken.namespace}/{taken.pod}", "")
        return CardVerdict(device.name, node, "InUse", namespace=taken.namespace, pod=taken.pod, since=began)
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
    own = own_promise(device, asked, now)
    found = own or next((each for each in device.status.reservations if live(each, now)), None)
    if found is None:  # one that is being written
        return CardVerdict(device.name, node, "Promised")
    slots = found.slots if own is not None else 0
    return CardVerdict(
        device.name, node, "Promised", slots, namespace=found.namespace, pod=found.pod, until=found.expires_at
    )
