"""When a card's division is asked for again without a person, and how often. Pure.

Each version of a card's part is tried once. Two reasons for its not having come true, or not being so any more, are
known to be over: the driver was loaded anew, as by a reboot, and MIG instances ended with it; and others had the card,
and have ended. Whatever is asked for again so counts, card by card, in the node's layout: a driver that dies of the
division itself, or strangers who come back each time, end as LayoutFailed until a person resumes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from controllers.gpupool.mig.cards import acknowledged

if TYPE_CHECKING:
    from controllers.api.gpudevice import GPUDevice, MigApply
    from controllers.api.kube import Node
    from controllers.domain.mig import PlannedCard

RETRIES_MAX: Final = 2
"""So often a card is asked for again by itself in one boot of its node."""


def boot_of(node: Node | None) -> str:
    """The present boot of a node, as its kubelet tells it; empty where it does not."""
    return node.status.node_info.boot_id if node is not None else ""


def is_of_another_boot(told: MigApply, node: Node | None) -> bool:
    """Whether the node was started since a MIG manager said this, as far as both tell."""
    boot = boot_of(node)
    return bool(told.boot_id and boot) and told.boot_id != boot


def retries_in_boot(part: PlannedCard, node: Node | None) -> int:
    """How often the card was asked for again by itself in this boot of its node."""
    return part.again if part.boot == boot_of(node) else 0


def may_retry(part: PlannedCard, node: Node | None) -> bool:
    """Whether it may be once more."""
    return retries_in_boot(part, node) < RETRIES_MAX


def is_used_by_others(part: PlannedCard, device: GPUDevice) -> bool:
    """Whether others have, or have had, the card since its work failed: what the layout remembers."""
    told = acknowledged(part, device)
    is_failed = told is not None and told.phase == "Failed"
    return is_failed and (part.held or bool(device.status.foreign_allocations))


def is_retry_due(part: PlannedCard, device: GPUDevice) -> bool:
    """Whether why the card is not divided as it should be is over."""
    told = acknowledged(part, device)
    if told is not None and told.phase == "Lost":
        return True
    return is_used_by_others(part, device) and not device.status.foreign_allocations
