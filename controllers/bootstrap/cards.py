"""From what is known of a node's cards to their condition Faulted, their health and what people are told. Pure.

A card is faulted because it is gone, because its telemetry says so, or because a validator finds fault with it
alone, in this order. Each is shown of that card, so no fuse keeps it in service (ADR 0026).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from controllers.api import conditions as kinds
from controllers.api import names
from controllers.api.conditions import Finding, said
from controllers.api.record import to_json
from controllers.api.resources import GPUDEVICE
from controllers.bootstrap.health import judge
from controllers.bootstrap.health.signs import CardFault
from controllers.bootstrap.health.writing import telemetry, worth_writing
from controllers.bootstrap.situation import fails, verdict
from controllers.domain.clock import stamp
from controllers.domain.position import is_lost
from controllers.domain.wording import sentence
from controllers.runtime.plan import Apply, EmitEvent, Merge, ref

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from controllers.api.gpudevice import DeviceHealth, Fault, FaultEnd
    from controllers.api.meta import Condition
    from controllers.bootstrap.health.limits import Limits
    from controllers.bootstrap.health.signs import Memory
    from controllers.bootstrap.health.view import CardNews
    from controllers.bootstrap.observe import ObservedNode
    from controllers.bootstrap.records import Card
    from controllers.runtime.plan import Action

LOST: Final = "CardLost"
BACK: Final = "CardBack"
"""Of a card that was gone."""
VALIDATION_FAILED: Final = "ValidationFailed"
VALIDATED: Final = "Validated"
REASONS: Final = (*judge.REASONS, LOST, BACK, VALIDATION_FAILED, VALIDATED)
"""Every reason of the condition Faulted."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the condition Faulted should say of a card, and the fields beside it."""

    finding: Finding
    fault: Fault | None = None
    end: FaultEnd | None = None


_AWAY: Final = "No new pod gets the card until it is healthy again; pods that have it keep it"


def plan(seen: ObservedNode, roles: Sequence[str], limits: Limits, now: float) -> Iterator[Action]:
    """Tell of every card what has changed."""
    for card in seen.devices:
        news = _news(seen, card)
        recorded = kinds.find(card.status.conditions, kinds.FAULTED)
        found = _wanted(seen, card, roles)
        made = _condition(card, found.finding, now) if found is not None else recorded
        health = _health(card, news.memory if news else None, limits, now)
        fields = (found.fault, found.end) if found is not None else (card.status.fault, card.status.fault_end)
        if made != recorded or (health, *fields) != (card.status.health, card.status.fault, card.status.fault_end):
            yield Apply(ref(GPUDEVICE, card), {"status": _status(made, health, *fields)}, "status")
            yield from _told(card, recorded, made)
        elif card.metadata.annotations.get(names.RETURN) == "true":
            yield from _obeyed(card, made, is_obeyed=fields == (None, "ByHand"))
        for warning in news.warnings if news else ():
            yield EmitEvent(ref(GPUDEVICE, card), "Warning", names.EVENT_DEVICE_WARNING, warning)


def _news(seen: ObservedNode, card: Card) -> CardNews | None:
    return seen.telemetry.cards.get(card.name) if seen.telemetry else None


def _wanted(seen: ObservedNode, card: Card, roles: Sequence[str]) -> Verdict | None:
    """What the condition should say; None where nothing can be said."""
    if (fault := _fault(seen, card, roles)) is not None:
        return Verdict(fault.finding, fault.kind)
    over, news = _over(card), _news(seen, card)
    if news is None or news.memory.finding is None:
        return over
    # How the last fault ended telemetry knows, or, where that was another's verdict, the status.
    return Verdict(news.memory.finding, end=news.memory.end or (over.end if over else card.status.fault_end))


def _fault(seen: ObservedNode, card: Card, roles: Sequence[str]) -> CardFault | None:
    """What keeps the card out of service."""
    if is_lost(card.status):
        return CardFault(LOST, f"card {card.status.inventory_id} is gone from node {seen.name} while it is in a pool")
    news = _news(seen, card)
    if news is not None and news.memory.fault is not None:
        return news.memory.fault
    for role in roles:
        told = verdict(seen, role)
        if told is not None and fails(told, card):
            message = f"the {role} check of node {seen.name} finds fault with the card alone: {told.message}"
            return CardFault(VALIDATION_FAILED, message)
    return _unheard(seen, card, roles)


def _unheard(seen: ObservedNode, card: Card, roles: Sequence[str]) -> CardFault | None:
    """What a validator found with the card, where none has looked since the node started or its report went."""
    recorded = judge.standing(card.status)
    if recorded is None or recorded.kind != VALIDATION_FAILED or not roles:
        return None
    return recorded if all(verdict(seen, role) is None for role in roles) else None


def _over(card: Card) -> Verdict | None:
    """Nothing is said of the card any more, and something was: then that is over."""
    recorded = judge.standing(card.status)
    if recorded is None:
        return None
    if recorded.kind == LOST:
        message = f"card {card.status.inventory_id} is back in node {card.status.node_name}"
        return Verdict(Finding(False, BACK, message), end="Back")
    if recorded.kind == VALIDATION_FAILED:
        return Verdict(Finding(False, VALIDATED, "no validator finds fault with the card any more"), end="Validated")
    return None


def _condition(card: Card, found: Finding, now: float) -> Condition:
    generation = card.metadata.generation
    return said(card.status.conditions, kinds.FAULTED, found, now=stamp(now), generation=generation)


def _health(card: Card, heard: Memory | None, limits: Limits, now: float) -> DeviceHealth | None:
    """What to record: what crossed a threshold, else what is recorded. One apply owns all of it."""
    new = worth_writing(card.status.health, telemetry(heard), limits, now) if heard is not None else None
    return card.status.health if new is None else new


def _status(
    made: Condition | None, health: DeviceHealth | None, fault: Fault | None, end: FaultEnd | None
) -> dict[str, Any]:
    status: dict[str, Any] = {"conditions": [to_json(made)]} if made is not None else {}
    status |= {"health": to_json(health)} if health is not None else {}
    return status | {key: value for key, value in (("fault", fault), ("faultEnd", end)) if value is not None}


def _told(card: Card, recorded: Condition | None, made: Condition | None) -> Iterator[Action]:
    """Events for people when a card goes, or comes back."""
    was, now = (one.status if one else "False" for one in (recorded, made))
    if made is None:
        return
    text, see = sentence(f"{made.reason}: {made.message}"), f"kubectl describe gpudevice {card.name}"
    if now == "True" and was != "True":
        yield EmitEvent(ref(GPUDEVICE, card), "Warning", names.EVENT_DEVICE_FAULTED, f"{text} {_AWAY}: {see}")
    elif now == "False" and was == "True":
        yield EmitEvent(ref(GPUDEVICE, card), "Normal", names.EVENT_DEVICE_RECOVERED, text)


def _obeyed(card: Card, made: Condition | None, *, is_obeyed: bool) -> Iterator[Action]:
    """A person's command is removed when nothing is left to write of what it did, or could not do."""
    about = ref(GPUDEVICE, card)
    yield Merge(about, card.metadata.resource_version, {"metadata": {"annotations": {names.RETURN: None}}})
    if not is_obeyed:
        why = f"{made.reason}: {made.message}" if made is not None and made.status == "True" else "it is not faulted"
        text = sentence(f"{names.RETURN} changes nothing: {why}")
        see = f"What keeps the card out is in its conditions: kubectl describe gpudevice {card.name}"
        yield EmitEvent(about, "Warning", names.EVENT_RETURN_IGNORED, f"{text} {see}")
