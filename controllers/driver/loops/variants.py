"""The loop over variants: their DaemonSets and ConfigMaps. Two at a time, each by one worker; it keeps nothing."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from controllers.driver.variants import plan_variant
from controllers.runtime.controller import Controller

if TYPE_CHECKING:
    from collections.abc import Iterable

    from controllers.driver.world import World
    from controllers.runtime.process import Process

SETTLE = 1.0
"""Seconds after a change until variants are looked at: nobody waits for it."""


class VariantController:
    """Reconciles variants."""

    def __init__(self, process: Process, world: World) -> None:
        """Make the loop."""
        self._execute, self._world = process.executor.execute, world
        self.controller = Controller("driver-variants", self._reconcile, workers=2)

    def enqueue_all(self) -> None:
        """Look at every variant that has an object, or that a node has."""
        self.enqueue_settled(self._world.caches.variants())

    def enqueue_settled(self, variants: Iterable[str]) -> None:
        """Look at these variants soon."""
        for value in variants:
            self.controller.add_after(value, SETTLE)

    async def _reconcile(self, value: str) -> float | None:
        made = plan_variant(self._world.variant(value), time.time())
        await self._execute(made.actions)
        return made.requeue_after
