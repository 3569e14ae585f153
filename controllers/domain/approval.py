"""Whether a pool takes a card without a person, or a person keeps it out (docs/dev/design.md, Approval). Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from controllers.api import names
from controllers.api.conditions import IGNORED, is_true
from controllers.domain.selectors.match import matches

if TYPE_CHECKING:
    from controllers.api.gpudevice import GPUDevice
    from controllers.api.gpupool import GPUPool
    from controllers.api.meta import ObjectMeta
    from controllers.api.settings import Settings


def is_automatic(pool: GPUPool, device: GPUDevice, settings: Settings) -> bool:
    """Whether the pool takes the card without a person."""
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


def is_ignored(meta: ObjectMeta) -> bool:
    """Whether a label or an annotation keeps the card out of every pool.

    Who decides about pooling asks this and not only the condition, which follows a moment later: a person who removes
    the assignment and declines the card must not see an automatic pool take it again in between.
    """
    return "true" in (meta.labels.get(names.LABEL_IGNORE), meta.annotations.get(names.LABEL_IGNORE))


def is_declined(device: GPUDevice) -> bool:
    """Whether a person keeps the card out of every pool, by a mark or by what is left of one.

    The mark counts at once; the condition Ignored comes and goes after it, and does neither while inventory is away.
    """
    return is_ignored(device.metadata) or is_true(device.status.conditions, IGNORED)
