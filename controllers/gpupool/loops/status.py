"""The loop over what pools and their cards only say: Configured, status, metrics. Nobody waits for it.

It has a loop of its own since a pool's status is the largest object that this process writes:
a list that offers cards, which somebody waits for, is not to stand behind it. What is said
settles first, so that a card which comes in, is offered and acknowledged is one status.
"""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from functools import partial
from typing import TYPE_CHECKING

from controllers.gpupool import metrics
from controllers.gpupool.pool import plan
from controllers.runtime.controller import Controller

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from controllers.gpupool.views import ObservedPool
    from controllers.gpupool.world import World
    from controllers.runtime.plan import Plan
    from controllers.runtime.process import Process

SETTLE = 1.0
"""Seconds from a pool's first change to what it says of it."""
STATUS_PERIOD = 1.0
"""Seconds between two writes of one pool's status."""
THREAD_CARDS = 1000
"""A pool of more cards is planned beside the event loop: its plan takes longer than the loop may stand."""


class Sayings:
    """Writes what pools and their cards say."""

    def __init__(self, process: Process, world: World) -> None:
        """Make the loop."""
        self._execute, self._world = process.executor.execute, world
        self._written: dict[str, float] = {}  # when the pools' statuses were, in monotonic seconds
        self._writing: dict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self.controller = Controller("sayings", self._reconcile, workers=4)

    def settle(self, pools: Iterable[str]) -> None:
        """Something of these pools has changed."""
        for pool in pools:
            self.controller.add_after(pool, SETTLE)

    def alone(self, pool: str) -> asyncio.Lock:
        """Held by whoever writes the pool's status, from the look at it on: an older view must not come over it."""
        return self._writing[pool]

    def wrote(self, pool: str) -> None:
        """The pool's status has been written."""
        self._written[pool] = time.monotonic()

    async def _reconcile(self, name: str) -> float | None:
        seen = self._world.pool(name)
        if seen is None:
            self._forget(name)
            return None
        cards = await planned(seen, plan.say_cards)
        await self._execute(cards.actions)
        async with self.alone(name):
            seen = self._world.pool(name)
            if seen is None:
                return cards.requeue_after
            wait = self._written.get(name, float("-inf")) + STATUS_PERIOD - time.monotonic()
            pool = await planned(seen, partial(plan.say_pool, status_in=wait))
            await self._execute(pool.actions)
            if plan.writes_status(pool):
                self.wrote(name)
        metrics.record(seen.pool, len(seen.members))
        return min((a for a in (cards.requeue_after, pool.requeue_after) if a is not None), default=None)

    def _forget(self, pool: str) -> None:
        """The pool is gone; whoever was still at it has been in this loop, and is done."""
        metrics.forget(pool)
        self._written.pop(pool, None)
        if pool in self._writing and not self._writing[pool].locked():
            del self._writing[pool]


async def planned(seen: ObservedPool, planner: Callable[[ObservedPool, float], Plan]) -> Plan:
    """A plan for a pool as it is seen now."""
    if len(seen.members) > THREAD_CARDS:
        # A pure function of frozen values: it can be anywhere, and the loop serves the others meanwhile.
        return await asyncio.to_thread(planner, seen, time.time())
    return planner(seen, time.time())
