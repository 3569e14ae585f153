"""Whether a node's DCGM exporter answers: ready after some fresh scrapes in a row, missing after a time without. Pure.

A fresh scrape is a text that names at least one card. While MIG work suspends the node the clock stands still,
and after a restart of ours the recorded verdict holds until it can be known again.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from controllers.bootstrap.telemetry_records import Heartbeat

if TYPE_CHECKING:
    from controllers.bootstrap.health.limits import Limits


def recall(ready: bool | None, now: float) -> Heartbeat:
    """What is recorded of a node (`monitoring.dcgmReady`) when monitoring of it begins."""
    return Heartbeat(monitored_since=now, ready=ready)


def on_scrape(heart: Heartbeat, limits: Limits, at: float, *, fresh: bool) -> Heartbeat:
    """Take in a scrape that ended `at` (seconds since the epoch)."""
    if not fresh:
        return replace(heart, streak=0)
    streak = heart.streak + 1
    return replace(heart, streak=streak, last=at, ready=True if streak >= limits.ready_after else heart.ready)


def tick(heart: Heartbeat, limits: Limits, now: float, *, suspended: bool = False) -> Heartbeat:
    """Let time pass until `now` (seconds since the epoch)."""
    if suspended:
        return replace(heart, monitored_since=now, streak=0)
    return replace(heart, ready=False) if seconds_left(heart, limits, now) <= 0 else heart


def seconds_left(heart: Heartbeat, limits: Limits, now: float) -> float:
    """Seconds until the node is missing unless a fresh scrape comes; 0 or less when it is."""
    return max(heart.monitored_since, heart.last or heart.monitored_since) + limits.missing_after - now


def is_silent(heart: Heartbeat, limits: Limits, period: float, now: float) -> bool:
    """Whether a node that is not missing yet has been silent for two periods, by which an outage of ours is known.

    At most missing_after − period: nodes are scraped at different moments of a period, and when the first of many is
    missing, all of them must count as silent.
    """
    enough = min(2 * period, limits.missing_after - period)
    return heart.ready is not False and max(heart.monitored_since, heart.last or heart.monitored_since) + enough < now
