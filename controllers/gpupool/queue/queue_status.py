"""The queue in a GPUPool's status. Pure.

Nothing in it changes with time alone: a quiet queue costs no writes.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from controllers.api.queue import HEAD_MAX, NAMESPACES_MAX, QueuedNamespace, QueuedPod, QueueStatus

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from controllers.domain.queue.entry import Entry
    from controllers.gpupool.queue.wait import Wait


def queue_status(waiting: Sequence[Entry], reasons: Mapping[str, Wait], used: Mapping[str, int]) -> QueueStatus | None:
    """The status; None where nobody waits. `waiting`: in the order of the queue; `used`: slots by namespace."""
    if not waiting:
        return None
    by_namespace: Counter[str] = Counter()
    for entry in waiting:
        by_namespace[entry.namespace] += len(entry.members)
    namespaces = sorted(by_namespace.items(), key=lambda item: (-item[1], item[0]))
    return QueueStatus(
        waiting=sum(by_namespace.values()),
        waiting_units=sum(entry.units for entry in waiting),
        oldest=min(entry.created for entry in waiting),
        head=tuple(_pod(entry, reasons) for entry in waiting[:HEAD_MAX]),
        namespaces=tuple(
            QueuedNamespace(name=name, used=used.get(name, 0), waiting=pods)
            for name, pods in namespaces[:NAMESPACES_MAX]
        ),
    )


def _pod(entry: Entry, reasons: Mapping[str, Wait]) -> QueuedPod:
    wait = reasons.get(entry.members[0].key)
    return QueuedPod(
        namespace=entry.namespace,
        pod=entry.members[0].key.partition("/")[2],
        gang=entry.gang,
        units=entry.units,
        priority=entry.priority or None,
        since=entry.created,
        reason=wait.cause if wait is not None else "Waiting",
    )
