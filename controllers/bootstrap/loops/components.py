"""The controller of components: their DaemonSets, ConfigMaps and RuntimeClasses, which no node has for itself."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from controllers.bootstrap import components
from controllers.components import cooldown
from controllers.domain.agents import api_server
from controllers.runtime.controller import Controller

if TYPE_CHECKING:
    from controllers.api.settings import Settings
    from controllers.bootstrap.records import Operand
    from controllers.bootstrap.world import World
    from controllers.runtime.process import Process
    from controllers.runtime.settings import LiveSettings

ALL = "all"
"""The only key."""
SETTLE = 0.5
"""Seconds from a DaemonSet's change until components are looked at: each node that joins changes each status."""


class ComponentController:
    """Keeps the components as they are built; one look is at all of them."""

    def __init__(self, process: Process, world: World, settings: LiveSettings[Settings]) -> None:
        """Make the loop."""
        self._execute, self._world, self._settings = process.executor.execute, world, settings
        self._agent_image, self._driver_root = process.args.agent_image, process.args.agent_driver_root
        self._agent_env = api_server(process.args.agent_api_server_host, process.args.agent_api_server_port)
        self.controller = Controller("components", self._reconcile, workers=1)

    async def _reconcile(self, _: str) -> float | None:
        made = components.plan(
            self._world.operands(),
            self._settings.current.bootstrap,
            self._agent_image,
            self._agent_env,
            self._driver_root,
            now=time.time(),
            enabled=self._settings.enabled,
        )
        await self._execute(made.actions)
        return made.requeue_after

    def watch(self) -> None:
        """Look at the components when an object that is theirs changes."""
        self._world.daemonsets.subscribe(self._daemonset_changed)
        self._world.configmaps.subscribe(lambda _, __: self.enqueue())
        self._world.runtime_classes.subscribe(lambda _, __: self.enqueue())

    def enqueue(self) -> None:
        """Look at the components soon."""
        self.controller.add(ALL)

    def _daemonset_changed(self, old: Operand | None, new: Operand | None) -> None:
        cooldown.record_deletion(self._world.deleted_at, old, new, time.time())
        self.controller.add_after(ALL, SETTLE)
