"""Retries of a GPUDevice's MIG layout without a person: when, and how often. Pure.

Each version of a card's part is tried once. Two reasons for its not having come true, or not being so any more, are
known to be over: the driver was loaded anew, as by a reboot, and MIG instances ended with it; and others had the card,
and have ended. Each such request counts, card by card, in the node's layout: a driver that dies of the layout
itself, or strangers who come back each time, end as LayoutFailed until a person resumes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from controllers.api import names
from controllers.gpupool.mig.cards import acknowledged

if TYPE_CHECKING:
    from controllers.api.gpudevice import GPUDevice, MigApply
    from controllers.api.kube import Node
    from controllers.domain.mig import PlannedCard

RETRIES_MAX: Final = 2
"""Times that a card is requested again by itself in one boot of its node with one driver of the module's."""


def boot_of(node: Node | None) -> str:
    """The bootID of a Node; empty where its kubelet has not reported it."""
    return node.status.node_info.boot_id if node is not None else ""


def period_of(node: Node | None) -> str:
    """A boot of a Node with one driver that the module brought: a roll-out loses instances as a boot does."""
    variant = node.metadata.labels.get(names.DRIVER_VARIANT) if node is not None else None
    return f"{boot_of(node)} {variant}" if variant else boot_of(node)


def is_of_another_boot(reply: MigApply, node: Node | None) -> bool:
    """Whether the node was booted since a MIG manager answered this, as far as both tell."""
    boot = boot_of(node)
    return bool(reply.boot_id and boot) and reply.boot_id != boot


def is_of_another_loading(reply: MigApply, device: GPUDevice) -> bool:
    """Whether the card's report is of another loading of the driver than this answer, as far as both tell.

    Instances end with the loading, so the one says nothing of the other; the older of the two comes anew.
    """
    hardware = device.status.hardware
    told = hardware.mig if hardware is not None else None
    if told is None:
        return False
    if reply.boot_id and told.boot_id and reply.boot_id != told.boot_id:
        return True
    return bool(reply.driver_load and told.driver_load) and reply.driver_load != told.driver_load


def retries_in_period(part: PlannedCard, node: Node | None) -> int:
    """How often the card was requested again by itself in this boot of its node, with the driver that it has."""
    return part.again if part.boot == period_of(node) else 0


def may_retry(part: PlannedCard, node: Node | None) -> bool:
    """Whether the card may be requested once more."""
    return retries_in_period(part, node) < RETRIES_MAX


def is_used_by_others(part: PlannedCard, device: GPUDevice) -> bool:
    """Whether others have, or have had, the card since its work failed: what the layout remembers."""
    reply = acknowledged(part, device)
    is_failed = reply is not None and reply.phase == "Failed"
    return is_failed and (part.used_since_failure or bool(device.status.foreign_allocations))


def is_retry_due(part: PlannedCard, device: GPUDevice) -> bool:
    """Whether the reason is over for which the card is not partitioned as it should be."""
    reply = acknowledged(part, device)
    if reply is not None and reply.phase == "Lost":
        return True
    return is_used_by_others(part, device) and not device.status.foreign_allocations
