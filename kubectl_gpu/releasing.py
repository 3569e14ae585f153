"""`kubectl gpu release`: lets a pod past its pool's queue, as far as this person may."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from controllers.api import names, resources
from controllers.explain import release as release_of
from controllers.explain.faults import UsageError
from controllers.explain.queue_table import pool_of
from controllers.explain.records import SeenPod
from controllers.runtime.errors import Conflict, NotFound
from kubectl_gpu import output
from kubectl_gpu.finding import get_or_fail
from kubectl_gpu.terminal import print_lines, warn

if TYPE_CHECKING:
    import argparse

    from kubectl_gpu.cluster import Cluster, Found

OK: Final = 0
TRIES: Final = 5
"""Looks at a pod that others write meanwhile: its condition, for instance."""


async def release(cluster: Cluster, args: argparse.Namespace) -> int:
    """Take our gate off a pod."""
    found = await _take_off(cluster, args.pod, args.dry_run)
    pod, gates = found.obj, release_of.gates_of(found.raw)
    if args.output == "table":
        print_lines([release_of.summary(pod, args.dry_run)])
    elif args.output == "name":
        print_lines([f"pod/{pod.name}"])
    else:
        output.structured(release_of.as_json(pod, args.dry_run), args.output)
    for said in release_of.warnings(gates):
        warn(said)
    return OK


async def _take_off(cluster: Cluster, name: str, dry_run: str) -> Found[SeenPod]:
    """The pod as it was before; raises UsageError where it cannot be released, or this person may not."""
    for _ in range(TRIES):
        found = await _pod(cluster, name)
        pod, gates = found.obj, release_of.gates_of(found.raw)
        if (why := release_of.objection(pod, gates)) is not None:
            raise UsageError(why)
        if not await cluster.may(names.VERB_RELEASE, resources.GPUPOOL, pool_of(pod)):
            raise UsageError(release_of.lacking_right(pod))
        if dry_run == "client":
            return found
        try:
            await cluster.json_patch(resources.POD, pod, release_of.patch(pod, gates), dry_run=dry_run == "server")
        except Conflict:
            continue  # somebody wrote the pod: it is looked at again
        return found
    raise UsageError(f"Pod {name} is written by others all the time. Try again.")


async def _pod(cluster: Cluster, name: str) -> Found[SeenPod]:
    try:
        return await cluster.get(resources.POD, SeenPod, name, cluster.namespace)
    except NotFound:
        await get_or_fail(
            cluster, resources.POD, SeenPod, name, "pod", namespace=cluster.namespace
        )  # says it with a guess
        raise
