"""The workloads during which faults are injected: scenarios in an environment of two nodes of two cards.

Each ends in a state that does not depend on luck: who got which of two equal cards is either no matter any more, or
said in `alike` (patterns, and what stands for all that match). No two name a pool alike to which they give the same
cards: a process tells an event once in ten minutes, so that the other's references would lack it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from reliability.faults import (
    scenarios,
    scenarios_driver,
    scenarios_interrupted,
    scenarios_queue,
    scenarios_revoked,
    scenarios_roll,
    scenarios_stack,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from reliability.faults.stack_actors import StackActors


@dataclass(frozen=True)
class Workload:
    """A story."""

    name: str
    tell: Callable[[StackActors], Awaitable[None]]
    alike: tuple[tuple[str, str], ...] = ()
    hasty: bool = False
    """Whether it is luck what is made and deleted on the way: the end alone is the reference's."""
    luck: tuple[str, ...] = ()
    """Paths that tell at the end of what was seen on the way."""


PODS = ((r"\bp-\d\b", "p"),)
BARE = ((r"\bbare-\d\b", "bare"),)
"""Of two nodes of a kind it is luck which one is the first."""
FIRST_OF_ITS_KIND = "GPUDriver main.status.strata[ubuntu24.04 6.8.0-71-generic Open 26b9].canary"
"""The same, where the story needs both names."""
DRIVER_PODS = ((r"\bnvidia-driver-daemonset-[0-9a-z]{5}\b", "nvidia-driver-daemonset"),)
"""Of another operator, which nothing keeps any more: their names are new each time."""
WORKLOADS = {
    made.name: made
    for made in (
        Workload("join", scenarios.join),
        Workload("vanish", scenarios.vanish),
        Workload("lost", scenarios.lost),
        Workload("recreate", scenarios.recreate),
        Workload("again", scenarios.again),
        Workload("driver", scenarios.driver),
        Workload("exporter", scenarios.exporter),
        Workload("pool", scenarios.pool),
        Workload("shrink", scenarios.shrink),
        Workload("reassign", scenarios.reassign),
        Workload("handover", scenarios.handover),
        Workload("burst", scenarios.burst, PODS),
        Workload("pairs", scenarios.pairs, PODS),
        Workload("expiry", scenarios.expiry),
        Workload("maintenance", scenarios.maintenance),
        Workload("layout", scenarios.layout),
        Workload("settings", scenarios.settings),
        Workload("disable", scenarios.disable),
        Workload("dangling", scenarios.dangling),
        Workload("ignored", scenarios.ignored),
        Workload("returned", scenarios.returned),
        Workload("queue", scenarios_queue.queue),
        Workload("gang", scenarios_queue.gang, PODS),
        Workload("foreign", scenarios_queue.foreign),
        Workload("limit", scenarios_queue.limit),
        Workload("queue-disable", scenarios_queue.disable),
        Workload("queue-pool-gone", scenarios_queue.pool_gone),
        Workload("driver-install", scenarios_driver.install),
        Workload("driver-new-node", scenarios_driver.new_node),
        Workload("driver-retarget", scenarios_driver.retarget),
        Workload("driver-delete", scenarios_driver.delete),
        Workload("driver-roll", scenarios_roll.roll),
        Workload("driver-second-thoughts", scenarios_roll.second_thoughts, BARE, luck=(FIRST_OF_ITS_KIND,)),
        Workload("driver-bad", scenarios_roll.bad, BARE),
        Workload("driver-drain", scenarios_roll.drain, (*PODS, *BARE)),
        Workload("driver-pause-resume", scenarios_roll.pause_resume, (*PODS, *BARE)),
        Workload("driver-hand-over", scenarios_roll.hand_over, luck=(FIRST_OF_ITS_KIND,)),
        Workload("driver-meddled", scenarios_interrupted.meddled),
        Workload("driver-remade", scenarios_interrupted.remade, PODS),
        Workload("driver-uncontrolled", scenarios_interrupted.uncontrolled, BARE),
        Workload("toolkit-change", scenarios_stack.toolkit_change),
        Workload("takeover", scenarios_stack.takeover, DRIVER_PODS),
        Workload("mps", scenarios_stack.mps),
        Workload("hasty-assign", scenarios_revoked.assign, hasty=True),
        Workload("hasty-pool", scenarios_revoked.pool, hasty=True),
        Workload(
            "hasty-allocation",
            scenarios_revoked.allocation,
            hasty=True,
            luck=("GPUPool turns.status.lastReconfigured",),
        ),
        Workload("hasty-disable", scenarios_revoked.disable, hasty=True),
        Workload("hasty-pods", scenarios_revoked.pods, hasty=True),
    )
}
