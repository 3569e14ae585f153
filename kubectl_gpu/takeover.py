"""`kubectl gpu takeover`: from NVIDIA's GPU Operator to this module, step by step, without draining a node.

Each step looks at what there is and does what is left of it: one that is repeated, or was cut off, goes on.
"""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from typing import TYPE_CHECKING, Any, Final

from controllers.api import names, resources
from controllers.api.gpudevice import GPUDevice
from controllers.api.kube import Node
from controllers.explain import takeover as maps
from controllers.explain.faults import UsageError
from controllers.explain.table import Cell
from kubectl_gpu import output
from kubectl_gpu import takeover_saved as saved
from kubectl_gpu.takeover_nodes import switched, untaint
from kubectl_gpu.takeover_reads import Reads
from kubectl_gpu.takeover_toolkits import remove_toolkits
from kubectl_gpu.terminal import print_lines, warn

if TYPE_CHECKING:
    import argparse

    from kubectl_gpu.cluster import Cluster

OK, FAILED = 0, 1
LOOK_AGAIN: Final = 0.5
"""Seconds between two looks at what is waited for."""
TONES: Final = {"Ours": "green", "Ready": "cyan", "Busy": "yellow", "Waiting": "yellow"}


async def takeover(cluster: Cluster, args: argparse.Namespace) -> int:
    """Carry out one step, or say where the takeover stands."""
    steps = {"status": _status, "begin": _begin, "nodes": _nodes, "finish": _finish, "back": _back}
    return await steps[args.step](cluster, args)


async def _status(cluster: Cluster, args: argparse.Namespace) -> int:
    reads = Reads(cluster)
    there, nodes = await reads.operator(), await reads.nodes(args.names)
    if args.output in ("json", "yaml"):
        rows = [{"node": one.name, "state": one.word, "left": one.left or None} for one in nodes]
        output.structured({"stopped": there.is_stopped, "nodes": rows}, args.output)
        return OK
    rows_ = [(Cell(one.name), Cell(one.word, TONES.get(one.word, "")), Cell(one.left)) for one in nodes]
    output.table(maps.COLUMNS, rows_, args.output, headers=True)
    print_lines(maps.summary(there, nodes))
    return OK


async def _begin(cluster: Cluster, args: argparse.Namespace) -> int:
    """Stop the operator, leave its pods where they are, and give its drivers over."""
    reads = Reads(cluster)
    there = await reads.operator()
    against = maps.objections(each.obj for each in await cluster.list(resources.NODE, Node))
    if against:
        raise UsageError(f"Not now: {'; '.join(against)}. Let the upgrade end, or end it, and begin again.")
    saved.save(there, args.filename)
    for one in there.deployments:
        # Noted in the same write: a second begin saves what was, and not what this step made.
        noted = {names.TAKEOVER_REPLICAS: str(maps.replicas_of(one))}
        body = {"metadata": {"annotations": noted}, "spec": {"replicas": 0}}
        await cluster.merge(resources.DEPLOYMENT, one, body)
    await _until(reads, lambda now: all(not one.get("status", {}).get("replicas") for one in now.deployments), args)
    # Its policies first: while one is there, whoever starts the operator again has the DaemonSets made anew.
    for one in there.policies:
        await cluster.delete(saved.POLICIES[one["kind"]], one, orphan=True)
    for one in there.daemonsets:
        await cluster.delete(resources.DAEMONSET, one, orphan=True)
    await _until(reads, lambda now: now.is_stopped and not any(_kept(pod) for pod in now.pods), args)
    drivers = (await reads.operator()).drivers()
    for pod in drivers:
        await _mark_driver(cluster, pod, "true")
    print_lines([f"GPU Operator is stopped, its pods run on; {len(drivers)} drivers are adopted as they are."])
    return OK


async def _nodes(cluster: Cluster, args: argparse.Namespace) -> int:
    """Let nodes go over, one after another: those on which no pod has a card by the operator's plugin."""
    reads = Reads(cluster)
    await untaint(cluster)
    found = await reads.nodes(args.names)
    await remove_toolkits(cluster, reads, found)
    ready = [one.name for one in found if one.word == "Ready"]
    late = []
    for name in ready:
        took = await switched(cluster, reads, name, args.timeout)
        if took is None:
            late.append(name)
            warn(f"{name}: no pool offers its cards after {args.timeout:g} s, or a pod came meanwhile")
        else:
            print_lines([f"{name}: its pools offer its cards, {took:.1f} s after the operator's plugin went"])
    left = [one for one in await reads.nodes(args.names) if one.word != "Ours"]
    for one in left:
        warn(f"{one.name}: {one.left}")
    print_lines([f"{len(ready) - len(late)} nodes went over, {len(left)} are left."])
    return FAILED if late else OK


async def _finish(cluster: Cluster, _: argparse.Namespace) -> int:
    """Take the operator's labels off the nodes, once nothing of it serves them."""
    reads = Reads(cluster)
    await untaint(cluster)
    if not (await reads.operator()).is_stopped:
        raise UsageError("GPU Operator runs, or has policies or DaemonSets: finish is for after begin.")
    nodes = await reads.nodes(())
    left = [one.name for one in nodes if one.word != "Ours"]
    if left:
        raise UsageError(f"Not yet: {', '.join(left)} have pods of the operator. See kubectl gpu takeover.")
    changed, ours = 0, {one.name for one in nodes}
    for each in await cluster.list(resources.NODE, Node):
        if each.obj.name in ours and (marks := maps.marks_of(each.obj.metadata.labels)):
            await cluster.mark(resources.NODE, each.obj, {"labels": marks}, dry_run=False)
            changed += 1
    print_lines([f"The operator's labels are off {changed} nodes. Uninstall its chart when it suits you."])
    return OK


async def _back(cluster: Cluster, args: argparse.Namespace) -> int:
    """Give the cluster back to the operator, as it was saved."""
    if not args.filename:
        raise UsageError("Give --filename FILE: what `begin` saved.")
    items = saved.read(args.filename)
    await untaint(cluster)
    kept = maps.keeping(each.obj for each in await cluster.list(resources.NODE, Node))
    used: dict[str | None, int] = defaultdict(int)
    for each in await cluster.list(resources.GPUDEVICE, GPUDevice):
        if each.obj.status.allocations and each.obj.status.node_name not in kept:
            used[each.obj.status.node_name] += 1
    if used:
        raise UsageError(
            f"Pods have cards of pools on {', '.join(sorted(map(str, used)))}, which the operator's plugin would give"
            " to others, too: end them, or keep these nodes (label nvidia.com/gpu.deploy.operands=false)."
        )
    there = await Reads(cluster).operator()
    known = {(one["metadata"]["namespace"], one["metadata"]["name"]) for one in there.deployments}
    for item in items:
        if item["kind"] == "Deployment" and (item["metadata"]["namespace"], item["metadata"]["name"]) not in known:
            raise UsageError(
                f"Deployment {item['metadata']['namespace']}/{item['metadata']['name']} of {args.filename} is none of"
                " GPU Operator's here: nothing is given back."
            )
    for pod in there.drivers():
        await _mark_driver(cluster, pod, None)
    for item in sorted(items, key=lambda one: one["kind"] == "Deployment"):
        await saved.restore(cluster, item)
    print_lines(["GPU Operator has its policies again and runs: it keeps the pods that are there."])
    return OK


async def _mark_driver(cluster: Cluster, pod: dict[str, Any], value: str | None) -> None:
    meta = pod["metadata"]
    await cluster.merge(resources.POD, pod, {"metadata": {"uid": meta["uid"], "labels": {names.DRIVER_ADOPTED: value}}})


def _kept(pod: dict[str, Any]) -> bool:
    return any(one["kind"] == "DaemonSet" for one in pod["metadata"].get("ownerReferences") or ())


async def _until(reads: Reads, is_so: Any, args: argparse.Namespace) -> None:
    """Wait until the operator is so far; raises UsageError after the time that is given."""
    deadline = time.monotonic() + args.timeout
    while not is_so(await reads.operator()):
        if time.monotonic() >= deadline:
            raise UsageError("GPU Operator has not ended in time. Begin again: what is done stays done.")
        await asyncio.sleep(LOOK_AGAIN)
