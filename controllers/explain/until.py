"""Until when a pause lasts, as people write it: `--for 8h`, `--for 3d`, `--until 2026-07-01T06:00:00Z`. Pure."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Final

from controllers.api.duration import parse_duration
from controllers.domain.driver.pause import PAUSE_MAX
from controllers.explain.faults import UsageError
from controllers.explain.words import DAY

ASK: Final = "Until when? --for 8h, or --until 2026-07-01T06:00:00Z; 30 days at most."
_DAYS: Final = re.compile(r"([0-9]+)d")


def pause_end(now: float, *, until: str | None, length: str | None) -> float:
    """Seconds since the epoch, as `now` is; raises UsageError that says what is expected."""
    if (until is None) == (length is None):
        raise UsageError(ASK)
    end = now + _length(length) if length is not None else _moment(until or "")
    if end <= now:
        raise UsageError(f"{until or length} is over already. {ASK}")
    if end > now + PAUSE_MAX:
        raise UsageError(f"{until or length} is longer than a pause may last. {ASK}")
    return end


def _length(text: str) -> float:
    if (days := _DAYS.fullmatch(text)) is not None:
        return float(int(days[1]) * DAY)
    try:
        return parse_duration(text)
    except ValueError as error:
        raise UsageError(f"{error}. {ASK}") from error


def _moment(text: str) -> float:
    """A time with its zone: without one nobody knows which moment is meant."""
    try:
        found = datetime.fromisoformat(text)
    except ValueError as error:
        raise UsageError(f"{text!r} is no time. {ASK}") from error
    if found.tzinfo is None:
        raise UsageError(f"{text!r} names no time zone: end it with Z for UTC. {ASK}")
    return found.timestamp()
