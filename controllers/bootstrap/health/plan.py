"""Writes of a node's GPUDevices: the condition Faulted, `health`, events, the annotation `return` taken away. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from controllers.api import conditions as kinds
from controllers.api import names
from controllers.api.conditions import Finding, condition_for
from controllers.api.record import to_json
from controllers.api.resources import GPUDEVICE
from controllers.bootstrap.health.faulted import faulted
from controllers.bootstrap.health.status_update import health_status, health_to_write
from controllers.domain.clock import stamp
from controllers.domain.wording import format_message
from controllers.runtime.plan import Apply, EmitEvent, Merge, ref

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from controllers.api.gpudevice import DeviceHealth, Fault, FaultEnd
    from controllers.api.meta import Condition
    from controllers.bootstrap.health.limits import Limits
    from controllers.bootstrap.health.node import NodeHealth
    from controllers.bootstrap.records import Card
    from controllers.bootstrap.telemetry_records import CardHealthState
    from controllers.bootstrap.views import ObservedNode
    from controllers.runtime.plan import Action

_AWAY: Final = "No new pod gets the card until it is healthy again; pods that have it keep it"


def plan(seen: ObservedNode, health: NodeHealth, roles: Sequence[str], limits: Limits, now: float) -> Iterator[Action]:
    """Write what has changed of each card's condition and health; `now` in seconds since the epoch."""
    for card in seen.devices:
        made = health.cards.get(card.name)
        recorded = kinds.find(card.status.conditions, kinds.FAULTED)
        found = faulted(seen, card, made, roles)
        condition = _condition(card, found.finding, now) if found is not None else recorded
        values = _health(card, made.state if made else None, limits, now)
        fields = (found.fault, found.end) if found is not None else (card.status.fault, card.status.fault_end)
        if condition != recorded or (values, *fields) != (card.status.health, card.status.fault, card.status.fault_end):
            yield Apply(ref(GPUDEVICE, card), {"status": _status(condition, values, *fields)}, "status")
            yield from _fault_events(card, recorded, condition)
        elif card.metadata.annotations.get(names.RETURN) == "true":
            yield from _remove_command(card, condition, is_obeyed=fields == (None, "ByHand"))
        for warning in made.state.warnings if made else ():
            yield EmitEvent(ref(GPUDEVICE, card), "Warning", names.EVENT_DEVICE_WARNING, warning)


def _condition(card: Card, found: Finding, now: float) -> Condition:
    generation = card.metadata.generation
    return condition_for(card.status.conditions, kinds.FAULTED, found, now=stamp(now), generation=generation)


def _health(card: Card, state: CardHealthState | None, limits: Limits, now: float) -> DeviceHealth | None:
    """What to record: what crossed a threshold, else what is recorded. One apply owns all of it."""
    new = health_to_write(card.status.health, health_status(state), limits, now) if state is not None else None
    return card.status.health if new is None else new


def _status(
    made: Condition | None, health: DeviceHealth | None, fault: Fault | None, end: FaultEnd | None
) -> dict[str, Any]:
    status: dict[str, Any] = {"conditions": [to_json(made)]} if made is not None else {}
    status |= {"health": to_json(health)} if health is not None else {}
    return status | {key: value for key, value in (("fault", fault), ("faultEnd", end)) if value is not None}


def _fault_events(card: Card, recorded: Condition | None, made: Condition | None) -> Iterator[Action]:
    """Events for people when a card goes, or comes back."""
    was, now = (one.status if one else "False" for one in (recorded, made))
    if made is None:
        return
    text, see = format_message(f"{made.reason}: {made.message}"), f"kubectl describe gpudevice {card.name}"
    if now == "True" and was != "True":
        yield EmitEvent(ref(GPUDEVICE, card), "Warning", names.EVENT_DEVICE_FAULTED, f"{text} {_AWAY}: {see}")
    elif now == "False" and was == "True":
        yield EmitEvent(ref(GPUDEVICE, card), "Normal", names.EVENT_DEVICE_RECOVERED, text)


def _remove_command(card: Card, made: Condition | None, *, is_obeyed: bool) -> Iterator[Action]:
    """A person's command is removed when nothing is left to write of what it did, or could not do."""
    about = ref(GPUDEVICE, card)
    yield Merge(about, card.metadata.resource_version, {"metadata": {"annotations": {names.RETURN: None}}})
    if not is_obeyed:
        why = f"{made.reason}: {made.message}" if made is not None and made.status == "True" else "it is not faulted"
        text = format_message(f"{names.RETURN} changes nothing: {why}")
        see = f"What keeps the card out is in its conditions: kubectl describe gpudevice {card.name}"
        yield EmitEvent(about, "Warning", names.EVENT_RETURN_IGNORED, f"{text} {see}")
