"""The loop over the pods that wait: what wakes a pool's queue, and whose turn it was last."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING

from controllers.domain.request import pools_of
from controllers.gpupool import waiting
from controllers.gpupool.observe import BY_NODE
from controllers.runtime.controller import Controller

if TYPE_CHECKING:
    from controllers.api.gpudevice import GPUDevice
    from controllers.api.gpupool import GPUPool
    from controllers.api.kube import Node, Pod
    from controllers.gpupool.observe import World
    from controllers.runtime.process import Process

DELAY = 0.1
"""Seconds in which changes are collected, so that what ended is taken off the cards first."""


class Queues:
    """Reserves anew for the pods of each pool, by `controllers.gpupool.waiting`."""

    def __init__(self, process: Process, world: World) -> None:
        """Make the loop; `watch` connects it to the caches."""
        self._execute, self._world = process.executor.execute, world
        self._turns: dict[str, dict[str, waiting.Turn]] = {}
        self.controller = Controller("queues", self._reconcile, workers=4)

    async def _reconcile(self, pool: str) -> float | None:
        seen = waiting.observe(self._world, pool, self._turns.get(pool, {}))
        if seen is None:
            self._turns.pop(pool, None)
            return None
        now = time.time()
        made = waiting.plan(seen, now)
        self._turns[pool] = turns = dict(made.seen)  # also where a write below meets another's
        await self._execute(made.plan.actions)
        turns |= {request: replace(turns.get(request, waiting.Turn(now)), began=now) for request in made.served}
        return made.plan.requeue_after

    def watch(self) -> None:
        """Wake queues by changes."""
        world = self._world
        world.pods.subscribe(self._pod_changed)
        world.unadmitted.subscribe(self._pod_changed)
        world.devices.subscribe(self._device_changed)
        world.nodes.subscribe(self._node_changed)
        world.pools.subscribe(self._pool_changed)

    def everything(self) -> None:
        """Look at every queue."""
        self.controller.add_all(pool.name for pool in self._world.pools)

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        pod = new or old
        if pod is not None:
            for pool in pools_of(pod):
                self.controller.add_after(pool, DELAY)

    def _device_changed(self, old: GPUDevice | None, new: GPUDevice | None) -> None:
        for device in (old, new):
            if device is not None and device.status.pool_ref is not None:
                self.controller.add_after(device.status.pool_ref.name, DELAY)

    def _node_changed(self, old: Node | None, new: Node | None) -> None:
        node = new or old
        for device in self._world.devices.by(BY_NODE, node.name) if node else ():
            if device.status.pool_ref is not None:
                self.controller.add_after(device.status.pool_ref.name, DELAY)

    def _pool_changed(self, old: GPUPool | None, new: GPUPool | None) -> None:
        pool = new or old
        if pool is not None:
            self.controller.add_after(pool.name, DELAY)
