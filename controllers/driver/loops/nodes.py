"""The loop over nodes. Steps that take a permit are made one after the other, each with the one before it in sight.

Several nodes at a time, each by one worker. Who waits for a permit is kept here and in no object: after a restart each
node asks anew.
"""

from __future__ import annotations

import time
from collections import deque
from typing import TYPE_CHECKING

from controllers.driver.node.plan import plan_node
from controllers.runtime.controller import Controller

if TYPE_CHECKING:
    import asyncio

    from controllers.api.driver_work import DriverWork
    from controllers.api.gpunodeinventory import GPUNodeInventory
    from controllers.domain.driver.states import StartPermit
    from controllers.driver.node.draft import NodePlan
    from controllers.driver.world import World
    from controllers.runtime.process import Process

WORKERS = 16
SETTLE = 0.15
"""Seconds from a change of a GPUDriver to the look at all nodes: many GPUDrivers may come at once, and each look ranks
them anew."""
WOKEN = 4
"""Nodes that are woken for each permit that comes free: the first may not be able to use it."""


class NodeController:
    """Reconciles nodes."""

    def __init__(self, process: Process, world: World, permits: asyncio.Lock) -> None:
        """Make the loop. `permits`: who has this lock alone takes permits."""
        self._execute, self._world, self._permits = process.executor.execute, world, permits
        # Who waits for which permit, in the order in which they came; a node that waits asks again by itself, too.
        self._waiting: dict[StartPermit, deque[str]] = {"preflight": deque(), "install": deque()}
        self.controller = Controller("driver-nodes", self._reconcile, workers=WORKERS)

    def enqueue_all(self) -> None:
        """Look at every node."""
        self.controller.add_all(inventory.name for inventory in self._world.caches.inventories)

    def enqueue_all_settled(self) -> None:
        """Look at every node soon."""
        for inventory in self._world.caches.inventories:
            self.controller.add_after(inventory.name, SETTLE)

    def inventory_changed(self, old: GPUNodeInventory | None, new: GPUNodeInventory | None) -> None:
        """Wake who waits for the permit that a node had, or for what it has proved."""
        before, after = _work(old), _work(new)
        if before is None or (after is not None and before.phase == after.phase):
            return
        if before.phase == "Preflight":
            self._enqueue_waiting("preflight")
        if before.phase in ("Installing", "Validating"):
            # What it has proved, the status of its GPUDriver says soon after: then all nodes are looked at.
            self._enqueue_waiting("install")

    def _enqueue_waiting(self, permit: StartPermit) -> None:
        waiting = self._waiting[permit]
        for _ in range(min(WOKEN, len(waiting))):
            self.controller.add(waiting.popleft())

    async def _reconcile(self, name: str) -> float | None:
        made = plan_node(self._world.node(name), time.time())
        if made.takes is not None:
            async with self._permits:
                # Planned again: others may have taken permits while this one waited for the lock.
                made = plan_node(self._world.node(name), time.time())
                await self._carry_out(name, made)
        else:
            await self._carry_out(name, made)
        return made.plan.requeue_after

    async def _carry_out(self, name: str, made: NodePlan) -> None:
        if made.missing is not None:
            self._world.note_missing(made.missing)
        if made.found is not None:
            self.controller.add_all(self._world.note_found(made.found))
        if made.awaits is not None and name not in self._waiting[made.awaits]:
            self._waiting[made.awaits].append(name)
        await self._execute(made.plan.actions)


def _work(inventory: GPUNodeInventory | None) -> DriverWork | None:
    return inventory.status.driver_work if inventory is not None else None
