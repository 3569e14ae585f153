"""From what was known of a card and its new sample, or silence, to its condition Faulted. Pure.

A card is faulted by an event (a new critical XID, a rising count of double-bit errors) or by a state that
lasts (heat, rows that cannot be remapped). It returns by itself after clean scrapes in a row and a passed
validation, or at once when a person says so. Messages change only with the verdict: they are written to status.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from controllers.api import names
from controllers.api.conditions import Finding
from controllers.bootstrap.health.signs import FAULTS, REMAP_FAILURE, Memory, hear
from controllers.bootstrap.health.table import TABLE, Table

if TYPE_CHECKING:
    from controllers.api.gpudevice import DeviceHealth
    from controllers.api.meta import Condition
    from controllers.bootstrap.health.limits import Limits
    from controllers.bootstrap.health.text import CardSample

HEALTHY: Final = "Healthy"
RECOVERED: Final = "Recovered"
RETURNED: Final = "ReturnedByHand"
NO_TELEMETRY: Final = "NoTelemetry"
REASONS: Final = (*FAULTS, HEALTHY, RECOVERED, RETURNED, NO_TELEMETRY)
"""Every reason that this package gives the condition Faulted."""
_ONCE_HELD: Final = "Held"
_ONCE_BECAUSE: Final = " Held back: "
"""What earlier versions added to the reason (status Unknown) and the message of a card that a fuse kept in service:
read as the fault that it is, or an update would call that card well."""


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


def remember(health: DeviceHealth | None, faulted: Condition | None, now: float) -> Memory:
    """What a card's status tells after a restart of ours: its verdict holds, and old errors are no news."""
    memory = Memory(since=now)
    if health is not None:
        memory = replace(
            memory,
            gauge=frozenset() if health.last_xid is None else frozenset({health.last_xid}),
            last_xid=health.last_xid,
            ecc_volatile=health.ecc_errors_total,
            temperature=health.temperature_c,
            throttled=health.throttled,
        )
    fault = recorded(faulted)
    if faulted is None or (faulted.status != "False" and (fault.reason if fault else faulted.reason) not in REASONS):
        return memory  # that the card is gone, or fails a validation, is others' verdict
    found = fault or Finding({"True": True, "False": False}.get(faulted.status), faulted.reason, faulted.message or "")
    return replace(memory, finding=found, fault=fault, acknowledged=found.reason == RETURNED)


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
        memory = replace(memory, fault=signs.fault, clean=0)
    elif memory.fault is not None:
        memory = replace(memory, clean=memory.clean + 1 if signs.clean else 0)
    if memory.fault is not None and memory.clean >= limits.recovery_scrapes and validated:
        text = f"{limits.recovery_scrapes} clean scrapes and a passed validation after: {memory.fault.message}"
        memory = replace(memory, fault=None, clean=0, hot=0, finding=Finding(False, RECOVERED, text))
    return Judgement(replace(memory, finding=memory.fault or _well(memory)), signs.warnings, returned)


def recorded(faulted: Condition | None) -> Finding | None:
    """The fault that a card's condition records, whoever found it; None where it records none."""
    if faulted is None or faulted.status == "False":
        return None
    message, reason = faulted.message or "", faulted.reason.removesuffix(_ONCE_HELD)
    if faulted.status == "True":
        return Finding(True, faulted.reason, message)
    return Finding(True, reason, message.partition(_ONCE_BECAUSE)[0]) if reason != faulted.reason else None


def _by_hand(memory: Memory) -> Memory:
    """Rows that cannot be remapped stay so: who takes such a card back has accepted it."""
    accepted = memory.acknowledged or (memory.fault is not None and memory.fault.reason == REMAP_FAILURE)
    text = f"returned by {names.RETURN}=true" + (f" after: {memory.fault.message}" if memory.fault else "")
    found = Finding(False, RETURNED, text)
    return replace(memory, fault=None, clean=0, hot=0, acknowledged=accepted, finding=found)


def _silent(memory: Memory, limits: Limits, now: float, *, suspended: bool) -> Memory:
    """Silence says nothing for a while; then nothing is known, but a fault stays a fault."""
    if suspended:
        return replace(memory, since=now)
    if now - memory.since < limits.missing_after:
        return memory
    if memory.fault is not None:
        return replace(memory, clean=0, finding=memory.fault)
    text = (
        f"no telemetry of the card for {limits.missing_after:g} s: look at the node's pod of dcgm-exporter, and with "
        "nvidia-smi on the node whether the driver still sees the card"
    )
    return replace(memory, finding=Finding(None, NO_TELEMETRY, text))


def _well(memory: Memory) -> Finding:
    """A card without a fault keeps the words that it was called well with."""
    if memory.finding is not None and memory.finding.status is False:
        return memory.finding
    if memory.acknowledged:
        return Finding(False, RETURNED, f"returned by {names.RETURN}=true although its rows cannot be remapped")
    return Finding(False, HEALTHY, "the card's telemetry shows no fault")
