"""Times as the Kubernetes API writes them (RFC 3339). `now` is always a parameter: seconds since the epoch, in UTC."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

SKEW: Final = 60.0
"""Seconds by which the clocks of two machines may differ."""


def stamp(now: float) -> str:
    """RFC 3339 with whole seconds, as conditions and metadata carry it."""
    return datetime.fromtimestamp(int(now), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def stamp_exact(now: float) -> str:
    """RFC 3339 with microseconds, as leases and reservations carry it."""
    return datetime.fromtimestamp(now, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def seconds(value: str) -> float:
    """Seconds since the epoch; raises ValueError where the text is no RFC 3339 time."""
    return datetime.fromisoformat(value).timestamp()


def begun(value: str, now: float) -> float:
    """Seconds since the epoch of something that has begun: `now` where the text is no time, or lies ahead."""
    try:
        return min(now, seconds(value))
    except ValueError:
        return now


def lies_ahead(value: str, now: float) -> bool:
    """Whether a clock was wrong when it was written: later than now by more than clocks differ. Raises ValueError."""
    return seconds(value) > now + SKEW
