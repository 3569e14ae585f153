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

    from controllers.api.conditions import Finding
    from controllers.api.settings import Settings
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
        """Reconcile one node; all but the writes is one turn of the event loop, so that nothing comes in between."""
        now, monitor = time.time(), self.monitor
        seen = self._world.node(name, monitor.view(name, now))
        made = pass_over_node(
            *(seen, monitor.limits, self._settings.current, now),
            budget=self._budget,
            restarts=self._restarts,
            enabled=self._settings.enabled,
        )
        monitor.remember(seen, made.health)
        FUSE_HELD.labels("node", "nodes").set(self._budget.held)
        await self._execute(made.plan.actions)
        monitor.acknowledge(made.health)  # warnings whose events were sent are not sent again
        return made.plan.requeue_after
