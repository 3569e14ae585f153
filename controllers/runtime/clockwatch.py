"""Sees the wall clock jump: set by a person, stepped by NTP, or left behind while the machine slept.

Deadlines, delays until one and the ages of what is kept in memory are all differences of wall times. After a jump they
are wrong by as much as it was, and some would be for as long: a name that rests, an expiry that nobody looks at. No
reckoning over all of them is as sure as a fresh start, so the process ends in order and begins anew.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

PERIOD: Final = 1.0
LEAST: Final = 5.0
"""Seconds; clocks that are steered, not set, gain milliseconds in a period."""


async def jump(wall: Callable[[], float] | None = None, *, period: float = PERIOD, least: float = LEAST) -> float:
    """Return when `wall` (`time.time`) jumps against the monotonic clock, by how many seconds; forward is positive."""
    wall = wall or time.time
    known = wall() - time.monotonic()
    while True:
        await asyncio.sleep(period)
        now = wall() - time.monotonic()
        if abs(now - known) >= least:
            return now - known
        known = now
