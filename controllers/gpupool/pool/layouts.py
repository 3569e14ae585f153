"""How far the nodes of a GPUPool are with its layout, whatever its allocation mode. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from controllers.domain.allocation import applied, wanted
from controllers.gpupool.mig.handler import LayoutProgress
from controllers.gpupool.mig.modes import MIGMode, WholeCardMode
from controllers.gpupool.pool.mps_mode import MpsMode

if TYPE_CHECKING:
    from controllers.api.gpudevice import GPUDevice
    from controllers.api.gpupool import AllocationSpec, Mode
    from controllers.gpupool.mig.handler import LayoutHandler
    from controllers.gpupool.views import ObservedPool
    from controllers.runtime.plan import Action

HANDLERS: dict[Mode, LayoutHandler] = {
    "Exclusive": WholeCardMode(),
    "TimeSlice": WholeCardMode(),
    "MPS": MpsMode(),
    "MIG": MIGMode(),
}
"""One for each mode that this version serves."""


def layout_progress(view: ObservedPool, now: float) -> LayoutProgress:
    """How far the nodes are, by the mode that they are to have and by the one that they leave."""
    layout = wanted(view.pool)
    parts = [handler.progress(view, layout, now) for handler in _handlers(layout, applied(view.pool))]
    return LayoutProgress(
        all(part.done for part in parts),
        tuple(dict.fromkeys(node for part in parts for node in part.pending)),
        {node: why for part in parts for node, why in part.failed.items()},
        min((part.due for part in parts if part.due is not None), default=None),
        any(part.all_failed for part in parts),
    )


def is_card_ready(view: ObservedPool, layout: AllocationSpec, device: GPUDevice) -> bool:
    """Whether a card is as a layout wants it."""
    facts = view.facts(device.status.node_name)
    return all(handler.is_ready(facts, device, layout) for handler in _handlers(layout))


def retry_layouts(view: ObservedPool, now: float, *layouts: AllocationSpec) -> list[Action] | None:
    """Writes that make the nodes try again what failed with these layouts; None while that has to wait for somebody."""
    actions: list[Action] = []
    for handler in _handlers(*layouts):
        if (writes := handler.retry(view, now)) is None:
            return None
        actions += (action for action in writes if action not in actions)
    return actions


def _handlers(*layouts: AllocationSpec) -> list[LayoutHandler]:
    """The handlers that apply or remove some of these layouts."""
    return [HANDLERS[mode] for mode in dict.fromkeys(layout.mode for layout in layouts) if mode in HANDLERS]
