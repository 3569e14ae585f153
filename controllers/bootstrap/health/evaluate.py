"""From what was known of a card and its new sample, or silence, to its condition Faulted. Pure.

A card is faulted by an event (a new critical XID, a rising count of double-bit errors) or by a state that
lasts (heat, rows that cannot be remapped). It returns by itself after clean scrapes in a row and a passed
validation, or at once when a person says so. Messages change only with the verdict: they are written to status.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from controllers.api import formerly, names
from controllers.api.conditions import FAULTED, Finding, carried, find
from controllers.bootstrap.health.ingest import FAULTS, REMAP_FAILURE, CardFault, Memory, hear
from controllers.bootstrap.health.xid_catalog import TABLE, Table

if TYPE_CHECKING:
    from controllers.bootstrap.health.dcgm_parser import CardSample
    from controllers.bootstrap.health.limits import Limits
    from controllers.bootstrap.records import CardStatus

HEALTHY: Final = "Healthy"
RECOVERED: Final = "Recovered"
RETURNED: Final = "ReturnedByHand"
NO_TELEMETRY: Final = "NoTelemetry"
REASONS: Final = (*FAULTS, HEALTHY, RECOVERED, RETURNED, NO_TELEMETRY)
"""Every reason that this package gives the condition Faulted."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """What is known of the card now, and what to tell."""

    memory: Memory
    warnings: tuple[str, ...] = ()
    """Errors that do not fault the card; each is told once, as an event."""
    returned: bool = False
    """Whether a fault ended because a person said so."""

    @property
    def finding(self) -> Finding | None:
        """The condition Faulted: True, False, or Unknown (None); no finding while nothing can be said."""
        return self.memory.finding


def remember(recorded: CardStatus, now: float) -> Memory:
    """What a card's status tells after a restart of ours: its verdict holds, and old errors are no news."""
    memory, health = Memory(since=now, end=recorded.fault_end), recorded.health
    if health is not None:
        memory = replace(
            memory,
            gauge=frozenset() if health.last_xid is None else frozenset({health.last_xid}),
            last_xid=health.last_xid,
            ecc_volatile=health.ecc_errors_total,
            temperature=health.temperature_c,
            throttled=health.throttled,
            remap_accepted=health.row_remap_failure_accepted,
        )
    faulted, fault = find(recorded.conditions, FAULTED), standing(recorded)
    if faulted is None or (fault is not None and fault.kind not in FAULTS):
        return memory  # that the card is gone, or fails a validation, is others' verdict
    if fault is not None:
        return replace(memory, finding=fault.finding, fault=fault)
    if memory.remap_accepted is None and formerly.is_returned(faulted):
        memory = replace(memory, remap_accepted=True, end="ByHand")
    return replace(memory, finding=carried(faulted))


def judge(
    memory: Memory,
    sample: CardSample | None,
    limits: Limits,
    now: float,
    *,
    validated: bool,
    return_asked: bool = False,
    suspended: bool = False,
    table: Table = TABLE,
) -> Judgement:
    """Judge one card.

    Call it with each scrape of its node (`sample` None where the text does not name the card), and with None when a
    scrape failed or time has passed. `validated` says whether the node's validation passes; `suspended`, that
    nobody expects telemetry because of MIG work.
    """
    returned = return_asked and memory.fault is not None
    if returned:
        memory = _by_hand(memory)
    if sample is None:
        return Judgement(_silent(memory, limits, now, suspended=suspended), (), returned)
    signs = hear(memory, sample, limits, table, now)
    memory = signs.memory
    if signs.fault is not None:
        memory = replace(memory, fault=signs.fault, end=None, clean=0)
    elif memory.fault is not None:
        memory = replace(memory, clean=memory.clean + 1 if signs.clean else 0)
    if memory.fault is not None and memory.clean >= limits.recovery_scrapes and validated:
        text = f"{limits.recovery_scrapes} clean scrapes and a passed validation after: {memory.fault.text}"
        memory = replace(
            memory, fault=None, clean=0, hot=0, finding=Finding(False, RECOVERED, text), end="CleanScrapes"
        )
    return Judgement(replace(memory, finding=_says(memory)), signs.warnings, returned)


def standing(recorded: CardStatus) -> CardFault | None:
    """The fault that a card's status records, whoever found it; None where it records none."""
    faulted = find(recorded.conditions, FAULTED)
    if recorded.fault is not None and faulted is not None:
        return CardFault(recorded.fault, carried(faulted).message)
    found = formerly.fault(faulted)
    return CardFault(*found) if found is not None else None


def _by_hand(memory: Memory) -> Memory:
    """Rows that cannot be remapped stay so: who takes such a card back has accepted it."""
    accepted = bool(memory.remap_accepted) or (memory.fault is not None and memory.fault.kind == REMAP_FAILURE)
    text = f"returned by {names.RETURN}=true" + (f" after: {memory.fault.text}" if memory.fault else "")
    found = Finding(False, RETURNED, text)
    return replace(memory, fault=None, clean=0, hot=0, remap_accepted=accepted, finding=found, end="ByHand")


def _silent(memory: Memory, limits: Limits, now: float, *, suspended: bool) -> Memory:
    """Silence says nothing for a while; then nothing is known, but a fault stays a fault."""
    if suspended:
        return replace(memory, since=now)
    if now - memory.since < limits.missing_after:
        return memory
    if memory.fault is not None:
        return replace(memory, clean=0, finding=memory.fault.finding)
    text = (
        f"no telemetry of the card for {limits.missing_after:g} s: look at the node's pod of dcgm-exporter, and with "
        "nvidia-smi on the node whether the driver still sees the card"
    )
    return replace(memory, finding=Finding(None, NO_TELEMETRY, text))


def _says(memory: Memory) -> Finding:
    """A card without a fault keeps the words that it was called well with."""
    if memory.fault is not None:
        return memory.fault.finding
    if memory.finding is not None and memory.finding.status is False:
        return memory.finding
    if memory.remap_accepted:
        return Finding(False, RETURNED, f"returned by {names.RETURN}=true although its rows cannot be remapped")
    return Finding(False, HEALTHY, "the card's telemetry shows no fault")
