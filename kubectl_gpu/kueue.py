"""`kubectl gpu kueue`: what Kueue is to be told of a pool; writes nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from controllers.api import resources
from controllers.api.gpupool import GPUPool
from controllers.explain.kueue import REMARK, kueue_objects
from kubectl_gpu import output
from kubectl_gpu.finding import get_or_fail
from kubectl_gpu.terminal import warn

if TYPE_CHECKING:
    import argparse

    from kubectl_gpu.cluster import Cluster

OK = 0


async def kueue(cluster: Cluster, args: argparse.Namespace) -> int:
    """Print a ResourceFlavor and a ClusterQueue for a pool."""
    pool = await get_or_fail(cluster, resources.GPUPOOL, GPUPool, args.pool, "GPUPool")
    output.objects(kueue_objects(pool), args.output)
    warn(REMARK)
    return OK
