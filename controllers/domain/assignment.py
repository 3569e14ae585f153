"""The annotation that puts a card into a pool, as every process reads it. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from controllers.api import names

if TYPE_CHECKING:
    from controllers.api.gpudevice import GPUDevice


def assigned_pool(device: GPUDevice) -> str | None:
    """The pool that the card's annotation names; None where it names none."""
    return device.metadata.annotations.get(names.ASSIGNMENT) or None


def annotation_hint(pool: str) -> str:
    """The annotation that puts a card into the pool, as `kubectl annotate` takes it."""
    return f"{names.ASSIGNMENT}={pool}"
