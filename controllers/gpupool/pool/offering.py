"""Which cards of a GPUPool its device plugins are to offer now. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from controllers.gpupool.membership.assignment import is_offerable
from controllers.gpupool.operands.device_plugin import offer
from controllers.gpupool.pool.layouts import is_card_ready

if TYPE_CHECKING:
    from controllers.api.gpudevice import GPUDevice
    from controllers.gpupool.pool.state import PoolState
    from controllers.gpupool.views import ObservedPool


def should_offer(view: ObservedPool, state: PoolState, device: GPUDevice) -> bool:
    """Whether the node's plugin is to offer a member now."""
    if not state.offers or not is_offerable(view, device) or is_withheld_for_unknown_pods(view, state, device):
        return False
    if view.facts(device.status.node_name).elsewhere.plugin is not None:
        return False  # two plugins would give one card to two pods
    return is_card_ready(view, state.applied, device)


def is_withheld_for_unknown_pods(view: ObservedPool, state: PoolState, device: GPUDevice) -> bool:
    """Whether a card stays off the lists, since kubelet reports a pod on it that the cluster does not have.

    One that is offered as the pool has it now stays so: most such pods have just ended. What is still offered as before
    a change nobody may have waited for: more slots of it would be others' beside whoever runs there.
    """
    if device.name not in view.with_unknown_pods:
        return False
    current = offer(view.pool.name, state.applied, (device,)).of(device.status.inventory_id or "")
    return device.status.published != current
