"""gpu-inventory-controller: wiring only. Which caches, which change wakes which node."""

from __future__ import annotations

import asyncio
import sys
import time
from typing import TYPE_CHECKING

from prometheus_client import REGISTRY

from controllers.api import names, resources
from controllers.api.gpudevice import GPUDevice
from controllers.api.gpunodeinventory import GPUNodeInventory
from controllers.api.kube import Node
from controllers.api.nodefeature import NodeFeature
from controllers.api.settings import Settings
from controllers.inventory.identity import node_of
from controllers.inventory.metrics import InventoryCollector
from controllers.inventory.record.plan import plan
from controllers.inventory.rule.node_feature_rule import NodeFeatureRule, ObservedRule
from controllers.inventory.rule.node_feature_rule import plan as plan_rule
from controllers.inventory.world import World
from controllers.runtime.controller import Controller
from controllers.runtime.errors import Forbidden, Invalid
from controllers.runtime.process import Process, arguments, main
from controllers.runtime.reflector import Scope
from controllers.runtime.settings import LiveSettings, module_settings

if TYPE_CHECKING:
    from collections.abc import Callable

    from controllers.api.meta import KubeObject

WORKERS = 16


class NodeReconciler:
    """The reconcile loop of nodes."""

    def __init__(self, process: Process, world: World, settings: LiveSettings[Settings]) -> None:
        """Create the loop; `watch` subscribes it to the caches."""
        self._execute, self._world, self._settings = process.executor.execute, world, settings
        self.nodes = Controller("inventory", self._node, workers=WORKERS)

    async def _node(self, name: str) -> float | None:
        made = plan(self._world.node(name), self._settings.current, time.time())
        await self._execute(made.actions)
        return made.requeue_after

    def watch(self) -> None:
        """Enqueue nodes on changes of what is cached about them."""
        self._world.nodes.subscribe(self._named_as_node)
        self._world.inventories.subscribe(self._named_as_node)
        self._world.features.subscribe(self._feature_changed)
        self._world.devices.subscribe(self._device_changed)
        self._settings.subscribe(lambda _: self.nodes.add_all(self._world.node_names()))

    def _named_as_node(self, old: KubeObject | None, new: KubeObject | None) -> None:
        self.nodes.add((new or old or Node()).name)

    def _feature_changed(self, old: NodeFeature | None, new: NodeFeature | None) -> None:
        self.nodes.add_all({feature.node for feature in (old, new) if feature is not None} - {""})

    def _device_changed(self, old: GPUDevice | None, new: GPUDevice | None) -> None:
        self.nodes.add_all({node_of(device) for device in (old, new) if device is not None} - {""})


class RuleReconciler:
    """The reconcile loop of our one NodeFeatureRule."""

    def __init__(self, process: Process, world: World, refused: Callable[[], None]) -> None:
        """Make the loop and its cache, which holds this one object; `watch` connects them.

        `refused` is called when the API server begins to refuse the rule, and when it ends to.
        """
        ours = Scope(fields=f"metadata.name={names.NODE_FEATURE_RULE}")
        self._execute, self._world, self._refused = process.executor.execute, world, refused
        self._rules = process.reflect(resources.NODEFEATURERULE, NodeFeatureRule, scope=ours, optional=True)
        self.rules = Controller("rule", self._rule, workers=1)

    async def _rule(self, name: str) -> float | None:
        made = plan_rule(ObservedRule(self._rules.get(name), served=self._rules.served))
        said = ""
        try:
            await self._execute(made.actions)
        except (Invalid, Forbidden) as error:
            said = error.message
            raise
        finally:
            if said != self._world.rule_error:
                self._world.rule_error = said
                self._refused()
        return made.requeue_after

    def watch(self) -> None:
        """Wake the loop by changes, and once."""
        self._rules.subscribe(lambda _old, _new: self.rules.add(names.NODE_FEATURE_RULE))
        self.rules.add(names.NODE_FEATURE_RULE)


async def wire(process: Process) -> None:
    """Connect caches and the loop, and live."""
    world = World(
        nodes=process.reflect(resources.NODE, Node),
        # NFD's own, from its namespace, and the agent's, which are trusted only from ours.
        features=process.reflect(resources.NODEFEATURE, NodeFeature, optional=True),
        devices=process.reflect(resources.GPUDEVICE, GPUDevice),
        inventories=process.reflect(resources.GPUNODEINVENTORY, GPUNodeInventory),
    )
    settings = module_settings(process)
    reconciler = NodeReconciler(process, world, settings)
    keeper = RuleReconciler(process, world, lambda: reconciler.nodes.add_all(world.node_names()))

    async def work() -> None:
        REGISTRY.register(InventoryCollector(world))  # of the leader alone: a standby's would be counted twice
        reconciler.watch()
        reconciler.nodes.add_all(world.node_names())
        keeper.watch()
        async with asyncio.TaskGroup() as group:
            for controller in (reconciler.nodes, keeper.rules):
                group.create_task(controller.run(), name=controller.name)

    await process.run(work, lease=names.INVENTORY, namespace=names.NAMESPACE)


if __name__ == "__main__":
    DESCRIPTION = "Records every GPU card of the cluster as a GPUDevice, and every GPU node as a GPUNodeInventory."
    sys.exit(main(arguments(names.INVENTORY, DESCRIPTION), names.MANAGER_INVENTORY, wire))
