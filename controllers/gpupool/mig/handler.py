"""What a mode needs of the nodes beside settings of the plugin, and how far they are with it. Pure."""

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
    """How far the nodes are with the layout that the spec asks for."""

    done: bool = True
    """Every node reports it; a pool without cards has nothing to report."""
    pending: tuple[str, ...] = ()
    """Nodes that are at it."""
    failed: Mapping[str, str] = field(default_factory=dict)
    """Nodes with a card for which it did not come true or has drifted since, each with what went wrong."""
    due: float | None = None
    """When the first node that is at it will have had its time, in epoch seconds."""
    all_failed: bool = False
    """Whether it failed for all cards that are waited for, and none is left: others go on without one that failed."""


class LayoutHandler(Protocol):
    """What a mode needs of the nodes."""

    def progress(self, view: ObservedPool, layout: AllocationSpec, now: float) -> LayoutProgress:
        """How far the nodes are with a layout of this builder's mode, or with leaving it."""

    def is_ready(self, facts: NodeFacts, device: GPUDevice, layout: AllocationSpec) -> bool:
        """Whether a card is as the applied layout wants it, so that it can be offered: one may come in later."""

    def retry(self, view: ObservedPool, now: float) -> tuple[Action, ...] | None:
        """Writes that make the nodes try again what failed; None while that would hurt somebody."""


def maintenance_since(pool: GPUPool) -> float | None:
    """When the Maintenance that the pool tells of began, in epoch seconds; None where it tells of none."""
    told = find(pool.status.conditions, MAINTENANCE)
    if told is None or told.status != "True":
        return None
    try:
        return seconds(told.last_transition_time)
    except ValueError:
        return None
