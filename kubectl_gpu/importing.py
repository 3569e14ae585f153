"""`kubectl gpu import gpu-operator`: what NVIDIA's GPU Operator was asked for, as objects of this module."""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from typing import TYPE_CHECKING, Final

from controllers.api import foreign, resources
from controllers.api.meta import KubeObject
from controllers.explain.faults import UsageError, describe_fault
from controllers.explain.words import counted
from controllers.gpu_operator.imported import Imported, imported
from controllers.gpu_operator.preconditions import preconditions
from controllers.gpu_operator.source import GROUP, Source, config_maps_named, namespace_of, read
from controllers.runtime.errors import NotFound, RuntimeFault
from kubectl_gpu import output, writing
from kubectl_gpu.files import text_of
from kubectl_gpu.terminal import print_lines, warn

if TYPE_CHECKING:
    import argparse

    from kubectl_gpu.cluster import Cluster

OK, FAILED = 0, 1
NEXT: Final = {
    "GPUDriver": "GPUDrivers are paused: set spec.rollout.paused to false when they may begin.",
    "GPUPool": "no card goes into a GPUPool before somebody says so: kubectl gpu assign.",
}
WORDS: Final = {
    "Unknown": "unknown",
    "NoCounterpart": "no counterpart",
    "Refused": "refused",
    "Different": "different",
    "ToDo": "to do",
}


async def import_(cluster: Cluster | None, args: argparse.Namespace) -> int:
    """Print, or write, what GPU Operator was asked for. Without a cluster only files are read."""
    if args.filename:
        source = read((name, text_of(name)) for name in args.filename)
    else:
        assert cluster is not None  # noqa: S101 - only files do without
        source = await _of_cluster(cluster, args.operator_namespace)
    if source.is_empty:
        where = "These files hold" if args.filename else "This cluster has"
        raise UsageError(f"{where} no ClusterPolicy and no NVIDIADriver ({GROUP}): there is nothing to import.")
    made = imported(source)
    if not args.apply:
        _print(made, preconditions(source.nodes or ()), args.output)
        return OK
    assert cluster is not None  # noqa: S101 - who applies has one
    nodes = source.nodes if source.nodes is not None else await cluster.raws(resources.NODE)
    _warn(made, preconditions(nodes))
    return await _apply(cluster, made, overwrite=args.overwrite)


async def _apply(cluster: Cluster, made: Imported, *, overwrite: bool) -> int:
    writes = await writing.planned(cluster, made.objects, overwrite=overwrite, extend=True)
    refused = any(write.reason and write.reason != writing.OVERWRITE for write in writes)
    if not refused:
        await writing.carry_out(cluster, writes)
    print_lines(write.spelled(written=not refused) for write in writes)
    if refused:
        warn("error: nothing is written: see to what is refused first.")
    return FAILED if any(write.reason for write in writes) else OK


def _print(made: Imported, found: list[str], form: str) -> None:
    if form == "report":
        remarks = [asdict(one) for one in made.remarks]
        mapped = [{"there": there, "here": here} for there, here in made.resources]
        report = {"objects": made.objects, "remarks": remarks, "resources": mapped, "preconditions": found}
        output.structured(report, "json")
        return
    output.objects(made.objects, form)
    _warn(made, found)


def _warn(made: Imported, found: list[str]) -> None:
    """What a person reads beside the objects: on the error stream, so that the objects go into a file alone."""
    for one in made.remarks:
        value = f" ({one.value})" if one.value else ""
        warn(f"{WORDS[one.kind]}: {one.about}{value}: {one.reason}.")
    for there, here in made.resources:
        warn(f"resource: pods that ask for {there} ask for {here}.")
    for message in found:
        warn(f"first: {message}")
    made_kinds = {one["kind"] for one in made.objects}
    for kind in (kind for kind in NEXT if kind in made_kinds):
        warn(f"next: {NEXT[kind]}")
    warn(f"{counted(len(made.objects), 'object')}, {counted(len(made.remarks), 'remark')}.")


async def _of_cluster(cluster: Cluster, namespace: str | None) -> Source:
    source = Source(nodes=[])
    kinds = (foreign.CLUSTERPOLICY, foreign.NVIDIADRIVER, foreign.GPUCLUSTER, resources.NODE)
    for found in await asyncio.gather(*(cluster.raws(kind) for kind in kinds)):
        for raw in found:
            source.add(raw)
    where = namespace or namespace_of(source)
    for name in sorted(config_maps_named(source)):
        try:
            source.add((await cluster.get(resources.CONFIGMAP, KubeObject, name, where)).raw)
        except NotFound:
            continue  # a remark says so, where it matters
        except RuntimeFault as error:
            warn(f"ConfigMap {where}/{name}: {describe_fault(error)}")
    return source
