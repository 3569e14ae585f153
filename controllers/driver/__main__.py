"""gpu-driver-controller: wiring only. Which objects are cached, and what runs."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING, Any, cast

from prometheus_client import REGISTRY

from controllers.api import names, resources
from controllers.api.agent_report import Report
from controllers.api.gpudevice import GPUDevice
from controllers.api.gpudriver import GPUDriver, Proxy
from controllers.api.gpunodeinventory import GPUNodeInventory
from controllers.api.kube import ConfigMap, DaemonSet, Node
from controllers.api.user_pod import ResourceClaim, UserPod, may_use_cards
from controllers.components.images import AGENT_IMAGE
from controllers.domain.mig.configmap import COMPONENT as MIG_MANAGER
from controllers.driver.caches import Caches
from controllers.driver.loops.leadership import caught_up
from controllers.driver.loops.reconciler import Reconciler
from controllers.driver.metrics import DriverWork
from controllers.driver.records import Pod, Pool
from controllers.driver.world import World
from controllers.runtime.process import Process, arguments, main
from controllers.runtime.reflector import Scope
from controllers.runtime.settings import module_settings

if TYPE_CHECKING:
    import argparse

    from controllers.runtime.store import Store

DRIVERS = Scope(namespace=names.NAMESPACE, labels=names.LABEL_DRIVER)
USERS = Scope(fields=f"{names.TENANT_PODS},spec.nodeName!=", only=may_use_cards)
"""Pods that are bound to a node and may use cards, found by what they ask for: no label says who does."""
ADOPTED = Scope(labels=f"{names.DRIVER_ADOPTED}=true")
CONFIGS = Scope(
    namespace=names.NAMESPACE, labels=f"{names.LABEL_COMPONENT} notin (device-plugin,{MIG_MANAGER},dcgm-exporter)"
)
"""ConfigMaps that GPUDrivers name, which carry no mark, and our own; not the pools' lists, nor the nodes' layouts."""


async def wire(process: Process) -> None:
    """Connect caches and loops, and live."""
    caches = Caches(
        drivers=process.reflect(resources.GPUDRIVER, GPUDriver),
        nodes=process.reflect(resources.NODE, Node),
        reports=process.reflect(resources.NODEFEATURE, Report, scope=Scope(namespace=names.NAMESPACE), optional=True),
        inventories=process.reflect(resources.GPUNODEINVENTORY, GPUNodeInventory),
        devices=process.reflect(resources.GPUDEVICE, GPUDevice),
        pods=process.reflect(resources.POD, Pod, scope=DRIVERS),
        daemonsets=process.reflect(resources.DAEMONSET, DaemonSet, scope=DRIVERS),
        configmaps=process.reflect(resources.CONFIGMAP, ConfigMap, scope=CONFIGS),
        users=process.reflect(resources.POD, UserPod, scope=USERS, second="pods that may use cards"),
        claims=process.reflect(resources.RESOURCECLAIM, ResourceClaim, optional=True),
        pools=process.reflect(resources.GPUPOOL, Pool),
        adopted=process.reflect(resources.POD, Pod, scope=ADOPTED, second="adopted drivers"),
    )
    world = World(
        caches,
        agent_image=process.args.agent_image,
        cluster_proxy=cluster_proxy(process.args),
        refusals=process.executor.refusals,
    )
    reconciler = Reconciler(process, world)
    live = module_settings(process)
    live.subscribe(lambda settings: reconciler.settings_changed(settings, enabled=live.enabled))

    async def work() -> None:
        await caught_up(process.client, resources.GPUNODEINVENTORY, cast("Store[Any]", caches.inventories))
        # Only the leader exports what it counts in the cluster: with a standby's it would count twice.
        REGISTRY.register(DriverWork(world))
        reconciler.settings_changed(live.current, enabled=live.enabled)
        reconciler.watch()
        async with asyncio.TaskGroup() as group:
            for controller in reconciler.controllers:
                group.create_task(controller.run(), name=controller.name)

    await process.run(work, lease=names.DRIVER_CONTROLLER, namespace=names.NAMESPACE)


def cluster_proxy(args: argparse.Namespace) -> Proxy | None:
    """The cluster's proxies, where it has some."""
    http, https, no = args.cluster_http_proxy, args.cluster_https_proxy, args.cluster_no_proxy
    return Proxy(http=http or None, https=https or None, no=no or None) if http or https else None


if __name__ == "__main__":
    DESCRIPTION = "Brings drivers onto GPU nodes that have none, as GPUDrivers ask for them."
    PARSER = arguments(names.DRIVER_CONTROLLER, DESCRIPTION)
    PARSER.add_argument("--agent-image", default=AGENT_IMAGE, help="image of the node agent that looks at a node")
    PARSER.add_argument("--cluster-http-proxy", default="", metavar="URL", help="the cluster's proxy for http")
    PARSER.add_argument("--cluster-https-proxy", default="", metavar="URL", help="the cluster's proxy for https")
    PARSER.add_argument("--cluster-no-proxy", default="", metavar="LIST", help="what goes past the cluster's proxies")
    sys.exit(main(PARSER, names.MANAGER_DRIVER, wire))
