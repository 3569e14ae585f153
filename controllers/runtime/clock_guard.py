"""Detects a jump of the wall clock: set by a person, stepped by NTP, or behind after the machine slept.

Deadlines, delays until one and the ages of what is kept in memory are all differences of wall times. After a jump they
are wrong by as much as it was, and some would be for as long: a name that rests, an expiry that nobody looks at. No
reckoning over all of them is as sure as a fresh start, so the process ends in order and begins anew.
"""

from __future__ import annotations

import asyncio
import time
from math import inf
from typing import Final

PERIOD: Final = 1.0
LEAST: Final = 5.0
"""Seconds; clocks that are steered, not set, gain milliseconds in a period."""
READINGS: Final = 5
EXACT: Final = 0.001
"""Seconds between the readings of the two clocks that are good enough."""


async def wait_for_clock_jump() -> float:
    """Return when the wall clock jumps against the monotonic one, by how many seconds; forward is positive."""
    known = _apart()
    while True:
        await asyncio.sleep(PERIOD)
        now = _apart()
        if abs(now - known) >= LEAST:
            return now - known
        known = now


def _apart() -> float:
    """The wall clock less the monotonic one, in seconds; of a few readings the one that was disturbed least.

    A process that gets no processor between the two readings would see a jump of as long as that.
    """
    least, found = inf, 0.0
    for _ in range(READINGS):
        before, wall, after = time.monotonic(), time.time(), time.monotonic()
        if after - before < least:
            least, found = after - before, wall - (before + after) / 2
        if least < EXACT:
            break
    return found
