"""The controller of GPUDevices: the end of their reservations, and their state."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from controllers.gpupool import metrics
from controllers.gpupool.queue.reservations import plan_card
from controllers.runtime.controller import Controller

if TYPE_CHECKING:
    from controllers.gpupool.world import World
    from controllers.runtime.process import Process

WORKERS = 16
"""A first start writes the state of every card."""


class CardController:
    """Reconciles cards."""

    def __init__(self, process: Process, world: World) -> None:
        """Make the controller."""
        self._execute, self._world = process.executor.execute, world
        self.controller = Controller("cards", self._reconcile, workers=WORKERS)

    async def _reconcile(self, name: str) -> float | None:
        view = self._world.card(name)
        if view is None:
            return None
        plan = plan_card(view, time.time())
        await self._execute(plan.actions)
        metrics.count_expired(view.device, plan)
        return plan.requeue_after
