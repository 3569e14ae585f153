"""`kubectl gpu backup` and `restore`: what people decided, into a file, and into a cluster that is made anew."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from controllers.api import resources
from controllers.api.gpudevice import GPUDevice
from controllers.api.gpudriver import GPUDriver
from controllers.api.meta import KubeObject
from controllers.api.names import MODULE
from controllers.api.record import adapter
from controllers.explain import backup as kept
from controllers.explain.words import counted
from kubectl_gpu import exporting, output, writing
from kubectl_gpu.files import text_of
from kubectl_gpu.terminal import print_lines, warn

if TYPE_CHECKING:
    import argparse

    from kubectl_gpu.cluster import Cluster

OK, FAILED = 0, 1


async def backup(cluster: Cluster, args: argparse.Namespace) -> int:
    """Write the file."""
    devices = [found.raw for found in await cluster.list(resources.GPUDEVICE, GPUDevice)]
    drivers = await cluster.list(resources.GPUDRIVER, GPUDriver)
    pools = await cluster.list(resources.GPUPOOL, KubeObject)
    objects = [*await _settings(cluster), *(each.raw for each in pools), *(each.raw for each in drivers)]
    made = kept.backed_up(objects, devices)
    output.structured(made, args.output)
    marked = len(made["items"]) - len(objects)
    warn(f"{counted(len(objects), 'object')}, and what was said of {counted(marked, 'card')}.")
    for name in kept.beside(found.obj for found in drivers):
        warn(f"not in the backup: {name}, which a GPUDriver names.")
    return OK


async def _settings(cluster: Cluster) -> list[dict[str, Any]]:
    """The module's ModuleConfig; none where nobody made one."""
    found = await cluster.find(resources.MODULECONFIG, KubeObject, MODULE)
    return [] if found is None else [found.raw]


async def restore(cluster: Cluster, args: argparse.Namespace) -> int:
    """Say what the file would change, and with --apply change it."""
    wanted = kept.read(text_of(args.filename), args.filename)
    writes = await writing.planned(cluster, wanted.objects, overwrite=args.overwrite)
    if args.apply:
        await writing.carry_out(cluster, writes)
    print_lines(write.spelled(written=args.apply) for write in writes)
    devices = [found.obj for found in await cluster.list(resources.GPUDEVICE, GPUDevice)]
    cards = kept.located(wanted.cards, devices)
    wait = args.timeout if args.wait and args.apply else 0.0
    dry_run = "none" if args.apply else "client"
    done = await exporting.until_applied(cluster, cards, dry_run=dry_run, wait=wait, overwrite=args.overwrite)
    exporting.report(done, "table", dry_run)
    if not args.apply:
        warn("Nothing is written: --apply does it.")
    _remind(wanted)
    return FAILED if any(write.reason for write in writes) or any(card.reason for card in done) else OK


def _remind(wanted: kept.Backup) -> None:
    found = [adapter(GPUDriver).validate_python(raw) for raw in wanted.objects if raw["kind"] == "GPUDriver"]
    for name in kept.beside(found):
        warn(f"make anew by hand: {name}, which a GPUDriver names and no backup holds.")
