"""When a node that is blocked is looked at again. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from controllers.api import names
from controllers.domain.clock import seconds

if TYPE_CHECKING:
    from controllers.api.driver_work import DriverWork
    from controllers.api.kube import Node


def is_asked(node: Node) -> bool:
    """Whether a person wants the node to be tried again."""
    return node.metadata.annotations.get(names.DRIVER_RETRY) == "true"


def time_to_retry(work: DriverWork, now: float) -> float:
    """Seconds until the node is looked at again by itself; 0 where that is now, or where nothing says when."""
    return max(0.0, seconds(work.retry_at) - now) if work.retry_at is not None else 0.0


def is_due(work: DriverWork, node: Node, now: float) -> bool:
    """Whether a node that is blocked is looked at again: it is time, or a person asks for it."""
    return is_asked(node) or (work.retry_at is not None and time_to_retry(work, now) <= 0)
