"""Runs a planner: in a thread where what it looks at is large."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

    from controllers.gpupool.views import ObservedPool
    from controllers.runtime.plan import Plan

THREAD_CARDS = 1000
"""Cards from which on a pool is planned in a thread: its plan takes longer than the event loop may stand."""
Seen = TypeVar("Seen")
Planned = TypeVar("Planned")


async def run_planner(view: ObservedPool, planner: Callable[[ObservedPool, float], Plan]) -> Plan:
    """The plan for a pool as of now."""
    return await plan_at(time.time(), view, planner, is_large=len(view.members) > THREAD_CARDS)


async def plan_at(now: float, view: Seen, planner: Callable[[Seen, float], Planned], *, is_large: bool) -> Planned:
    """What a planner makes of the view as of that time, of a large one beside the event loop."""
    if is_large:
        # A pure function of frozen values can run anywhere, and the event loop serves the others meanwhile.
        return await asyncio.to_thread(planner, view, now)
    return planner(view, now)
