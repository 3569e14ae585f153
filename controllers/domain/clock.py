"""Times as the API writes them. `now` is always a parameter: seconds since the epoch, in UTC."""

from __future__ import annotations

from datetime import UTC, datetime


def stamp(now: float) -> str:
    """RFC 3339 with whole seconds, as conditions and metadata carry it."""
    return datetime.fromtimestamp(int(now), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def stamp_exact(now: float) -> str:
    """RFC 3339 with microseconds, as leases and reservations carry it."""
    return datetime.fromtimestamp(now, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def seconds(value: str) -> float:
    """Seconds since the epoch; raises ValueError where the text is no RFC 3339 time."""
    return datetime.fromisoformat(value).timestamp()
