"""gpu-bootstrap-controller: wiring only. Which objects are cached, and what runs."""

from __future__ import annotations

import asyncio
import sys

from prometheus_client import REGISTRY

from controllers.api import foreign, names, resources
from controllers.api.agent_report import Report
from controllers.api.foreign import ForeignDaemonSet, ForeignPod
from controllers.api.gpunodeinventory import GPUNodeInventory
from controllers.api.kube import ConfigMap, Node
from controllers.bootstrap.loops.reconciler import Reconciler
from controllers.bootstrap.metrics.compatibility import Compatibility
from controllers.bootstrap.metrics.nodes import Readiness, Software
from controllers.bootstrap.records import Card, Operand, Pod, RuntimeClass
from controllers.bootstrap.telemetry.metrics import DeviceHealth
from controllers.bootstrap.telemetry.targets import EXPORTER_URL, exporter_url
from controllers.bootstrap.world import World
from controllers.components.images import AGENT_IMAGE
from controllers.runtime.process import Process, arguments, main
from controllers.runtime.reflector import Scope
from controllers.runtime.settings import module_settings

OPERANDS = Scope(namespace=names.NAMESPACE, labels=f"{names.LABEL_COMPONENT},!{names.LABEL_DRIVER}")
"""Not drivers, nor what looks for them: those are another process's."""


async def wire(process: Process) -> None:
    """Connect caches and loops, and live."""
    world = World(
        nodes=process.reflect(resources.NODE, Node),
        features=process.reflect(resources.NODEFEATURE, Report, scope=Scope(namespace=names.NAMESPACE), optional=True),
        inventories=process.reflect(resources.GPUNODEINVENTORY, GPUNodeInventory),
        devices=process.reflect(resources.GPUDEVICE, Card),
        pods=process.reflect(resources.POD, Pod, scope=OPERANDS),
        daemonsets=process.reflect(resources.DAEMONSET, Operand, scope=OPERANDS),
        configmaps=process.reflect(resources.CONFIGMAP, ConfigMap, scope=OPERANDS),
        runtime_classes=process.reflect(resources.RUNTIMECLASS, RuntimeClass),
        foreign=process.reflect(
            resources.POD,
            ForeignPod,
            scope=Scope(labels=foreign.BY_APP, only=lambda pod: pod.spec.is_privileged),
            second="pods of other programs",
        ),
        foreign_drivers=process.reflect(
            resources.POD,
            ForeignPod,
            scope=Scope(labels=foreign.BY_COMPONENT, only=lambda pod: pod.spec.is_privileged),
            second="pods of other drivers",
        ),
        driver_daemonsets=process.reflect(
            resources.DAEMONSET,
            ForeignDaemonSet,
            scope=Scope(labels=foreign.DRIVERS, only=lambda made: made.drives),
            second="DaemonSets of other drivers",
        ),
    )
    settings = module_settings(process)
    reconciler = Reconciler(process, world, settings)

    async def work() -> None:
        # Only who leads tells of the cluster: a standby's word would count twice.
        REGISTRY.register(Readiness(world))
        REGISTRY.register(Software(world))
        REGISTRY.register(Compatibility(world, lambda: settings.current.bootstrap.monitoring.compatibility))
        REGISTRY.register(DeviceHealth(reconciler.monitor.known))
        reconciler.begin()
        async with asyncio.TaskGroup() as group:
            for controller in reconciler.controllers:
                group.create_task(controller.run(), name=controller.name)
            group.create_task(reconciler.scraper.run(), name="scraper")

    await process.run(work, lease=names.BOOTSTRAP, namespace=names.NAMESPACE)


if __name__ == "__main__":
    DESCRIPTION = "Prepares GPU nodes, component by component, and says when their cards may be pooled."
    PARSER = arguments(names.BOOTSTRAP, DESCRIPTION)
    PARSER.add_argument("--agent-image", default=AGENT_IMAGE, help="image of the node agents that check a node")
    PARSER.add_argument("--agent-api-server-host", help="address of the API server for agents; else its Service")
    PARSER.add_argument("--agent-api-server-port", help="its port (default: 443)")
    about = "the host's folder in which a driver's container mounts its root (default: /run/nvidia/driver)"
    PARSER.add_argument("--agent-driver-root", default="", metavar="FOLDER", help=about)
    PARSER.add_argument(
        "--exporter-url",
        type=exporter_url,
        default=EXPORTER_URL,
        metavar="URL",
        help="where a node's exporter answers; {host} is its pod's address, {node} the node (default: %(default)s)",
    )
    sys.exit(main(PARSER, names.MANAGER_BOOTSTRAP, wire))
