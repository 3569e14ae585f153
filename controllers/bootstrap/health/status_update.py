"""What of a card's telemetry is written to `status.health` of its GPUDevice: what crosses a threshold. Pure."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from controllers.api.gpudevice import DeviceHealth
from controllers.domain.clock import stamp

if TYPE_CHECKING:
    from controllers.bootstrap.health.limits import Limits
    from controllers.bootstrap.telemetry_records import CardHealthState

_Value = TypeVar("_Value", int, bool)


def health_status(state: CardHealthState) -> DeviceHealth | None:
    """What is known of a card in the form of its status; None before its first sample and word of a person."""
    told = (state.last_xids, state.temperature, state.ecc_volatile, state.throttled, state.remap_accepted)
    if all(value is None for value in told):
        return None
    return DeviceHealth(
        temperature_c=state.temperature,
        ecc_errors_total=state.ecc_volatile if state.ecc_volatile is not None else state.ecc_aggregate,
        last_xid=state.last_xid,
        throttled=state.throttled,
        row_remap_failure_accepted=state.remap_accepted,
    )


def health_to_write(
    old: DeviceHealth | None, new: DeviceHealth | None, limits: Limits, now: float
) -> DeviceHealth | None:
    """The whole `health` to write; None while what is recorded still tells the same.

    Errors and `throttled` (which has its own hysteresis) count when they change, the temperature when it enters
    another of three classes: cool, from the clear border on, from the fault border on. A field that the
    exporter stopped to tell keeps its value.
    """
    if new is None:
        return None
    if old is None:
        return replace(new, last_updated=stamp(now))
    whole = DeviceHealth(
        temperature_c=_either(new.temperature_c, old.temperature_c),
        ecc_errors_total=_either(new.ecc_errors_total, old.ecc_errors_total),
        last_xid=_either(new.last_xid, old.last_xid),
        throttled=_either(new.throttled, old.throttled),
        row_remap_failure_accepted=_either(new.row_remap_failure_accepted, old.row_remap_failure_accepted),
        last_updated=stamp(now),
    )
    crossed = _crossed(old.temperature_c, whole.temperature_c, limits)
    same = replace(whole, temperature_c=old.temperature_c, last_updated=old.last_updated) == old
    return None if same and not crossed else whole


def _either(new: _Value | None, old: _Value | None) -> _Value | None:
    return old if new is None else new


def _crossed(recorded: int | None, now: int | None, limits: Limits) -> bool:
    """Whether the temperature left the recorded class: upwards at a border, downwards a margin below it."""
    if recorded is None or now is None:
        return recorded != now
    borders = (limits.temperature_clear, limits.temperature_fault)
    return any(
        recorded < border <= now or (now < border - limits.temperature_margin and recorded >= border)
        for border in borders
    )
