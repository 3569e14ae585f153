"""The controller of statuses: GPUPools' and their cards', and pools' metrics. Nobody waits for them.

It is apart from the controller of pools since a pool's status is the largest object that this process writes: a list
that offers cards, which somebody waits for, is not to stand behind it. Changes settle first, so that a card which comes
in, is offered and acknowledged is one write.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from functools import partial
from typing import TYPE_CHECKING

from controllers.gpupool import metrics
from controllers.gpupool.loops.planning import run_planner
from controllers.gpupool.pool.card_status import plan_card_status
from controllers.gpupool.pool.plan import writes_status
from controllers.gpupool.pool.status_plan import plan_pool_status
from controllers.runtime.controller import Controller
from controllers.runtime.pace import Pace

if TYPE_CHECKING:
    from collections.abc import Iterable

    from controllers.gpupool.world import World
    from controllers.runtime.process import Process

SETTLE = 1.0
"""Seconds from a pool's first change to the write of its status."""
STATUS_PERIOD = 1.0
"""Seconds between two writes of one pool's status."""


class StatusController:
    """Reconciles the status of pools and of their cards.

    Lives as long as the process, and is used from its event loop only. What it remembers is when to write.
    """

    def __init__(self, process: Process, world: World) -> None:
        """Make the controller."""
        self._execute, self._world = process.executor.execute, world
        self._written = Pace()
        self._locks: dict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self.controller = Controller("status", self._reconcile, workers=4)

    def enqueue_settled(self, pools: Iterable[str]) -> None:
        """Look at these pools once their changes have settled."""
        for pool in pools:
            self.controller.add_after(pool, SETTLE)

    def lock(self, pool: str) -> asyncio.Lock:
        """Held while a pool's status is planned and written: one from an older view must not come over it."""
        return self._locks[pool]

    def note_written(self, pool: str) -> None:
        """The pool's status has been written."""
        self._written.mark_done(pool)

    async def _reconcile(self, name: str) -> float | None:
        view = self._world.pool(name)
        if view is None:
            self._forget(name)
            return None
        cards = await run_planner(view, plan_card_status)
        await self._execute(cards.actions)
        async with self.lock(name):
            view = self._world.pool(name)
            if view is None:
                return cards.requeue_after
            wait = self._written.seconds_left(name, STATUS_PERIOD)
            pool = await run_planner(view, partial(plan_pool_status, status_in=wait))
            await self._execute(pool.actions)
            if writes_status(pool):
                self.note_written(name)
        metrics.record(view.pool, len(view.members))
        return min((a for a in (cards.requeue_after, pool.requeue_after) if a is not None), default=None)

    def _forget(self, pool: str) -> None:
        """The pool is gone; whoever still wrote its status has been in this loop, and is done."""
        metrics.forget(pool)
        self._written.forget(pool)
        if pool in self._locks and not self._locks[pool].locked():
            del self._locks[pool]
