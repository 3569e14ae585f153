"""The interface of an allocation mode's layout: what it needs of the nodes, and how far they are with it. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from controllers.api.conditions import MAINTENANCE, find
from controllers.domain.clock import seconds

if TYPE_CHECKING:
    from collections.abc import Mapping

    from controllers.api.gpudevice import GPUDevice
    from controllers.api.gpupool import AllocationSpec, GPUPool
    from controllers.gpupool.views import NodeFacts, ObservedPool
    from controllers.runtime.plan import Action


@dataclass(frozen=True, slots=True)
class LayoutProgress:
    """How far the nodes are with a layout."""

    done: bool = True
    """Every node reports it; a pool without cards has nothing to report."""
    pending: tuple[str, ...] = ()
    """Nodes that are applying it."""
    failed: Mapping[str, str] = field(default_factory=dict)
    """Nodes with a card for which it did not come true or has drifted since, each with what went wrong."""
    due: float | None = None
    """When the deadline of the first node that is applying it ends, in epoch seconds."""
    all_failed: bool = False
    """Whether it failed for all cards that are waited for, and none is left; else the pool goes on."""


class LayoutHandler(Protocol):
    """What a mode needs of the nodes."""

    def progress(self, view: ObservedPool, layout: AllocationSpec, now: float) -> LayoutProgress:
        """How far the nodes are with a layout of this mode, or with leaving it."""

    def is_ready(self, facts: NodeFacts, device: GPUDevice, layout: AllocationSpec) -> bool:
        """Whether a card is as the applied layout wants it, so that it can be offered: one may come in later."""

    def retry(self, view: ObservedPool, now: float) -> tuple[Action, ...] | None:
        """Writes that make the nodes try again what failed; None while that would hurt somebody."""


def maintenance_since(pool: GPUPool) -> float | None:
    """When condition Maintenance of a pool became true, in epoch seconds; None where it is not true."""
    condition = find(pool.status.conditions, MAINTENANCE)
    if condition is None or condition.status != "True":
        return None
    try:
        return seconds(condition.last_transition_time)
    except ValueError:
        return None
