"""gpupool-controller: wiring only. Which objects are cached, and what runs."""

from __future__ import annotations

import asyncio
import sys
import time

from prometheus_client import REGISTRY

from controllers.api import names, resources
from controllers.api.gpudevice import GPUDevice
from controllers.api.gpunodeinventory import GPUNodeInventory
from controllers.api.gpupool import GPUPool
from controllers.api.kube import ConfigMap, DaemonSet, Node
from controllers.api.tenant import TenantPod, UnadmittedPod
from controllers.components.images import AGENT_IMAGE
from controllers.domain.agents import api_server
from controllers.domain.mig.configmap import COMPONENT as MIG_MANAGER
from controllers.domain.request import pools_of
from controllers.gpupool import collectors
from controllers.gpupool.loops.reconciler import Reconciler
from controllers.gpupool.operands.device_plugin import PLUGIN
from controllers.gpupool.queue_collector import QueueCollector
from controllers.gpupool.world import World
from controllers.runtime.process import Process, arguments, main
from controllers.runtime.reflector import Scope
from controllers.runtime.settings import module_settings

OURS = Scope(namespace=names.NAMESPACE, labels=names.LABEL_POOL)
ADMITTED = Scope(labels=names.LABEL_POOL, fields=names.TENANT_PODS)
UNADMITTED = Scope(labels=f"!{names.LABEL_POOL}", fields=names.TENANT_PODS, only=pools_of)
"""Pods that ask for cards and went round the webhook, found by what they ask for (ADR 0021)."""
CONFIGS = Scope(namespace=names.NAMESPACE, labels=f"{names.LABEL_COMPONENT} in ({PLUGIN},{MIG_MANAGER})")
"""The pools' lists, and the nodes' MIG layouts, which belong to no pool alone."""


async def wire(process: Process) -> None:
    """Connect caches and loops, and live."""
    world = World(
        pools=process.reflect(resources.GPUPOOL, GPUPool),
        devices=process.reflect(resources.GPUDEVICE, GPUDevice),
        inventories=process.reflect(resources.GPUNODEINVENTORY, GPUNodeInventory),
        nodes=process.reflect(resources.NODE, Node),
        pods=process.reflect(resources.POD, TenantPod, scope=ADMITTED),
        unadmitted=process.reflect(resources.POD, UnadmittedPod, scope=UNADMITTED, second="unadmitted pods"),
        configs=process.reflect(resources.CONFIGMAP, ConfigMap, scope=CONFIGS),
        daemonsets=process.reflect(resources.DAEMONSET, DaemonSet, scope=OURS),
        clock=time.time,
        agent_image=process.args.agent_image,
        agent_env=api_server(process.args.agent_api_server_host, process.args.agent_api_server_port),
    )
    reconciler = Reconciler(process, world)
    live = module_settings(process)
    live.subscribe(lambda settings: reconciler.settings_changed(settings, enabled=live.enabled))

    async def work() -> None:
        # Only the leader exports what it counts in the cluster: with a standby's it would count twice.
        REGISTRY.register(collectors.ReservationCollector(world))
        REGISTRY.register(collectors.StatusCollector(world))
        REGISTRY.register(QueueCollector(world))
        reconciler.watch()
        reconciler.enqueue_all()
        async with asyncio.TaskGroup() as group:
            for controller in reconciler.controllers:
                group.create_task(controller.run(), name=controller.name)

    await process.run(work, lease=names.POOL_CONTROLLER, namespace=names.NAMESPACE)


if __name__ == "__main__":
    DESCRIPTION = "Puts GPU cards into pools, runs the pools' device plugins, and ends reservations."
    PARSER = arguments(names.POOL_CONTROLLER, DESCRIPTION)
    PARSER.add_argument("--agent-image", default=AGENT_IMAGE, help="image of the pools' device plugins")
    PARSER.add_argument("--agent-api-server-host", help="address of the API server for agents; else its Service")
    PARSER.add_argument("--agent-api-server-port", help="its port (default: 443)")
    sys.exit(main(PARSER, names.MANAGER_POOL, wire))
