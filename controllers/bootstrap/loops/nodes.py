"""The controller of nodes: from the caches and the telemetry to the writes of a node's inventory, gates and cards."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from controllers.bootstrap.readiness.disruption_budget import DisruptionBudget
from controllers.bootstrap.readiness.node_pass import pass_over_node
from controllers.bootstrap.readiness.runtime_restarts import RuntimeRestarts
from controllers.bootstrap.telemetry.metrics import FUSE_HELD
from controllers.bootstrap.telemetry.monitor import HealthMonitor
from controllers.runtime.controller import Controller

if TYPE_CHECKING:
    from collections.abc import Callable

    from controllers.api.agent_report import Report
    from controllers.api.conditions import Finding
    from controllers.api.settings import Settings
    from controllers.bootstrap.readiness.node_pass import NodePass
    from controllers.bootstrap.records import Card
    from controllers.bootstrap.world import World
    from controllers.runtime.process import Process
    from controllers.runtime.settings import LiveSettings


class NodeController:
    """Reconciles nodes, and keeps what outlives a pass: telemetry, who may leave service, who may restart its runtime.

    Lives while the process leads, and is used from its event loop only. All of it may be lost at any moment.
    """

    def __init__(
        self,
        process: Process,
        world: World,
        settings: LiveSettings[Settings],
        report_outage: Callable[[Finding], None],
    ) -> None:
        """Make the loop; `report_outage` is called when so many nodes are silent that the fault is taken to be ours."""
        self._execute, self._world, self._settings = process.executor.execute, world, settings
        self.controller = Controller("bootstrap", self._reconcile, workers=16)
        self.monitor = HealthMonitor(world, lambda: settings.current, self.controller.add, report_outage)
        self._budget = DisruptionBudget(world.fleet, lambda: settings.current.health.max_unavailable_percent)
        self._restarts = RuntimeRestarts(
            world.inventories, lambda: settings.current.bootstrap.container_toolkit.runtime_restarts
        )

    async def _reconcile(self, name: str) -> float | None:
        made = self.plan(name, time.time())
        await self._execute(made.plan.actions)
        self.monitor.acknowledge(made.health)  # warnings whose events were sent are not sent again
        return made.plan.requeue_after

    def plan(self, name: str, now: float) -> NodePass:
        """Plan what to write of a node, and remember what it came to; nothing may come in between, so nothing waits."""
        seen = self._world.node(name, self.monitor.view(name, now))
        made = pass_over_node(
            *(seen, self.monitor.limits, self._settings.current, now),
            budget=self._budget,
            restarts=self._restarts,
            enabled=self._settings.enabled,
        )
        self.monitor.remember(seen, made.health)
        FUSE_HELD.labels("node", "nodes").set(self._budget.held)
        return made

    def watch(self) -> None:
        """Enqueue nodes on changes of what is cached about them."""
        self._world.nodes.subscribe(self.controller.add_changed)
        self._world.inventories.subscribe(self.controller.add_changed)
        self._world.features.subscribe(self._feature_changed)
        self._world.devices.subscribe(self._device_changed)

    def _feature_changed(self, old: Report | None, new: Report | None) -> None:
        nodes = {feature.node for feature in (old, new) if feature is not None and feature.is_agent_report}
        self.controller.add_all(nodes)

    def _device_changed(self, old: Card | None, new: Card | None) -> None:
        if new is None and old is not None:
            self.monitor.forget_card(old.name)
        nodes = {device.status.node_name for device in (old, new) if device and device.status.node_name}
        self.controller.add_all(nodes)
