"""Sees the wall clock jump: set by a person, stepped by NTP, or left behind while the machine slept.

Deadlines, delays until one and the ages of what is kept in memory are all differences of wall times. After a jump they
are wrong by as much as it was, and some would be for as long: a name that rests, an expiry that nobody looks at. No
reckoning over all of them is as sure as a fresh start, so the process ends in order and begins anew.
"""

from __future__ import annotations

import asyncio
import time
from typing import Final

PERIOD: Final = 1.0
LEAST: Final = 5.0
"""Seconds; clocks that are steered, not set, gain milliseconds in a period."""


async def jump() -> float:
    """Return when the wall clock jumps against the monotonic one, by how many seconds; forward is positive."""
    known = time.time() - time.monotonic()
    while True:
        await asyncio.sleep(PERIOD)
        now = time.time() - time.monotonic()
        if abs(now - known) >= LEAST:
            return now - known
        known = now
