"""The verdict on a card's health: the condition Faulted from its telemetry, or from its silence. Pure.

A card is faulted by an event (a new critical XID, a rising count of double-bit errors) or by a state that
lasts (heat, rows that cannot be remapped). It returns by itself after clean scrapes in a row and a passed
validation, or at once when a person says so. Messages change only with the verdict: they are written to status.

Evaluating twice changes nothing: what samples showed is taken once (`CardHealthState.unread`), and a caller that
remembers neither state nor verdict, to look only whether there is news, loses nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from controllers.api import names
from controllers.api.conditions import Finding
from controllers.bootstrap.health.ingest import excuse, is_silent
from controllers.bootstrap.telemetry_records import (
    EVENTS,
    FAULTS,
    OVERHEATED,
    REMAP_FAILURE,
    CardHealthState,
    CardVerdict,
)

if TYPE_CHECKING:
    from controllers.api.gpudevice import Fault
    from controllers.bootstrap.health.limits import Limits

HEALTHY: Final = "Healthy"
RECOVERED: Final = "Recovered"
RETURNED: Final = "ReturnedByHand"
NO_TELEMETRY: Final = "NoTelemetry"
REASONS: Final = (*FAULTS, HEALTHY, RECOVERED, RETURNED, NO_TELEMETRY)
"""Every reason that this package gives the condition Faulted."""


@dataclass(frozen=True, slots=True)
class CardEvaluation:
    """The verdict on one card, and what is to be remembered with it."""

    state: CardHealthState
    verdict: CardVerdict


def evaluate(
    state: CardHealthState,
    verdict: CardVerdict,
    limits: Limits,
    now: float,
    *,
    validated: bool,
    return_asked: bool = False,
    excused: bool = False,
) -> CardEvaluation:
    """Evaluate one card.

    `verdict` is what was concluded before, `now` in seconds since the epoch. `validated` says whether the node's
    validation passes; `return_asked`, that a person wants the card back; `excused`, that nobody expects telemetry.
    """
    if return_asked and verdict.fault is not None:
        state, verdict = _return_by_hand(state, verdict)
    if excused:
        state = excuse(state, now)
    if state.has_new_sample:
        made = _conclude(state, verdict, limits, validated=validated)
        return CardEvaluation(replace(state, has_new_sample=False, pending=None), made)
    return CardEvaluation(state, _without_telemetry(verdict, limits) if is_silent(state, limits, now) else verdict)


def _conclude(state: CardHealthState, verdict: CardVerdict, limits: Limits, *, validated: bool) -> CardVerdict:
    """The verdict where samples came."""
    fault, pending = verdict.fault, state.pending
    if pending is not None and (fault is None or pending.kind in EVENTS):
        return CardVerdict(pending.finding, pending)
    if fault is None:
        finding = _finding_of_healthy(state, verdict)
        return verdict if finding is verdict.finding else CardVerdict(finding, end=verdict.end)
    if validated and _clean_scrapes(state, fault.kind) >= limits.recovery_scrapes:
        text = f"{limits.recovery_scrapes} clean scrapes and a passed validation after: {fault.text}"
        return CardVerdict(Finding(False, RECOVERED, text), end="CleanScrapes")
    return replace(verdict, finding=fault.finding)


def _clean_scrapes(state: CardHealthState, fault: Fault) -> int:
    """Clean scrapes in a row; a card that was too hot must be below the lower border."""
    return min(state.clean_scrapes, state.cool_scrapes) if fault == OVERHEATED else state.clean_scrapes


def _return_by_hand(state: CardHealthState, verdict: CardVerdict) -> tuple[CardHealthState, CardVerdict]:
    """Rows that cannot be remapped stay so: who takes such a card back has accepted it."""
    fault = verdict.fault
    accepted = bool(state.remap_accepted) or (fault is not None and fault.kind == REMAP_FAILURE)
    text = f"returned by {names.RETURN}=true" + (f" after: {fault.text}" if fault else "")
    returned = CardVerdict(Finding(False, RETURNED, text), end="ByHand")
    return replace(state, pending=None, clean_scrapes=0, hot_scrapes=0, remap_accepted=accepted), returned


def _without_telemetry(verdict: CardVerdict, limits: Limits) -> CardVerdict:
    """Nothing is known after so long a silence, but a fault stays a fault."""
    if verdict.fault is not None:
        return replace(verdict, finding=verdict.fault.finding)
    text = (
        f"no telemetry of the card for {limits.missing_after:g} s: look at the node's pod of dcgm-exporter, and with "
        "nvidia-smi on the node whether the driver still sees the card"
    )
    return replace(verdict, finding=Finding(None, NO_TELEMETRY, text))


def _finding_of_healthy(state: CardHealthState, verdict: CardVerdict) -> Finding:
    """A card without a fault keeps the words that it was called well with."""
    if verdict.finding is not None and verdict.finding.status is False:
        return verdict.finding
    if state.remap_accepted:
        return Finding(False, RETURNED, f"returned by {names.RETURN}=true although its rows cannot be remapped")
    return Finding(False, HEALTHY, "the card's telemetry shows no fault")
