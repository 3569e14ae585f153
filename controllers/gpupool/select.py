"""Which cards a pool may take, and which it takes by itself. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from controllers.api import names
from controllers.domain.allocation import undividable
from controllers.domain.approval import is_ignored
from controllers.domain.selectors import matches, selects
from controllers.domain.slots import blocked_by
from controllers.domain.wording import listed

if TYPE_CHECKING:
    from controllers.api.gpudevice import GPUDevice
    from controllers.api.gpupool import GPUPool
    from controllers.gpupool.observe import NodeFacts

SERVED_MODES = ("Exclusive", "TimeSlice", "MIG")
"""Modes that this version hands out; a pool of another mode is Misconfigured and says so."""


def selected(pool: GPUPool, device: GPUDevice, facts: NodeFacts, position: int) -> bool:
    """Whether the pool's selectors mean the card."""
    labels = facts.node.metadata.labels if facts.node else {}
    meant = matches(pool.spec.node_selector, labels) and selects(pool.spec.device_selector, device, position)
    return meant and undividable(pool, device) is None


def serves(pool: GPUPool) -> bool:
    """Whether the pool takes cards at all."""
    return pool.metadata.deletion_timestamp is None and pool.spec.allocation.mode in SERVED_MODES


def unfit(device: GPUDevice, facts: NodeFacts) -> str | None:
    """Why the card cannot be pooled now, whatever the pool; None when it can."""
    if (blocked := blocked_by(device)) is not None:
        return f"{blocked.type}: {blocked.message}"
    if is_ignored(device.metadata):
        return f"{names.LABEL_IGNORE}=true keeps it out of every pool"
    if device.status.hardware is None:
        return "its hardware is not known yet"
    if not facts.ready:
        return f"node {device.status.node_name} is not ReadyForPooling"
    return None


def in_use(device: GPUDevice, held: frozenset[str]) -> bool:
    """Whether a card in no pool may still serve a pod. `held`: cards that bound pods of the node were given."""
    return (
        # A plugin that has not withdrawn the card yet still offers it for another pool.
        device.status.published is not None
        or bool(device.status.allocations)
        or bool(device.status.foreign_allocations)
        # An object that was deleted by hand comes back empty while its card still serves a pod.
        or device.status.inventory_id in held
    )


def held_elsewhere(device: GPUDevice) -> str | None:
    """By what others have the card, in a sentence's words; None where nobody has.

    It names no pod: events and pools tell it too, and more people read these than may read GPUDevices.
    """
    resources = sorted({taken.resource for taken in device.status.foreign_allocations})
    if not resources:
        return None
    found = f"containers have the card by {listed(resources)}, which is not the module's"
    return f"{found} (status.foreignAllocations of its GPUDevice names them)"


def hint(pool: str) -> str:
    """The annotation that puts a card into the pool, as `kubectl annotate` takes it."""
    return f"{names.ASSIGNMENT}={pool}"


def claim(device: GPUDevice) -> str | None:
    """The pool that the card's annotation names."""
    return device.metadata.annotations.get(names.ASSIGNMENT) or None
