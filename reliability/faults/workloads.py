"""What people and machines do while something breaks: short stories over a ground with two ready nodes of two cards.

Each ends in a state that does not depend on luck: who got which of two equal cards is either no matter any more, or
said in `alike` (patterns, and what stands for all that match). No two name a pool alike to which they give the same
cards: a process tells an event once in ten minutes, so that the other's references would lack it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from reliability.faults import hasty, stories

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from reliability.faults.hands import Hands


@dataclass(frozen=True)
class Workload:
    """A story."""

    name: str
    tell: Callable[[Hands], Awaitable[None]]
    alike: tuple[tuple[str, str], ...] = ()
    hasty: bool = False
    """Whether it is luck what is made and deleted on the way: the end alone is the reference's."""
    luck: tuple[str, ...] = ()
    """Paths that tell at the end of what was seen on the way."""


PODS = ((r"\bp-\d\b", "p"),)
WORKLOADS = {
    made.name: made
    for made in (
        Workload("join", stories.join),
        Workload("vanish", stories.vanish),
        Workload("lost", stories.lost),
        Workload("recreate", stories.recreate),
        Workload("again", stories.again),
        Workload("driver", stories.driver),
        Workload("exporter", stories.exporter),
        Workload("pool", stories.pool),
        Workload("shrink", stories.shrink),
        Workload("reassign", stories.reassign),
        Workload("handover", stories.handover),
        Workload("burst", stories.burst, PODS),
        Workload("pairs", stories.pairs, PODS),
        Workload("expiry", stories.expiry),
        Workload("maintenance", stories.maintenance),
        Workload("layout", stories.layout),
        Workload("settings", stories.settings),
        Workload("disable", stories.disable),
        Workload("dangling", stories.dangling),
        Workload("ignored", stories.ignored),
        Workload("returned", stories.returned),
        Workload("hasty-assign", hasty.assign, hasty=True),
        Workload("hasty-pool", hasty.pool, hasty=True),
        Workload("hasty-allocation", hasty.allocation, hasty=True, luck=("GPUPool turns.status.lastReconfigured",)),
        Workload("hasty-disable", hasty.disable, hasty=True),
        Workload("hasty-pods", hasty.pods, hasty=True),
    )
}
