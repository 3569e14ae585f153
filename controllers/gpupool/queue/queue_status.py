"""What a GPUPool's status says of its queue. Pure.

Nothing in it changes with time alone: a quiet queue costs no writes. It names no pod and no namespace, since tenants
may read pools; who waits is told to whoever may read the pods (`kubectl gpu queue`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from controllers.api.queue import QueueStatus

if TYPE_CHECKING:
    from collections.abc import Sequence

    from controllers.domain.queue.entry import Entry


def queue_status(waiting: Sequence[Entry]) -> QueueStatus | None:
    """The status; None where nobody waits."""
    if not waiting:
        return None
    return QueueStatus(
        waiting=sum(len(entry.members) for entry in waiting),
        waiting_units=sum(entry.units for entry in waiting),
        oldest=min(entry.created for entry in waiting),
    )
