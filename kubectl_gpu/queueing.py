"""`kubectl gpu queue`: who waits for cards, read with this person's own rights."""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from controllers.api import names, resources
from controllers.api.gpudevice import GPUDevice
from controllers.api.gpupool import GPUPool
from controllers.api.kube import Node
from controllers.api.meta import ObjectMeta
from controllers.domain.queue.gates import is_queued
from controllers.domain.taints import tolerated, wanted
from controllers.explain import queue_table
from controllers.explain.faults import UsageError, describe_fault
from controllers.explain.queue import Queue, from_status
from controllers.explain.queue_order import computed
from controllers.explain.queue_seen import QueueSeen
from controllers.explain.queue_table import pool_of
from controllers.explain.records import SeenPod, Unreadable
from controllers.runtime.errors import RuntimeFault
from kubectl_gpu import output
from kubectl_gpu.cluster import Cluster, attempt
from kubectl_gpu.finding import get_or_fail, maybe
from kubectl_gpu.terminal import warn

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable

OK = 0


@dataclass(frozen=True, slots=True)
class Observed:
    """A pool's queue, and what it was computed from; None where the pool's status had to do."""

    queue: Queue
    objects: QueueSeen | None = None


async def queue(cluster: Cluster, args: argparse.Namespace) -> int:
    """Who waits for a pool's cards; without a pool, for which pools somebody waits."""
    namespace: str | None = getattr(args, "namespace", None)
    if args.pool is None:
        return await _every(cluster, args, namespace)
    observed = await observe(cluster, args.pool, namespace)
    found = observed.queue.within(namespace)
    if args.output not in output.TABLES:
        output.structured(queue_table.as_json(found), args.output)
        return OK
    if found.waiters:
        now = time.time()
        rows = [queue_table.waiter(each, now) for each in found.waiters]
        output.table(queue_table.QUEUE, rows, args.output, headers=not args.no_headers)
    _warn_of_limitations(found.limitations)
    if not found.waiters:
        others = f"; {found.total} of other namespaces do" if namespace is not None and found.total else ""
        warn(f"No pod{_of(namespace)} waits for cards of GPUPool {found.pool}{others}.")
    return OK


async def _every(cluster: Cluster, args: argparse.Namespace, namespace: str | None) -> int:
    """A line for each pool for which somebody waits."""
    pods, unread = await attempt(_pods(cluster, names.LABEL_POOL, namespace)), tuple[str, ...]()
    if not isinstance(pods, Unreadable):
        found = queue_table.summaries(pods)
    elif namespace is not None:
        raise UsageError(pods.reason)
    else:
        found = queue_table.reported_summaries(each.obj for each in await cluster.list(resources.GPUPOOL, GPUPool))
        unread = ("This is what GPUPools say of their queues", pods.reason)
    if args.output not in output.TABLES:
        queues = [queue_table.summary_as_json(each) for each in found]
        output.structured({"queues": queues, "unread": list(unread)}, args.output)
        return OK
    if found:
        now = time.time()
        rows = [queue_table.summary(each, now) for each in found]
        output.table(queue_table.POOLS, rows, args.output, headers=not args.no_headers)
    _warn_of_limitations(unread)
    if not found:
        warn(f"No pod{_of(namespace)} waits for cards.")
    return OK


async def observe(cluster: Cluster, name: str, namespace: str | None = None) -> Observed:
    """The queue of a pool; raises UsageError where there is no such pool, and nobody waits for it.

    `namespace`: the one whose pods may be read where those of all may not.
    """
    pool = await maybe(cluster, resources.GPUPOOL, GPUPool, name)
    if isinstance(pool, Unreadable):
        raise UsageError(pool.reason)
    if pool is None:
        pool = await _gone(cluster, name)
    pools, pods, nodes = await asyncio.gather(
        attempt(cluster.list(resources.GPUPOOL, GPUPool)),
        attempt(_pods(cluster, f"{names.LABEL_POOL}={name}")),
        attempt(cluster.list(resources.NODE, Node, labels=names.pool_node_label(name))),
    )
    tainting = () if isinstance(pools, Unreadable) else tuple(each.obj for each in pools if wanted(each.obj))
    # Which taints of neighbours the pool's pods tolerate is told by where those have cards.
    fields = None if tainting else {"status.poolRef.name": name}
    cards = await attempt(cluster.list(resources.GPUDEVICE, GPUDevice, fields=fields))
    if isinstance(pods, Unreadable) or isinstance(cards, Unreadable):
        own = await attempt(_pods(cluster, f"{names.LABEL_POOL}={name}", namespace or cluster.namespace))
        unread = dict.fromkeys(part.reason for part in (pods, cards, own) if isinstance(part, Unreadable))
        return Observed(from_status(pool, () if isinstance(own, Unreadable) else own, unread))
    homes = defaultdict[str, set[str]](set)
    for each in cards:
        homes[each.obj.home or ""].add(each.obj.status.node_name or "")
    there = {} if isinstance(nodes, Unreadable) else {each.obj.name: each.obj for each in nodes}
    seen = QueueSeen(
        pool=pool,
        pods=pods,
        members=tuple(each.obj for each in cards if each.obj.home == name),
        nodes_read=nodes if isinstance(nodes, Unreadable) else there,
        tolerated=tolerated(pool, tainting, lambda of: homes[of], there.get),
        now=time.time(),
    )
    return Observed(computed(seen), seen)


async def attempt_queue(cluster: Cluster, name: str, namespace: str) -> Observed | Unreadable:
    """The queue of a pool, or why it is not known."""
    try:
        return await observe(cluster, name, namespace)
    except (UsageError, RuntimeFault) as error:
        return Unreadable(describe_fault(error) if isinstance(error, RuntimeFault) else str(error))


async def _pods(cluster: Cluster, labels: str, namespace: str | None = None) -> tuple[SeenPod, ...]:
    """Pods that a pool admitted."""
    return tuple(each.obj for each in await cluster.list(resources.POD, SeenPod, labels=labels, namespace=namespace))


async def _gone(cluster: Cluster, name: str) -> GPUPool:
    """A pool that is not there, for which pods wait all the same."""
    pods = await attempt(_pods(cluster, names.LABEL_POOL))
    if isinstance(pods, Unreadable) or not any(is_queued(pod) and pool_of(pod) == name for pod in pods):
        await get_or_fail(cluster, resources.GPUPOOL, GPUPool, name, "GPUPool")
    return GPUPool(metadata=ObjectMeta(name=name, deletion_timestamp="gone"))


def _warn_of_limitations(limitations: Iterable[str]) -> None:
    for why in limitations:
        warn(f"? {why}")  # begins with a name, which keeps its spelling


def _of(namespace: str | None) -> str:
    return f" of namespace {namespace}" if namespace is not None else ""
