"""The controller of GPUPools: cards in and out, allowed lists, operands, and the status where it opens or closes."""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING

from controllers.gpupool.caches import FREE
from controllers.gpupool.loops.planning import run_planner
from controllers.gpupool.operands.device_plugin import SHARD_CARDS
from controllers.gpupool.pool.plan import plan_orphans, plan_pool, writes_lists, writes_status
from controllers.runtime.controller import Controller
from controllers.runtime.pace import Pace

if TYPE_CHECKING:
    from collections.abc import Callable

    from controllers.gpupool.loops.status import StatusController
    from controllers.gpupool.world import World
    from controllers.runtime.plan import Plan
    from controllers.runtime.process import Process

WORKERS = 16
"""Mostly they wait for the API server: a quorum list of pods takes up to 100 ms."""
LISTS_PERIOD, SMALL_LISTS_PERIOD = 1.0, 0.1
"""Seconds between two writes of one pool's lists that only add cards: the plugins of all its nodes read each. A list
that fits into one ConfigMap is cheap, and somebody waits for it."""


class PoolController:
    """Reconciles pools.

    Lives as long as the process, and is used from its event loop only. What it remembers is when lists were written.
    """

    def __init__(self, process: Process, world: World, status: StatusController, forget: Callable[[str], None]) -> None:
        """Make the controller. `forget(pool)` is called for a pool that is gone."""
        self._execute, self._world, self._status, self._forget = process.executor.execute, world, status, forget
        self._listed = Pace()
        self.controller = Controller("pools", self._reconcile, workers=WORKERS)

    async def _reconcile(self, name: str) -> float | None:
        if name == FREE:
            return None  # a pod's label may be empty, and the cards in no pool are not to be released
        plan = await self._plan(name)
        if plan is None:
            return await self._release_orphans(name)
        if not writes_status(plan):
            await self._carry_out(name, plan)
            return plan.requeue_after
        async with self._status.lock(name):
            # Planned again, since the status may have been written meanwhile, and an older one must not come over it.
            plan = await self._plan(name)
            if plan is not None:
                await self._carry_out(name, plan)
        return plan.requeue_after if plan is not None else await self._release_orphans(name)

    async def _plan(self, name: str) -> Plan | None:
        """The plan for a pool as it is now; None where there is none."""
        view = self._world.pool(name)
        if view is None:
            return None
        period = LISTS_PERIOD if len(view.members) > SHARD_CARDS else SMALL_LISTS_PERIOD
        return await run_planner(view, partial(plan_pool, lists_in=self._listed.seconds_left(name, period)))

    async def _carry_out(self, name: str, plan: Plan) -> None:
        try:
            await self._execute(plan.actions)
        finally:  # an action after these may have been refused
            if writes_lists(plan):
                self._listed.mark_done(name)
            if writes_status(plan):
                self._status.note_written(name)

    async def _release_orphans(self, name: str) -> float | None:
        """The pool is gone: release the cards that still refer to it."""
        self._listed.forget(name)
        self._forget(name)
        plan = plan_orphans(self._world.without_pool(name), time.time())
        await self._execute(plan.actions)
        return plan.requeue_after
