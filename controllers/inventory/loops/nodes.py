"""The controller of nodes: from a node's view to the writes of its GPUDevices and its GPUNodeInventory."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from controllers.inventory.identity import node_of
from controllers.inventory.record.plan import plan
from controllers.runtime.controller import Controller

if TYPE_CHECKING:
    from controllers.api.gpudevice import GPUDevice
    from controllers.api.nodefeature import NodeFeature
    from controllers.api.settings import Settings
    from controllers.inventory.world import World
    from controllers.runtime.process import Process
    from controllers.runtime.settings import LiveSettings

WORKERS = 16


class NodeController:
    """Reconciles nodes; it remembers nothing between two passes."""

    def __init__(self, process: Process, world: World, settings: LiveSettings[Settings]) -> None:
        """Make the loop; `watch` subscribes it to the caches."""
        self._execute, self._world, self._settings = process.executor.execute, world, settings
        self.controller = Controller("inventory", self._reconcile, workers=WORKERS)

    async def _reconcile(self, name: str) -> float | None:
        made = plan(self._world.node(name), self._settings.current, time.time())
        await self._execute(made.actions)
        return made.requeue_after

    def watch(self) -> None:
        """Enqueue nodes on changes of what is cached about them, and every node once."""
        self._world.nodes.subscribe(self.controller.add_changed)
        self._world.inventories.subscribe(self.controller.add_changed)
        self._world.features.subscribe(self._feature_changed)
        self._world.devices.subscribe(self._device_changed)
        self._settings.subscribe(lambda _: self.enqueue_all())
        self.enqueue_all()

    def enqueue_all(self) -> None:
        """Look at every node."""
        self.controller.add_all(self._world.node_names())

    def _feature_changed(self, old: NodeFeature | None, new: NodeFeature | None) -> None:
        self.controller.add_all({feature.node for feature in (old, new) if feature is not None} - {""})

    def _device_changed(self, old: GPUDevice | None, new: GPUDevice | None) -> None:
        self.controller.add_all({node_of(device) for device in (old, new) if device is not None} - {""})
