"""Runs a planner for a GPUPool: in a thread where the pool is large."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from controllers.gpupool.views import ObservedPool
    from controllers.runtime.plan import Plan

THREAD_CARDS = 1000
"""Cards from which on a pool is planned in a thread: its plan takes longer than the event loop may stand."""


async def run_planner(view: ObservedPool, planner: Callable[[ObservedPool, float], Plan]) -> Plan:
    """The plan for a pool as of now."""
    if len(view.members) > THREAD_CARDS:
        # A pure function of frozen values can run anywhere, and the event loop serves the others meanwhile.
        return await asyncio.to_thread(planner, view, time.time())
    return planner(view, time.time())
