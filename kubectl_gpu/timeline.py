"""`kubectl gpu timeline card`: who had it, and when something was the matter with it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from controllers.api import resources
from controllers.explain import timeline as lines
from controllers.explain.records import SeenPod
from kubectl_gpu import finding, output
from kubectl_gpu.terminal import warn

if TYPE_CHECKING:
    import argparse

    from controllers.api.gpudevice import GPUDevice
    from kubectl_gpu.cluster import Cluster

OK = 0


async def timeline(cluster: Cluster, args: argparse.Namespace) -> int:
    """Print a card's time line, the oldest first."""
    device = await finding.card(cluster, args.name)
    found = lines.entries(device, await _started(cluster, device))
    if args.output not in output.TABLES:
        output.structured(lines.as_json(device, found), args.output)
        return OK
    if not found:
        warn(f"Nobody is known to have had card {device.name}, and nothing was the matter with it.")
        return OK
    output.table(lines.COLUMNS, [lines.row(each) for each in found], args.output, headers=not args.no_headers)
    return OK


async def _started(cluster: Cluster, device: GPUDevice) -> dict[str, str]:
    """When kubelet began with the pods that have the card, by uid, as far as this person may read them."""
    users = sorted({(taken.namespace, taken.pod) for taken in device.status.allocations})
    pods = await asyncio.gather(*(finding.maybe(cluster, resources.POD, SeenPod, pod, space) for space, pod in users))
    seen = [pod for pod in pods if isinstance(pod, SeenPod)]
    return {pod.metadata.uid: pod.status.start_time for pod in seen if pod.status.start_time is not None}
