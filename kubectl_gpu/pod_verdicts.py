"""`kubectl gpu explain pod --cards`: reads what a verdict on every card and node of a pool needs."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from controllers.api import resources
from controllers.api.whole_pod import WholePod
from controllers.domain.request import units_by_pool
from controllers.explain.pod_verdict import node_verdicts, verdict_of
from controllers.explain.records import Unreadable
from kubectl_gpu.cluster import Cluster, Found, attempt
from kubectl_gpu.queueing import Observed, attempt_queue

if TYPE_CHECKING:
    from controllers.domain.verdict.records import PodVerdict
    from controllers.explain.records import SeenPod


async def read(cluster: Cluster, pod: SeenPod) -> list[PodVerdict] | Unreadable:
    """The verdict on a pool's cards and nodes for a pod, or why there is none; several of one that asks for more pools.

    The webhook lets none of these in; one may have come past it.
    """
    asks = sorted(units_by_pool(pod))
    if not asks:
        return Unreadable(f"Pod {pod.key} asks for no card")
    queues, whole, others = await asyncio.gather(
        asyncio.gather(*(attempt_queue(cluster, name, cluster.namespace) for name in asks)),
        attempt(cluster.get(resources.POD, WholePod, pod.name, cluster.namespace)),
        attempt(cluster.list(resources.POD, WholePod)),
    )
    found = [_verdict(pod, observed, whole, others) for observed in queues]
    known = [each for each in found if not isinstance(each, Unreadable)]
    return known or next(each for each in found if isinstance(each, Unreadable))


def _verdict(
    pod: SeenPod,
    observed: Observed | Unreadable,
    whole: Found[WholePod] | Unreadable,
    others: list[Found[WholePod]] | Unreadable,
) -> PodVerdict | Unreadable:
    if isinstance(observed, Unreadable):
        return observed
    seen = observed.objects
    if seen is None or isinstance(seen.nodes_read, Unreadable) or isinstance(whole, Unreadable):
        return Unreadable("Verdicts on cards and nodes need the right to list GPUDevices, Nodes and the pool's pods")
    everyone = others if isinstance(others, Unreadable) else [each.obj for each in others]
    nodes = node_verdicts(whole.obj, seen.nodes, everyone, seen.tolerated)
    found = verdict_of(seen, observed.queue, pod, nodes)
    return found if found is not None else Unreadable("Nodes cannot be read")
