"""What one sample adds to what was known of a card: new errors, heat, slowness. Pure.

DCGM's gauge of the last error keeps its number until DCGM's engine ends, so an error is news only where the number was
another one before, or none; the same error twice in a row cannot be told from one (NVIDIA/dcgm-exporter issues 190
and 500).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from controllers.api.conditions import Finding

if TYPE_CHECKING:
    from controllers.api.gpudevice import Fault, FaultEnd
    from controllers.bootstrap.health.dcgm_parser import CardSample
    from controllers.bootstrap.health.limits import Limits
    from controllers.bootstrap.health.xid_catalog import Table

CRITICAL_XID: Final = "CriticalXid"
DOUBLE_BIT_ECC: Final = "DoubleBitEcc"
REMAP_FAILURE: Final = "RowRemapFailure"
OVERHEATED: Final = "Overheated"
FAULTS: Final[tuple[Fault, ...]] = (CRITICAL_XID, DOUBLE_BIT_ECC, REMAP_FAILURE, OVERHEATED)


@dataclass(frozen=True, slots=True)
class CardFault:
    """Why a card is out of service."""

    kind: Fault
    text: str

    @property
    def finding(self) -> Finding:
        """As the condition Faulted says it."""
        return Finding(True, self.kind, self.text)


@dataclass(frozen=True, slots=True)
class Memory:
    """What is known of one card between two scrapes."""

    since: float
    """When it was last heard of, or when we began to listen; seconds since the epoch."""
    finding: Finding | None = None
    """The condition Faulted as it should be; None while nothing can be said."""
    fault: CardFault | None = None
    """Why the card is out of service; it stays while `finding` says so."""
    end: FaultEnd | None = None
    """How the last fault ended, while there is none."""
    clean: int = 0
    """Scrapes in a row without a sign of trouble since the fault."""
    gauge: frozenset[int] | None = None
    """Error numbers that DCGM last showed; None before the first look."""
    last_xid: int | None = None
    ecc_volatile: int | None = None
    ecc_aggregate: int | None = None
    temperature: int | None = None
    hot: int = 0
    """Scrapes in a row at or over the fault temperature."""
    throttled: bool | None = None
    against: int = 0
    """Scrapes in a row that contradict `throttled`."""
    remap_pending: bool = False
    """Whether a row waits to be replaced at the next reset."""
    remap_accepted: bool | None = None
    """Whether a person took the card back although its rows cannot be remapped; None while nobody took it back."""


@dataclass(frozen=True, slots=True)
class Signs:
    """What a sample says."""

    memory: Memory
    fault: CardFault | None
    """A new reason to take the card out of service, the gravest."""
    warnings: tuple[str, ...]
    clean: bool


def hear(memory: Memory, sample: CardSample, limits: Limits, table: Table, now: float) -> Signs:
    """Take one sample in."""
    new = _new_xids(memory, sample)
    critical = [xid for xid in new if _faults(xid, limits, table)]
    faults = [_xid_fault(xid, table) for xid in critical]
    if _rose(memory.ecc_volatile, sample.ecc_volatile) or _rose(memory.ecc_aggregate, sample.ecc_aggregate):
        count = sample.ecc_volatile if sample.ecc_volatile is not None else sample.ecc_aggregate
        faults.append(_fault(DOUBLE_BIT_ECC, f"{table.double_bit.name}s rose to {count}", table.double_bit.do))
    hot = _streak(memory.hot, None if sample.temperature is None else sample.temperature >= limits.temperature_fault)
    after = replace(
        _throttle(memory, sample, limits, table),
        since=now,
        gauge=_gauge(memory, sample),
        last_xid=_last(memory, sample, new, critical),
        ecc_volatile=_known(sample.ecc_volatile, memory.ecc_volatile),
        ecc_aggregate=_known(sample.ecc_aggregate, memory.ecc_aggregate),
        temperature=_known(sample.temperature, memory.temperature),
        hot=hot,
        remap_pending=memory.remap_pending if sample.remap_pending is None else sample.remap_pending,
        remap_accepted=memory.remap_accepted and sample.remap_failed is not False,
    )
    if memory.fault is None:
        faults += _standing(after, sample, limits, table)
    clean = not faults and not (sample.remap_failed and not after.remap_accepted) and _is_cool(after, limits)
    told = [xid for xid in new if xid not in critical and _told(xid, limits, table)]
    warnings = [f"XID {xid} ({table.xid(xid).name}): {table.xid(xid).do}" for xid in told]
    if after.remap_pending and not memory.remap_pending:
        warnings.append(f"{table.remap_pending.name}: {table.remap_pending.do}")
    return Signs(after, faults[0] if faults else None, tuple(warnings), clean)


def _gauge(memory: Memory, sample: CardSample) -> frozenset[int] | None:
    if sample.xids is not None:
        return frozenset(sample.xids)
    # Exporters from 4.5.2 on show none before the first error since DCGM's engine started (dcgm-exporter issue 700):
    # where the card's other values are there it was started again, and the same number is news when it comes.
    return frozenset() if sample.temperature is not None else memory.gauge


def _new_xids(memory: Memory, sample: CardSample) -> list[int]:
    if sample.xids is None or memory.gauge is None:
        return []  # an error that was there when we first looked is old
    return [xid for xid in sample.xids if xid not in memory.gauge]


def _faults(xid: int, limits: Limits, table: Table) -> bool:
    if xid in limits.critical_xids:
        return True
    return xid not in limits.ignored_xids and table.xid(xid).effect == "fault"


def _told(xid: int, limits: Limits, table: Table) -> bool:
    return xid not in limits.ignored_xids and table.xid(xid).effect == "warn"


def _last(memory: Memory, sample: CardSample, new: list[int], critical: list[int]) -> int | None:
    first_look = list(sample.xids or ()) if memory.gauge is None else []
    return next(reversed(critical or new or first_look), memory.last_xid)


def _xid_fault(xid: int, table: Table) -> CardFault:
    meaning = table.xid(xid)
    return _fault(CRITICAL_XID, f"XID {xid} ({meaning.name})", meaning.do)


def _standing(memory: Memory, sample: CardSample, limits: Limits, table: Table) -> list[CardFault]:
    """Reasons that last as long as the card says so."""
    found = []
    if sample.remap_failed and not memory.remap_accepted:
        found.append(_fault(REMAP_FAILURE, table.remap_failure.name, table.remap_failure.do))
    if memory.hot >= limits.temperature_scrapes:
        found.append(
            _fault(
                OVERHEATED,
                f"{sample.temperature} °C, at or over {limits.temperature_fault} °C {memory.hot} times in a row",
                f"check fans, airflow and load; it must be below {limits.temperature_clear} °C",
            )
        )
    return found


def _is_cool(memory: Memory, limits: Limits) -> bool:
    """A card that was too hot must be below the lower border, any other only not too hot."""
    if memory.temperature is None:
        return True
    too_hot = memory.fault is not None and memory.fault.kind == OVERHEATED
    return memory.temperature < (limits.temperature_clear if too_hot else limits.temperature_fault)


def _throttle(memory: Memory, sample: CardSample, limits: Limits, table: Table) -> Memory:
    if sample.throttle is None:
        return memory
    slowed = any(sample.throttle & bit for bit in table.throttle.values())
    if slowed == bool(memory.throttled):
        return replace(memory, throttled=slowed, against=0)
    needed = limits.throttle_on if slowed else limits.throttle_off
    if memory.against + 1 < needed:
        return replace(memory, throttled=bool(memory.throttled), against=memory.against + 1)
    return replace(memory, throttled=slowed, against=0)


def _rose(before: int | None, after: int | None) -> bool:
    """Whether a counter tells of a new error; one that fell began anew, and what it counts is new."""
    return before is not None and after is not None and after != before and after > 0


def _streak(count: int, more: bool | None) -> int:
    if more is None:
        return count
    return count + 1 if more else 0


def _known(new: int | None, old: int | None) -> int | None:
    return old if new is None else new


def _fault(kind: Fault, found: str, do: str) -> CardFault:
    return CardFault(kind, f"{found}: {do}")
