"""Steps of a node whose driver is replaced, as values of its `driverWork`. Pure."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from controllers.domain.clock import begun, stamp
from controllers.domain.driver.states import limit_of

if TYPE_CHECKING:
    from controllers.api.driver_rollout import Drain
    from controllers.api.driver_work import Baseline, DriverWork, Phase


def move(
    work: DriverWork, phase: Phase, now: float, *, drain: Drain | None = None, compiled: bool = True, **changes: Any
) -> DriverWork:
    """The work in its next phase. `drain`: how long Draining may last; `compiled`: as of `limit_of`."""
    limit = limit_of(phase, compiled=compiled)
    if phase == "Draining" and drain is not None:
        limit = drain.wait_for + drain.timeout
    made: dict[str, Any] = {"deadline": stamp(now + limit) if limit is not None else None, "retry_at": None, **changes}
    return replace(work, phase=phase, since=stamp(now), **made)


def take_out(work: DriverWork, now: float, baseline: Baseline) -> DriverWork:
    """The work of a node that is taken out of service: whoever writes this has the permit."""
    return move(work, "Withdrawing", now, out_since=stamp(now), baseline=baseline)


def charged(work: DriverWork, now: float, cards: int) -> DriverWork:
    """The work of a node that is back in service, with the time that its cards were out of it."""
    if work.out_since is None:
        return work
    out = max(0, int(now - begun(work.out_since, now)))
    return replace(work, out_since=None, out_seconds=out, gpu_seconds=work.gpu_seconds + out * cards)
