"""The loop over roll-outs. One worker: starts are made one after the other, each with those before it in sight.

It keeps nothing: what was started is in the nodes' `driverWork`, which a write has put into the cache when it returns.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from controllers.driver.rollout.plan import plan_rollout
from controllers.runtime.controller import Controller

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Iterable

    from controllers.driver.world import World
    from controllers.runtime.process import Process

SETTLE = 0.15
"""Seconds from a change until the starts that it allows are looked for: a plan looks through all nodes."""


class RolloutController:
    """Reconciles the roll-outs of GPUDrivers."""

    def __init__(self, process: Process, world: World, permits: asyncio.Lock) -> None:
        """Make the loop. `permits`: the lock under which permits are taken, here and by the loop over nodes."""
        self._execute, self._world, self._permits = process.executor.execute, world, permits
        self.controller = Controller("driver-rollouts", self._reconcile, workers=1)

    def enqueue_all(self) -> None:
        """Look at every roll-out soon: what one node is at concerns all that share a pool with it."""
        self.enqueue_settled(driver.name for driver in self._world.caches.drivers)

    def enqueue_settled(self, drivers: Iterable[str]) -> None:
        """Look at the roll-outs of these GPUDrivers soon."""
        for name in drivers:
            self.controller.add_after(name, SETTLE)

    async def _reconcile(self, name: str) -> float | None:
        async with self._permits:
            observed = self._world.rollout(name)
            if observed is None:
                return None
            made = plan_rollout(observed, time.time()).plan
            await self._execute(made.actions)
        return made.requeue_after
