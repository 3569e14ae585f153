"""Layout handler of mode MPS: whole cards, each with a control daemon of NVIDIA's Multi-Process Service. Pure.

A daemon comes when its card is on the list, and the node's plugin offers the card once the daemon is Ready; so nothing
is to be built before. A change waits until the former daemons are gone: the next settings, or the next mode, begin on a
card whose compute mode is the driver's own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from controllers.api.conditions import FAULTED, INVENTORY_INCOMPLETE, is_true
from controllers.domain.allocation import is_applied
from controllers.gpupool.mig.handler import LayoutProgress
from controllers.gpupool.mig.modes import WholeCardMode

if TYPE_CHECKING:
    from controllers.api.gpudevice import GPUDevice
    from controllers.api.gpupool import AllocationSpec
    from controllers.gpupool.views import ObservedPool


class MpsMode(WholeCardMode):
    """MPS: what is asked of MIG mode is as for other whole cards."""

    def progress(self, view: ObservedPool, layout: AllocationSpec, now: float) -> LayoutProgress:
        """Done when no former daemon is left; while the pool changes nothing, there is nothing to wait for."""
        whole = super().progress(view, layout, now)
        if is_applied(view.pool):
            return whole
        pending = sorted({device.status.node_name or "" for device in view.members if _has_daemon(view, device)})
        return LayoutProgress(not pending, tuple(pending), whole.failed)


def _has_daemon(view: ObservedPool, device: GPUDevice) -> bool:
    """Whether a daemon is waited for; of a node that is away, or a card that is lost or faulted, nobody would tell."""
    node = view.facts(device.status.node_name).node
    is_lost = any(is_true(device.status.conditions, kind) for kind in (FAULTED, INVENTORY_INCOMPLETE))
    return device.status.mps is not None and node is not None and node.ready and not is_lost
