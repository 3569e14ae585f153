"""Reconciles one GPU node: from the caches and the telemetry to the writes of its inventory, gates and cards."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from controllers.bootstrap.health.node import evaluate_node
from controllers.bootstrap.readiness.assess import assess
from controllers.bootstrap.readiness.plan import plan

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from controllers.api.settings import Settings
    from controllers.bootstrap.disruption_budget import DisruptionBudget
    from controllers.bootstrap.runtime_restarts import RuntimeRestarts
    from controllers.bootstrap.telemetry.monitor import HealthMonitor
    from controllers.bootstrap.world import World
    from controllers.runtime.plan import Action
    from controllers.runtime.settings import LiveSettings


class NodeReconciler:
    """The six steps of a pass; all but the last are one turn of the event loop, so that nothing comes in between."""

    def __init__(
        self,
        world: World,
        settings: LiveSettings[Settings],
        monitor: HealthMonitor,
        budget: DisruptionBudget,
        execute: Callable[[Iterable[Action]], Awaitable[None]],
        *,
        restarts: RuntimeRestarts,
    ) -> None:
        """`execute` carries a plan's actions out, and raises what the API server refuses."""
        self._world, self._settings, self._monitor = world, settings, monitor
        self._budget, self._restarts, self._execute = budget, restarts, execute

    async def reconcile(self, name: str) -> float | None:
        """Reconcile one node; returns the seconds after which to look again."""
        now, settings = time.time(), self._settings.current
        # 1. Observe: cut the view of the node out of the caches and of what its exporter told.
        seen = self._world.node(name, self._monitor.view(name, now))
        # 2. Evaluate the health of its monitoring and its cards, and remember the verdicts.
        health = evaluate_node(seen, self._monitor.limits, settings, now)
        self._monitor.remember(seen, health)
        # 3. Assess whether its cards may be in pools.
        found = assess(seen, health, settings, now, enabled=self._settings.enabled)
        # 4. Ask the fuse whether it may leave service now, and whose turn it is to restart its container runtime.
        held = self._budget.admit(name, found, now)
        runtime = self._restarts.admit(name, found)
        # 5. Plan the writes.
        made = plan(seen, found, held, self._monitor.limits, now, runtime=runtime)
        # 6. Execute them; warnings whose events were sent are not sent again.
        await self._execute(made.actions)
        self._monitor.acknowledge(health)
        return made.requeue_after
