"""The controller of pools' taints on Nodes: what enqueues a node."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from controllers.gpupool.caches import BY_POOL
from controllers.gpupool.node import taints
from controllers.runtime.controller import Controller

if TYPE_CHECKING:
    from controllers.api.gpudevice import GPUDevice
    from controllers.api.gpupool import GPUPool
    from controllers.api.kube import Node
    from controllers.gpupool.world import World
    from controllers.runtime.process import Process


class TaintController:
    """Keeps the taints of nodes, by `controllers.gpupool.node.taints`."""

    def __init__(self, process: Process, world: World) -> None:
        """Make the loop; `watch` connects it to the caches."""
        self._execute, self._world = process.executor.execute, world
        self.controller = Controller("taints", self._reconcile, workers=4)

    async def _reconcile(self, name: str) -> float | None:
        view = self._world.taints(name, time.time())
        if view is None:
            return None
        plan = taints.plan_taints(view)
        await self._execute(plan.actions)
        return plan.requeue_after

    def watch(self) -> None:
        """Enqueue nodes by changes."""
        self._world.nodes.subscribe(self._node_changed)
        self._world.devices.subscribe(self._device_changed)
        self._world.pools.subscribe(self._pool_changed)

    def enqueue_all(self) -> None:
        """Look at every node."""
        self.controller.add_all(node.name for node in self._world.nodes)

    def _node_changed(self, old: Node | None, new: Node | None) -> None:
        if new is not None and (old is None or (old.spec, old.metadata) != (new.spec, new.metadata)):
            self.controller.add(new.name)

    def _device_changed(self, old: GPUDevice | None, new: GPUDevice | None) -> None:
        was, now = (
            (device.home, device.status.node_name, device.status.published is None) if device else None
            for device in (old, new)
        )
        if was != now:
            self.controller.add_all({d.status.node_name for d in (old, new) if d is not None and d.status.node_name})

    def _pool_changed(self, old: GPUPool | None, new: GPUPool | None) -> None:
        pool = new or old
        if pool is not None and (old is None or new is None or old.spec.scheduling != new.spec.scheduling):
            members = self._world.devices.by(BY_POOL, pool.name)
            self.controller.add_all({device.status.node_name for device in members if device.status.node_name})
