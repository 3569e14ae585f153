"""Folds one DCGM sample into what is known of a card: new XIDs, ECC errors, heat, throttling. Pure.

DCGM's gauge of the last error keeps its number until DCGM's engine ends, so an error is news only where the number was
another one before, or none; the same error twice in a row cannot be told from one (NVIDIA/dcgm-exporter issues 190
and 500).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from controllers.bootstrap.health.xid_catalog import TABLE, Table
from controllers.bootstrap.telemetry_records import (
    CRITICAL_XID,
    DOUBLE_BIT_ECC,
    EVENTS,
    OVERHEATED,
    REMAP_FAILURE,
    CardFault,
    CardHealthState,
)

if TYPE_CHECKING:
    from controllers.api.gpudevice import Fault
    from controllers.bootstrap.health.dcgm_parser import CardSample
    from controllers.bootstrap.health.limits import Limits


def ingest(
    state: CardHealthState, sample: CardSample, limits: Limits, at: float, table: Table = TABLE
) -> CardHealthState:
    """Take in the sample of a scrape that ended `at` (seconds since the epoch)."""
    new = _new_xids(state, sample)
    critical = [xid for xid in new if _is_critical(xid, limits, table)]
    events = _events(state, sample, critical, table)
    temperature, hot = _known(sample.temperature, state.temperature), _hot_scrapes(state, sample, limits)
    accepted = state.remap_accepted and sample.remap_failed is not False
    has_failed_rows = bool(sample.remap_failed) and not accepted
    lasting = _lasting(sample, hot, limits, table, has_failed_rows=has_failed_rows)
    clean, cool = (0, 0) if is_silent(state, limits, at) else (state.clean_scrapes, state.cool_scrapes)
    is_clean = not events and not has_failed_rows and (temperature is None or temperature < limits.temperature_fault)
    throttled, contradicting = _throttle(state, sample, limits, table)
    return CardHealthState(
        last_heard=at,
        has_new_sample=True,
        pending=_pending(state.pending, events, lasting),
        warnings=(*state.warnings, *_warnings(state, sample, new, limits, table)),
        clean_scrapes=clean + 1 if is_clean else 0,
        cool_scrapes=cool + 1 if temperature is None or temperature < limits.temperature_clear else 0,
        last_xids=_last_xids(state, sample),
        last_xid=_last_xid(state, sample, new, critical),
        ecc_volatile=_known(sample.ecc_volatile, state.ecc_volatile),
        ecc_aggregate=_known(sample.ecc_aggregate, state.ecc_aggregate),
        temperature=temperature,
        hot_scrapes=hot,
        throttled=throttled,
        contradicting_scrapes=contradicting,
        remap_pending=state.remap_pending if sample.remap_pending is None else sample.remap_pending,
        remap_accepted=accepted,
    )


def excuse(state: CardHealthState, at: float) -> CardHealthState:
    """No sample was expected until `at` (seconds since the epoch): MIG work stops who would tell."""
    return replace(state, last_heard=at)


def is_silent(state: CardHealthState, limits: Limits, now: float) -> bool:
    """Whether a sample was due for so long that nothing is known of the card any more."""
    return now - state.last_heard >= limits.missing_after


def _events(state: CardHealthState, sample: CardSample, critical: list[int], table: Table) -> list[CardFault]:
    """Faults that happened since the sample before, the gravest first."""
    found = [_xid_fault(xid, table) for xid in critical]
    if _rose(state.ecc_volatile, sample.ecc_volatile) or _rose(state.ecc_aggregate, sample.ecc_aggregate):
        count = sample.ecc_volatile if sample.ecc_volatile is not None else sample.ecc_aggregate
        found.append(_fault(DOUBLE_BIT_ECC, f"{table.double_bit.name}s rose to {count}", table.double_bit.do))
    return found


def _pending(before: CardFault | None, events: list[CardFault], lasting: list[CardFault]) -> CardFault | None:
    """The fault to conclude from: a new event first, then one that was not taken yet."""
    if events:
        return events[0]
    if before is not None and before.kind in EVENTS:
        return before
    return lasting[0] if lasting else before


def _lasting(
    sample: CardSample, hot_scrapes: int, limits: Limits, table: Table, *, has_failed_rows: bool
) -> list[CardFault]:
    """Faults that last as long as samples show them, the gravest first."""
    found = []
    if has_failed_rows:
        found.append(_fault(REMAP_FAILURE, table.remap_failure.name, table.remap_failure.do))
    if hot_scrapes >= limits.temperature_scrapes:
        found.append(
            _fault(
                OVERHEATED,
                f"{sample.temperature} °C, at or over {limits.temperature_fault} °C {hot_scrapes} times in a row",
                f"check fans, airflow and load; it must be below {limits.temperature_clear} °C",
            )
        )
    return found


def _warnings(state: CardHealthState, sample: CardSample, new: list[int], limits: Limits, table: Table) -> list[str]:
    told = [xid for xid in new if _is_warning(xid, limits, table)]
    found = [f"XID {xid} ({table.xid(xid).name}): {table.xid(xid).do}" for xid in told]
    if sample.remap_pending and not state.remap_pending:
        found.append(f"{table.remap_pending.name}: {table.remap_pending.do}")
    return found


def _last_xids(state: CardHealthState, sample: CardSample) -> frozenset[int] | None:
    if sample.xids is not None:
        return frozenset(sample.xids)
    # Exporters from 4.5.2 on show none before the first error since DCGM's engine started (dcgm-exporter issue 700):
    # where the card's other values are there it was started again, and the same number is news when it comes.
    return frozenset() if sample.temperature is not None else state.last_xids


def _new_xids(state: CardHealthState, sample: CardSample) -> list[int]:
    if sample.xids is None or state.last_xids is None:
        return []  # an error that was there when we first looked is old
    return [xid for xid in sample.xids if xid not in state.last_xids]


def _last_xid(state: CardHealthState, sample: CardSample, new: list[int], critical: list[int]) -> int | None:
    first_look = list(sample.xids or ()) if state.last_xids is None else []
    return next(reversed(critical or new or first_look), state.last_xid)


def _is_critical(xid: int, limits: Limits, table: Table) -> bool:
    if xid in limits.critical_xids:
        return True
    return xid not in limits.ignored_xids and table.xid(xid).effect == "fault"


def _is_warning(xid: int, limits: Limits, table: Table) -> bool:
    ignored = xid in limits.ignored_xids or xid in limits.critical_xids
    return not ignored and table.xid(xid).effect == "warn"


def _xid_fault(xid: int, table: Table) -> CardFault:
    meaning = table.xid(xid)
    return _fault(CRITICAL_XID, f"XID {xid} ({meaning.name})", meaning.do)


def _hot_scrapes(state: CardHealthState, sample: CardSample, limits: Limits) -> int:
    if sample.temperature is None:
        return state.hot_scrapes
    return state.hot_scrapes + 1 if sample.temperature >= limits.temperature_fault else 0


def _throttle(state: CardHealthState, sample: CardSample, limits: Limits, table: Table) -> tuple[bool | None, int]:
    """`throttled`, and how many scrapes in a row contradict it: slowness comes and goes under load."""
    if sample.throttle is None:
        return state.throttled, state.contradicting_scrapes
    slowed = any(sample.throttle & bit for bit in table.throttle.values())
    if slowed == bool(state.throttled):
        return slowed, 0
    needed, contradicting = limits.throttle_on if slowed else limits.throttle_off, state.contradicting_scrapes + 1
    return (bool(state.throttled), contradicting) if contradicting < needed else (slowed, 0)


def _rose(before: int | None, after: int | None) -> bool:
    """Whether a counter tells of a new error; one that fell began anew, and what it counts is new."""
    return before is not None and after is not None and after != before and after > 0


def _known(new: int | None, old: int | None) -> int | None:
    return old if new is None else new


def _fault(kind: Fault, found: str, do: str) -> CardFault:
    return CardFault(kind, f"{found}: {do}")
