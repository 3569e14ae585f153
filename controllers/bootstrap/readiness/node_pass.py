"""One pass over one node: what its view comes to, from the health of its cards to the writes. Pure.

It changes nothing but the two memories that it is handed, the budget and the turns. What it concludes of health is to
be remembered by whoever keeps the telemetry: a pass whose verdicts are lost is made again, to the same end.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from controllers.bootstrap.health.node import evaluate_node
from controllers.bootstrap.readiness.assess import assess
from controllers.bootstrap.readiness.plan import plan

if TYPE_CHECKING:
    from controllers.api.settings import Settings
    from controllers.bootstrap.health.limits import Limits
    from controllers.bootstrap.health.node import NodeHealth
    from controllers.bootstrap.readiness.disruption_budget import DisruptionBudget
    from controllers.bootstrap.readiness.runtime_restarts import RuntimeRestarts
    from controllers.bootstrap.views import ObservedNode
    from controllers.runtime.plan import Plan


@dataclass(frozen=True, slots=True)
class NodePass:
    """What a pass came to."""

    health: NodeHealth
    """The verdicts on the node's monitoring and its cards, to be remembered."""
    plan: Plan


def pass_over_node(
    seen: ObservedNode,
    limits: Limits,
    settings: Settings,
    now: float,
    *,
    budget: DisruptionBudget,
    restarts: RuntimeRestarts,
    enabled: bool = True,
) -> NodePass:
    """Go over a node; `now` in seconds since the epoch, `enabled`: whether the module is."""
    # 1. Evaluate the health of its monitoring and its cards.
    health = evaluate_node(seen, limits, settings, now)
    # 2. Assess whether its cards may be in pools.
    found = assess(seen, health, settings, now, enabled=enabled)
    # 3. Ask the fuse whether it may leave service now, and whose turn it is to restart its container runtime.
    held = budget.admit(seen.name, found, now)
    runtime = restarts.admit(seen.name, found)
    # 4. Plan the writes.
    return NodePass(health, plan(seen, found, held, limits, now, runtime=runtime))
