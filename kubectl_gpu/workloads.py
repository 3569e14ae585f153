"""What makes pods: `kubectl gpu explain deployment` and the like, and pods that were never made."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from controllers.api import resources
from controllers.explain import refused, workload
from controllers.explain.faults import UsageError
from controllers.explain.queue_table import pool_of
from controllers.explain.records import (
    CORE_EVENT,
    JOB,
    REPLICASET,
    STATEFULSET,
    SeenEvent,
    SeenPod,
    Unreadable,
    Workload,
)
from kubectl_gpu.cluster import Cluster, attempt
from kubectl_gpu.finding import get_or_fail, maybe
from kubectl_gpu.queueing import attempt_queue

if TYPE_CHECKING:
    from controllers.explain.explanation import Explanation

KINDS = {
    "deployment": resources.DEPLOYMENT,
    "replicaset": REPLICASET,
    "statefulset": STATEFULSET,
    "daemonset": resources.DAEMONSET,
    "job": JOB,
}


async def explained(cluster: Cluster, kind: str, name: str) -> Explanation:
    """Whether it has its pods, and why not; raises UsageError where it is not there."""
    found = await get_or_fail(cluster, KINDS[kind], Workload, name, kind, namespace=cluster.namespace)
    return workload.explained(await _observe_workload(cluster, kind, found))


async def missing(cluster: Cluster, name: str) -> Explanation:
    """Why there is no pod of that name: by whatever makes such pods and lacks some. Raises UsageError."""
    namespace, guesses = cluster.namespace, refused.makers(name)
    found = await asyncio.gather(*(maybe(cluster, KINDS[kind], Workload, of, namespace) for kind, of in guesses))
    for (kind, _), each in zip(guesses, found, strict=True):
        if each is None or isinstance(each, Unreadable):
            continue
        seen = await _observe_workload(cluster, kind, each)
        if workload.lacks_pods(seen):
            return workload.explained(seen, asked=name)
    pods = await attempt(cluster.list(resources.POD, SeenPod, namespace=namespace))
    known = [each.obj.name for each in pods] if not isinstance(pods, Unreadable) else []
    there = [f"{kind} {of}" for (kind, of), each in zip(guesses, found, strict=True) if isinstance(each, Workload)]
    unread = next((each.reason for each in found if isinstance(each, Unreadable)), "")
    raise UsageError(refused.nothing_found(name, namespace, known, there, unread))


async def _observe_workload(cluster: Cluster, kind: str, found: Workload) -> workload.WorkloadSeen:
    """All that an answer about it needs, as far as this person may read it."""
    makers, events, pods = await asyncio.gather(
        _replicasets(cluster, kind, found),
        attempt(cluster.list(CORE_EVENT, SeenEvent, namespace=cluster.namespace, fields=refused.FIELDS)),
        attempt(cluster.list(resources.POD, SeenPod, namespace=cluster.namespace)),
    )
    seen = workload.WorkloadSeen(
        workload.Maker(KINDS[kind].kind, found), makers, _objects(events), _objects(pods), time.time()
    )
    pool = next(filter(None, map(pool_of, workload.queued_pods(seen))), None)
    if pool is None:
        return seen
    observed = await attempt_queue(cluster, pool, cluster.namespace)
    return replace(seen, queue=observed if isinstance(observed, Unreadable) else observed.queue)


async def _replicasets(cluster: Cluster, kind: str, found: Workload) -> Any:
    """Whatever of the Deployment makes its pods; nothing for what makes them itself."""
    if kind != "deployment":
        return ()
    listed = await attempt(cluster.list(REPLICASET, Workload, namespace=cluster.namespace))
    if isinstance(listed, Unreadable):
        return listed
    return tuple(workload.Maker(REPLICASET.kind, each.obj) for each in listed if workload.owns(found, each.obj))


def _objects(found: Any) -> Any:
    return found if isinstance(found, Unreadable) else tuple(each.obj for each in found)
