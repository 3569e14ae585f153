"""`kubectl gpu images`: the images of the module and of what it runs, for a registry of one's own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from controllers.api import resources, system_facts
from controllers.api.agent_report import Report
from controllers.api.gpudriver import GPUDriver
from controllers.api.meta import KubeObject
from controllers.api.names import MODULE, NAMESPACE
from controllers.api.record import adapter
from controllers.api.settings import ModuleConfig, Settings, parse_settings
from controllers.explain import images as listing
from controllers.explain import manifests
from controllers.explain.faults import UsageError
from controllers.runtime.errors import NotFound
from kubectl_gpu import output
from kubectl_gpu.files import text_of
from kubectl_gpu.terminal import print_lines, warn

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable, Iterator

    from controllers.explain.images import ImageUse
    from kubectl_gpu.cluster import Cluster

OK = 0
CRONJOB = resources.Resource("batch", "v1", "cronjobs", "CronJob", namespaced=True)
WORKLOADS = (resources.DEPLOYMENT, resources.DAEMONSET, CRONJOB)


async def images(cluster: Cluster | None, args: argparse.Namespace) -> int:
    """Print them, one a line. Without a cluster, of the chart's values, settings and drivers in files."""
    given = _given(args)
    found = list(_of_files(args.filename, given)) if cluster is None else await _of_cluster(cluster, given)
    made = listing.merged(found)
    if args.output == "text":
        print_lines(one["image"] for one in made)
    else:
        output.structured({"images": made}, args.output)
    return OK


def _given(args: argparse.Namespace) -> set[tuple[str, str]]:
    """Systems and kernels that were typed; the images that serve any kernel are of no kernel."""
    if args.kernel and not args.system:
        raise UsageError("--kernel needs --system: a kernel is that of a system, such as ubuntu24.04.")
    return {(system, kernel) for system in args.system or () for kernel in ("", *(args.kernel or ()))}


def _of_files(files: Iterable[str], systems: set[tuple[str, str]]) -> Iterator[ImageUse]:
    documents = [one for name in files for one in manifests.documents(text_of(name), name)]
    settings = [one.get("spec") or {} for one in documents if one.get("kind") == "ModuleConfig"]
    chosen = parsed(settings[-1]) if settings else Settings()
    try:
        drivers = [adapter(GPUDriver).validate_python(one) for one in documents if one.get("kind") == "GPUDriver"]
    except ValueError as error:
        raise UsageError(f"A GPUDriver of the files is not as it has to be: {error}") from error
    own = [use for one in documents if "gpuControlPlane" in one for use in listing.own_images(one)]
    if not own:
        warn("The module's own images are not among them: give the chart's values with -f.")
    if drivers and not systems:
        warn("Images of drivers depend on the nodes' systems: give --system, such as --system ubuntu24.04.")
    yield from (*own, *listing.operand_images(chosen), *listing.driver_images(drivers, systems))


def parsed(spec: dict[str, Any]) -> Settings:
    """The settings of a ModuleConfig; raises UsageError."""
    try:
        return parse_settings(spec.get("settings") or {}, spec.get("version", 1))
    except ValueError as error:
        raise UsageError(f"ModuleConfig {MODULE} is not as the module takes it: {error}") from error


async def _of_cluster(cluster: Cluster, systems: set[tuple[str, str]]) -> list[ImageUse]:
    try:
        config = (await cluster.get(resources.MODULECONFIG, ModuleConfig, MODULE)).obj
        settings = parsed({"settings": config.spec.settings, "version": config.spec.version})
    except NotFound:
        settings = Settings()
    running = [found.raw for kind in WORKLOADS for found in await cluster.list(kind, KubeObject, namespace=NAMESPACE)]
    drivers = [found.obj for found in await cluster.list(resources.GPUDRIVER, GPUDriver)]
    systems = systems | (await _systems(cluster) if drivers else set())
    return [
        *listing.running_images(running),
        *listing.operand_images(settings),
        *listing.driver_images(drivers, systems),
    ]


async def _systems(cluster: Cluster) -> set[tuple[str, str]]:
    """System and kernel of each node, as its agent reports them; the kernel that it will boot next, too."""
    made: set[tuple[str, str]] = set()
    for found in await cluster.list(resources.NODEFEATURE, Report, namespace=NAMESPACE):
        system = found.obj.spec.features.attributes.system
        facts = system_facts.read(system.elements if system is not None else {})
        made |= {(facts.system, kernel) for kernel in (facts.kernel, facts.next_kernel) if facts.system and kernel}
    return made
