"""Which cards a pool may take, which it takes by itself, and why a card waits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from controllers.api import names
from controllers.api.conditions import find, is_true
from controllers.domain.selectors import matches, selects
from controllers.domain.slots import BLOCKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from controllers.api.gpudevice import GPUDevice
    from controllers.api.gpupool import GPUPool
    from controllers.api.settings import Settings
    from controllers.gpupool.observe import NodeFacts

SERVED_MODES = ("Exclusive",)
"""Modes that this version hands out; a pool of another mode is Misconfigured and says so."""


def selected(pool: GPUPool, device: GPUDevice, facts: NodeFacts, position: int) -> bool:
    """Whether the pool's selectors mean the card."""
    labels = facts.node.metadata.labels if facts.node else {}
    return matches(pool.spec.node_selector, labels) and selects(pool.spec.device_selector, device, position)


def unfit(device: GPUDevice, facts: NodeFacts) -> str | None:
    """Why the card cannot be pooled now, whatever the pool; None when it can."""
    for kind in BLOCKING:
        if is_true(device.status.conditions, kind):
            condition = find(device.status.conditions, kind)
            return f"{kind}: {condition.message if condition else ''}"
    if device.status.hardware is None:
        return "its hardware is not known yet"
    if not facts.ready:
        return f"node {device.status.node_name} is not ReadyForPooling"
    return None


def is_automatic(pool: GPUPool, device: GPUDevice, settings: Settings) -> bool:
    """Whether the pool takes the card without a person (design §4, Approval)."""
    assignment = pool.spec.device_assignment
    if assignment is not None:
        if assignment.require_annotation is False:
            return True
        selector = assignment.auto_approve_selector
        if selector is not None and matches(selector, device.metadata.labels):
            return True
        if assignment.require_annotation is True:
            return False
    approval = settings.device_approval
    if approval.mode == "Selector":
        return approval.selector is not None and matches(approval.selector, device.metadata.labels)
    return approval.mode == "Automatic"


def has_room(pool: GPUPool, devices: Iterable[GPUDevice]) -> bool:
    """Whether the pool may take another of a node's cards; `devices` are all of the node."""
    limit = pool.spec.allocation.max_devices_per_node
    taken = sum(1 for d in devices if d.status.pool_ref is not None and d.status.pool_ref.name == pool.name)
    return limit is None or taken < limit


def hint(pool: str) -> str:
    """The annotation that puts a card into the pool, as `kubectl annotate` takes it."""
    return f"{names.ASSIGNMENT}={pool}"


def claim(device: GPUDevice) -> str | None:
    """The pool that the card's annotation names."""
    return device.metadata.annotations.get(names.ASSIGNMENT) or None
