"""GPUDevices of a GPUPool whose MIG layout is waited for, and how far each is. Pure.

A card that the bus or its node has lost, that an administrator has taken out of service, that is leaving, or on which
kubelet reports a pod that the cluster does not have, is not waited for; it is not offered either until it is
partitioned as it should be.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from controllers.domain.allocation import divided, is_applied
from controllers.domain.eligibility import blocked, check_mig_mode, check_mig_state, part_of
from controllers.domain.mig import DISABLED, CardLayout
from controllers.gpupool.mig.cards import is_whole
from controllers.gpupool.mig.handler import maintenance_since
from controllers.gpupool.mig.progress import NEVER, CardProgress, part_progress

if TYPE_CHECKING:
    from controllers.api.gpudevice import GPUDevice
    from controllers.api.gpupool import AllocationSpec
    from controllers.gpupool.views import ObservedPool


def card_progress(view: ObservedPool, device: GPUDevice, layout: AllocationSpec, now: float) -> CardProgress:
    """How far a card is that is waited for; one that is not counts as done."""
    return _card_progress(view, device, layout, now) if is_awaited(view, device) else CardProgress()


def awaited_cards(view: ObservedPool, layout: AllocationSpec, now: float) -> list[tuple[GPUDevice, CardProgress]]:
    """The cards that are waited for, each with how far it is."""
    return [(device, _card_progress(view, device, layout, now)) for device in view.members if is_awaited(view, device)]


def is_any_left(view: ObservedPool, layout: AllocationSpec, now: float) -> bool:
    """Whether a card that is not waited for, as its node is away for the moment, is as the layout asks."""
    others = (device for device in view.members if view.wants(device) and not is_awaited(view, device))
    return any(
        _card_progress(view, device, layout, now) == CardProgress() for device in others if blocked(device) is None
    )


def failures_by_node(cards: list[tuple[GPUDevice, CardProgress]]) -> dict[str, str]:
    """What went wrong, by node: the first card of each."""
    failures: dict[str, str] = {}
    for device, found in cards:
        if found.failed is not None:
            failures.setdefault(device.status.node_name or "", f"{device.status.inventory_id}: {found.failed}")
    return failures


def is_awaited(view: ObservedPool, device: GPUDevice) -> bool:
    """Whether the pool waits for the layout of a card."""
    node = view.facts(device.status.node_name).node
    if node is None or not node.ready or blocked(device) is not None or device.name in view.with_unknown_pods:
        return False
    # One that others have is partitioned when they have ended: the others do not wait for strangers.
    return not device.status.foreign_allocations and view.wants(device)


def desired_card_layout(device: GPUDevice, layout: AllocationSpec) -> CardLayout | str | None:
    """How the card is to be partitioned, or why it cannot be; None where that is not known yet."""
    return divided(device, layout) if layout.mode == "MIG" else DISABLED


def _card_progress(view: ObservedPool, device: GPUDevice, layout: AllocationSpec, now: float) -> CardProgress:
    """How far one card is with a layout."""
    facts, desired = view.facts(device.status.node_name), desired_card_layout(device, layout)
    if isinstance(desired, str):
        return CardProgress(failed=desired)
    part = part_of(facts.layout, device)
    if desired == DISABLED and is_whole(facts, device):
        return CardProgress()
    if part is None and layout.mode == "MIG" and not facts.ready and check_mig_state(device) is not None:
        # The reporting agent is not there yet: the node is being prepared, and has as long for that as for a layout.
        due = _maintenance_deadline(view)
        return CardProgress(due=due) if now < due else CardProgress(failed=str(check_mig_state(device)))
    # A pool that serves does not halt for it: only that card is not offered, and its condition tells why.
    if part is None and not is_applied(view.pool) and (why := check_mig_mode(layout.mode, part, device)) is not None:
        return CardProgress(failed=str(why))
    if part is None or part.layout != desired:
        return CardProgress(due=NEVER)
    return part_progress(view, device, part, now)


def _maintenance_deadline(view: ObservedPool) -> float:
    """Until when the pool waits for its nodes, in epoch seconds; NEVER before condition Maintenance is written."""
    began = maintenance_since(view.pool)
    return NEVER if began is None else began + view.settings.maintenance.deadline
