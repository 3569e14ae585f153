"""A pool's queue out of what the viewer may read, by the rules by which gpupool-controller serves it. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from controllers.api import names
from controllers.domain.taints import tolerated, wanted
from controllers.explain.queue import Queue, from_status
from controllers.explain.queue_order import computed
from controllers.explain.queue_seen import QueueSeen
from controllers.explain.queue_table import pool_of
from controllers.explain.records import Unreadable

if TYPE_CHECKING:
    from console.records import Seen
    from controllers.api.gpupool import GPUPool
    from controllers.explain.records import SeenPod


def pods_of(pool: str, seen: Seen) -> tuple[SeenPod, ...]:
    """Pods that the pool admitted, of namespaces that the viewer may read."""
    return tuple(pod for pod in seen.pods.values() if pool_of(pod) == pool)


def queue_seen(pool: GPUPool, seen: Seen, now: float, *, every_node: bool = False) -> QueueSeen:
    """What the pool's queue is computed from; `every_node`: with nodes that lack the pool's label, to say so."""
    members = tuple(card for card in seen.cards.values() if card.home == pool.name)
    tainting = [each for each in seen.pools.values() if wanted(each)]

    def nodes_of(name: str) -> frozenset[str]:
        return frozenset(card.status.node_name or "" for card in seen.cards.values() if card.home == name)

    refused = seen.refused.get("Node")
    label = names.pool_node_label(pool.name)
    return QueueSeen(
        pool=pool,
        pods=pods_of(pool.name, seen),
        members=members,
        nodes_read=Unreadable(refused)
        if refused is not None
        else {name: node for name, node in seen.nodes.items() if every_node or label in node.metadata.labels},
        tolerated=tolerated(pool, tainting, nodes_of, seen.nodes.get),
        now=now,
    )


def observed_queue(pool: GPUPool, seen: Seen, now: float) -> Queue:
    """The queue: computed where all pods and cards may be read, else what the pool's status says of it."""
    kinds = ("Pod", "GPUDevice")
    why = [seen.refused[kind] for kind in kinds if kind in seen.refused]
    if why or seen.hidden.get("Pod"):
        return from_status(pool, pods_of(pool.name, seen), why)
    return computed(queue_seen(pool, seen, now))
