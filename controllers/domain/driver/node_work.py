"""What the work on a node's driver means for who else has to do with the node. Pure.

gpu-driver-controller says in `status.driverWork` what it does. It is believed up to the deadline that it gives itself:
a process that is away keeps no node out of service.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from controllers.api.driver_work import CLOSED, OUT_OF_SERVICE
from controllers.domain.clock import SKEW, begun, seconds

if TYPE_CHECKING:
    from controllers.api.driver_work import DriverWork, Phase
    from controllers.api.kube import Node

PLANNED: Final[frozenset[Phase]] = OUT_OF_SERVICE | {"Validating", "Relayout", "Returning"}
"""Phases in which a node that is not ready is so for the driver's sake."""
STUCK: Final[frozenset[Phase]] = frozenset(("Blocked", "Deferred", "Failed", "RolledBack", "Broken"))
"""Phases in which nothing goes on by itself for now."""
ABSENT_MAX: Final = 3600.0
"""Seconds for which limits stand still while the node is not Ready."""


@dataclass(frozen=True, slots=True)
class NodeWork:
    """The work on one node, at one moment."""

    work: DriverWork | None = None
    is_overdue: bool = False
    """Whether its phase should be over, so that nothing follows from it."""
    left: float = 0.0
    """Seconds until it is overdue; 0 where it is, or never will be."""

    @property
    def is_out(self) -> bool:
        """Whether it is decided that the node is out of service."""
        return self._is_in(OUT_OF_SERVICE)

    @property
    def is_planned(self) -> bool:
        """Whether a node that is not ready is so for the driver's sake, and nobody's failure."""
        return self._is_in(PLANNED)

    @property
    def is_closed(self) -> bool:
        """Whether nothing of the module may hold the driver open."""
        return self._is_in(CLOSED)

    @property
    def is_handed_over(self) -> bool:
        """Whether a person has the node for work of their own, and nothing of the module's uses its driver."""
        return self.work is not None and self.work.phase == "HandedOver"

    @property
    def is_stuck(self) -> bool:
        """Whether somebody has to do something before it goes on."""
        return self.work is not None and self.work.phase in STUCK

    def _is_in(self, phases: frozenset[Phase]) -> bool:
        return self.work is not None and self.work.phase in phases and not self.is_overdue


NONE: Final = NodeWork()


def ready_changed(node: Node, now: float) -> float | None:
    """When kubelet was last heard of again, or no more, in seconds since the epoch; None where nobody tells."""
    changed = next((one.last_transition_time for one in node.status.conditions if one.type == "Ready"), None)
    return begun(changed, now) if changed is not None else None


def limit_at(limit: float, since: float, node: Node, now: float) -> float:
    """When a limit passes of what began at `since`, in seconds since the epoch, as all arguments are.

    It stands still while the node is not Ready, as while it starts anew, for an hour at most.
    """
    at = ready_changed(node, now)
    if at is None:
        return limit
    came_back = limit + max(0.0, at - since)
    return min(limit + ABSENT_MAX, max(limit, came_back if node.ready else at + ABSENT_MAX))


def work_on(work: DriverWork | None, node: Node, now: float) -> NodeWork:
    """The work on a node; none where it was for another one of the same name.

    `now` in seconds since the epoch. The deadline is another machine's time: it passes once clocks that differ agree.
    """
    if work is None or work.node_uid != node.metadata.uid:
        return NONE
    if work.deadline is None:
        # A hand-over lasts as long as a person wants. Of all else that takes a node out of service there is an end.
        return NodeWork(work, is_overdue=work.phase in PLANNED and work.phase != "HandedOver")
    try:
        left = limit_at(seconds(work.deadline), begun(work.since, now), node, now) + SKEW - now
    except ValueError:
        return NodeWork(work, is_overdue=True)
    return NodeWork(work, is_overdue=left <= 0, left=max(0.0, left))
