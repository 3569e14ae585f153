"""Whether a card may be given to a new pod of its pool, and why not. Pure.

The one rule: the webhook and the pool controller give cards by it, and people are shown cards by it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, cast

from controllers.api import formerly, names
from controllers.api.conditions import FAULTED, IGNORED, INVENTORY_INCOMPLETE, MANAGED_DISABLED

if TYPE_CHECKING:
    from controllers.api.gpudevice import GPUDevice, Offer
    from controllers.api.kube import Node
    from controllers.api.meta import Condition

BLOCKING = (IGNORED, FAULTED, MANAGED_DISABLED, INVENTORY_INCOMPLETE)
"""Conditions of a card that keep it from being pooled, offered and issued; a person's word is told first."""
Withheld = Literal[
    "OtherPool", "Leaving", "Ignored", "Faulted", "ManagedDisabled", "InventoryIncomplete", "NotPublished"
]
"""Why a card cannot be given, which its object alone says; the first that holds in this order."""
NotIssued = Literal[Withheld, "ForeignUsers"]
"""Why a new pod cannot get it; last, that pods have it by another program's resource."""


def issuable(device: GPUDevice, pool: str) -> bool:
    """Whether the card can be given to a new pod of the pool now, where its node `accepts_new_pods`."""
    return not_issued(device, pool) is None


def not_issued(device: GPUDevice, pool: str) -> NotIssued | None:
    """Why a new pod of the pool cannot get the card now, wherever its node is; None where it can.

    What people are shown of a card goes by it, so that no page calls a card free that nobody can get.
    """
    return withheld(device, pool) or ("ForeignUsers" if device.status.foreign_allocations else None)


def withheld(device: GPUDevice, pool: str) -> Withheld | None:
    """Why a pool cannot give the card to anybody, whoever has it and wherever its node is; None where nothing does."""
    status = device.status
    if status.pool_ref is None or status.pool_ref.name != pool:
        return "OtherPool"
    if device.metadata.annotations.get(names.ASSIGNMENT) != pool:
        return "Leaving"
    if (blocking := blocked_by(device)) is not None:
        return cast("Withheld", blocking.type)
    return None if is_offered(device, pool) else "NotPublished"


def blocked_by(device: GPUDevice) -> Condition | None:
    """The condition that keeps the card from being pooled, offered and issued; the first where there are several."""
    if not device.status.conditions:
        return None  # nearly all: this is asked several times for every card of a pool
    found = [c for c in device.status.conditions if c.status == "True" and c.type in BLOCKING]
    return min(found, key=lambda c: BLOCKING.index(c.type), default=None)


def is_offered(device: GPUDevice, pool: str) -> bool:
    """Whether a plugin offers the card for the pool, and is to go on with it.

    One that was told to offer it no more, and has not answered, may be as far gone as its node.
    """
    published = device.status.published
    return published is not None and published.pool == pool and offer_of(device) != "AwaitingWithdrawal"


def offer_of(device: GPUDevice) -> Offer | None:
    """What its pool says last of the card's offer; None before it has said anything."""
    return device.status.offer or formerly.offer(device.status)


def accepts_new_pods(node: Node | None) -> bool:
    """Whether a node gives its cards to anybody new."""
    return node is not None and node.ready and not node.spec.unschedulable
