"""What a GPUDevice's status tells of the card's health after a restart of the controller. Pure."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from controllers.api import formerly
from controllers.api.conditions import FAULTED, carried, find
from controllers.bootstrap.telemetry_records import FAULTS, CardFault, CardHealthState, CardVerdict

if TYPE_CHECKING:
    from controllers.bootstrap.records import CardStatus


def recall_state(recorded: CardStatus, now: float) -> CardHealthState:
    """The fold to go on with: recorded errors are no news; counts of scrapes begin anew."""
    state, health = CardHealthState(last_heard=now), recorded.health
    if health is not None:
        state = replace(
            state,
            last_xids=frozenset() if health.last_xid is None else frozenset({health.last_xid}),
            last_xid=health.last_xid,
            ecc_volatile=health.ecc_errors_total,
            temperature=health.temperature_c,
            throttled=health.throttled,
            remap_accepted=health.row_remap_failure_accepted,
        )
    return replace(state, remap_accepted=True) if _was_accepted_formerly(recorded) else state


def recall_verdict(recorded: CardStatus) -> CardVerdict:
    """The verdict that is recorded; it holds until telemetry says otherwise."""
    verdict, fault = CardVerdict(end=recorded.fault_end), fault_of(recorded)
    faulted = find(recorded.conditions, FAULTED)
    if faulted is None or (fault is not None and fault.kind not in FAULTS):
        return verdict  # that the card is gone, or fails a validation, is not telemetry's verdict
    if fault is not None:
        return replace(verdict, finding=fault.finding, fault=fault)
    end = "ByHand" if _was_accepted_formerly(recorded) else verdict.end
    return replace(verdict, finding=carried(faulted), end=end)


def fault_of(recorded: CardStatus) -> CardFault | None:
    """The fault that a card's status records, whoever found it; None where it records none."""
    faulted = find(recorded.conditions, FAULTED)
    if recorded.fault is not None and faulted is not None:
        return CardFault(recorded.fault, carried(faulted).message)
    found = formerly.fault(faulted)
    return CardFault(*found) if found is not None else None


def _was_accepted_formerly(recorded: CardStatus) -> bool:
    """Whether a version that did not record acceptance wrote that a person took the card back."""
    health, faulted = recorded.health, find(recorded.conditions, FAULTED)
    if faulted is None or fault_of(recorded) is not None:
        return False
    return (health is None or health.row_remap_failure_accepted is None) and formerly.is_returned(faulted)
