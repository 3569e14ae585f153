"""gpu-inventory-controller: wiring only. Which objects are cached, and what runs."""

from __future__ import annotations

import asyncio
import sys

from prometheus_client import REGISTRY

from controllers.api import names, resources
from controllers.api.gpudevice import GPUDevice
from controllers.api.gpunodeinventory import GPUNodeInventory
from controllers.api.kube import Node
from controllers.api.nodefeature import NodeFeature
from controllers.inventory.loops.nodes import NodeController
from controllers.inventory.loops.rule import RuleController
from controllers.inventory.metrics import InventoryCollector
from controllers.inventory.rule.node_feature_rule import NodeFeatureRule
from controllers.inventory.world import World
from controllers.runtime.process import Process, arguments, main
from controllers.runtime.reflector import Scope
from controllers.runtime.settings import module_settings

OURS = Scope(fields=f"metadata.name={names.NODE_FEATURE_RULE}")


async def wire(process: Process) -> None:
    """Connect caches and loops, and live."""
    world = World(
        nodes=process.reflect(resources.NODE, Node),
        # NFD's own, from its namespace, and the agent's, which are trusted only from ours.
        features=process.reflect(resources.NODEFEATURE, NodeFeature, optional=True),
        devices=process.reflect(resources.GPUDEVICE, GPUDevice),
        inventories=process.reflect(resources.GPUNODEINVENTORY, GPUNodeInventory),
    )
    settings = module_settings(process)
    nodes = NodeController(process, world, settings)
    rules = process.reflect(resources.NODEFEATURERULE, NodeFeatureRule, scope=OURS, optional=True)
    rule = RuleController(process, world, rules, nodes.enqueue_all)

    async def work() -> None:
        REGISTRY.register(InventoryCollector(world))  # of the leader alone: a standby's would be counted twice
        nodes.watch()
        rule.watch()
        async with asyncio.TaskGroup() as group:
            for controller in (nodes.controller, rule.controller):
                group.create_task(controller.run(), name=controller.name)

    await process.run(work, lease=names.INVENTORY, namespace=names.NAMESPACE)


if __name__ == "__main__":
    DESCRIPTION = "Records every GPU card of the cluster as a GPUDevice, and every GPU node as a GPUNodeInventory."
    sys.exit(main(arguments(names.INVENTORY, DESCRIPTION), names.MANAGER_INVENTORY, wire))
