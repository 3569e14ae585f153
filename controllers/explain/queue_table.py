"""The rows of `kubectl gpu queue`, and the same for programs. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from controllers.api import names
from controllers.domain.queue.gates import waits_for_cards_alone
from controllers.domain.request import pools_of, units_of
from controllers.explain.lists import SYMBOL_NONE
from controllers.explain.table import Cell, Column
from controllers.explain.words import since

if TYPE_CHECKING:
    from collections.abc import Iterable

    from controllers.api.gpupool import GPUPool
    from controllers.api.tenant import TenantPod
    from controllers.explain.lists import Row
    from controllers.explain.queue import Queue, Waiter

QUEUE = (
    Column("POSITION"),
    Column("NAMESPACE"),
    Column("POD"),
    Column("UNITS"),
    Column("PRIORITY"),
    Column("WAITS"),
    Column("REASON"),
    Column("AHEAD", wide=True),
    Column("NODE", wide=True),
)
POOLS = (Column("POOL"), Column("WAITING"), Column("UNITS"), Column("OLDEST"))
TONES = {"Waiting": "", "OverLimit": "yellow"}
"""Of reasons; others mean that somebody has to do something."""


def waiter(found: Waiter, now: float) -> Row:
    """A pod that waits."""
    node = f"{found.node} ({found.node_use})" if found.node else SYMBOL_NONE
    return (
        Cell(SYMBOL_NONE if found.position is None else str(found.position)),
        Cell(found.namespace),
        Cell(found.pod),
        Cell(str(found.units)),
        Cell(str(found.priority)),
        Cell(since(found.since, now)),
        Cell(found.reason, TONES.get(found.reason, "red")),
        Cell(SYMBOL_NONE if found.ahead is None else str(found.ahead)),
        Cell(node, {"kept": "cyan", "free": "green", "reserved": "green"}.get(found.node_use or "", "")),
    )


def as_json(queue: Queue) -> dict[str, Any]:
    """A queue for programs."""
    return {
        "pool": queue.pool,
        "waiting": queue.total,
        "waitingUnits": queue.units,
        "pods": [
            {
                "position": each.position,
                "namespace": each.namespace,
                "pod": each.pod,
                "units": each.units,
                "priority": each.priority,
                "since": each.since,
                "reason": each.reason,
                "ahead": each.ahead,
                "node": {"name": each.node, "use": each.node_use} if each.node else None,
            }
            for each in queue.waiters
        ],
        "unread": list(queue.limitations),
    }


@dataclass(frozen=True, slots=True)
class PoolQueue:
    """Who waits for a pool, in numbers."""

    pool: str
    waiting: int
    units: int
    oldest: str | None
    """Since when the one exists that has waited longest, RFC 3339."""


def summaries(pods: Iterable[TenantPod]) -> list[PoolQueue]:
    """The queues of all pools out of their pods; those behind gates of others wait for no cards yet."""
    by_pool: dict[str, list[TenantPod]] = {}
    for pod in pods:
        if waits_for_cards_alone(pod) and (pool := pool_of(pod)):
            by_pool.setdefault(pool, []).append(pod)
    return [
        PoolQueue(
            pool,
            len(waiting),
            sum(units_of(pod, pool) for pod in waiting),
            min(pod.metadata.creation_timestamp for pod in waiting),
        )
        for pool, waiting in sorted(by_pool.items())
    ]


def pool_of(pod: TenantPod) -> str:
    """The pool in whose queue a pod is: the one that admitted it; empty where none did, and it asks for none."""
    return pod.metadata.labels.get(names.LABEL_POOL) or min(pools_of(pod), default="")


def reported_summaries(pools: Iterable[GPUPool]) -> list[PoolQueue]:
    """The same, as the pools' status has it."""
    return [
        PoolQueue(pool.name, status.waiting, status.waiting_units, status.oldest)
        for pool in sorted(pools, key=lambda pool: pool.name)
        if (status := pool.status.queue) is not None and status.waiting
    ]


def summary(found: PoolQueue, now: float) -> Row:
    """A pool for whose cards somebody waits."""
    oldest = since(found.oldest, now) if found.oldest else SYMBOL_NONE
    return Cell(found.pool), Cell(str(found.waiting), "yellow"), Cell(str(found.units)), Cell(oldest)


def summary_as_json(found: PoolQueue) -> dict[str, Any]:
    """The same for programs."""
    return {"pool": found.pool, "waiting": found.waiting, "waitingUnits": found.units, "oldest": found.oldest}
