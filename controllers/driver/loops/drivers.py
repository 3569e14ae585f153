"""The loop over GPUDrivers: nobody waits for their statuses, so changes settle first.

Several at a time, each by one worker. When each was written last is kept for the rhythm alone, until it is gone.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from controllers.api.resources import GPUDRIVER
from controllers.driver.drivers.plan import plan_driver
from controllers.runtime.controller import Controller
from controllers.runtime.pace import Pace
from controllers.runtime.plan import Apply

if TYPE_CHECKING:
    from collections.abc import Iterable

    from controllers.driver.world import World
    from controllers.runtime.process import Process

SETTLE = 0.5
"""Seconds from a GPUDriver's first change to the write of its status."""
STATUS_PERIOD = 1.0
"""Seconds between two writes of one GPUDriver's status: it lists up to 500 nodes."""


class DriverController:
    """Reconciles GPUDrivers."""

    def __init__(self, process: Process, world: World) -> None:
        """Make the loop."""
        self._execute, self._world = process.executor.execute, world
        self._written = Pace()
        self.controller = Controller("drivers", self._reconcile, workers=4)

    def enqueue_all(self) -> None:
        """Look at every GPUDriver."""
        self.enqueue_settled(driver.name for driver in self._world.caches.drivers)

    def enqueue_settled(self, drivers: Iterable[str]) -> None:
        """Look at these GPUDrivers once their changes have settled."""
        for name in drivers:
            self.controller.add_after(name, SETTLE)

    async def _reconcile(self, name: str) -> float | None:
        seen = self._world.driver(name)
        if seen is None:
            self._written.forget(name)
            return None
        wait = self._written.seconds_left(name, STATUS_PERIOD)
        made = plan_driver(seen, time.time(), status_in=wait)
        await self._execute(made.actions)
        if any(isinstance(one, Apply) and one.ref.resource is GPUDRIVER and one.subresource for one in made.actions):
            self._written.mark_done(name)
        return made.requeue_after
