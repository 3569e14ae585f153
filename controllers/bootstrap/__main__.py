"""gpu-bootstrap-controller: wiring only. Which caches, which change wakes which key."""

from __future__ import annotations

import asyncio
import sys
import time
from typing import TYPE_CHECKING

from prometheus_client import REGISTRY

from controllers.api import names, resources
from controllers.api.gpudevice import GPUDevice
from controllers.api.gpunodeinventory import GPUNodeInventory
from controllers.api.kube import Node, Pod
from controllers.api.nodefeature import NodeFeature
from controllers.api.settings import Settings
from controllers.bootstrap import components, plan
from controllers.bootstrap.metrics import Readiness
from controllers.bootstrap.observe import Operand, RuntimeClass, World
from controllers.bootstrap.operands import AGENT_IMAGE
from controllers.runtime.controller import Controller
from controllers.runtime.process import Process, arguments, main
from controllers.runtime.reflector import Scope
from controllers.runtime.settings import LiveSettings, module_settings

if TYPE_CHECKING:
    from controllers.api.meta import KubeObject

OPERANDS = Scope(namespace=names.NAMESPACE, labels=names.LABEL_COMPONENT)
ALL = "all"
"""The only key of the components' loop."""


class Reconciler:
    """A loop over nodes, and one for what runs on all of them."""

    def __init__(self, process: Process, world: World, settings: LiveSettings[Settings]) -> None:
        """Make the loops; `watch` connects them to the caches."""
        self._execute, self._world, self._settings = process.executor.execute, world, settings
        self._agent_image = process.args.agent_image
        self.nodes = Controller("bootstrap", self._node, workers=16)
        self.components = Controller("components", self._components, workers=1)

    async def _node(self, name: str) -> float | None:
        made = plan.plan(self._world.node(name), self._settings.current, time.time())
        await self._execute(made.actions)
        return made.requeue_after

    async def _components(self, _: str) -> float | None:
        made = components.plan(self._world.operands(), self._settings.current.bootstrap, self._agent_image)
        await self._execute(made.actions)
        return made.requeue_after

    def watch(self) -> None:
        """Wake keys by changes."""
        world = self._world
        world.nodes.subscribe(self._named_as_node)
        world.inventories.subscribe(self._named_as_node)
        world.features.subscribe(self._feature_changed)
        world.devices.subscribe(self._device_changed)
        world.pods.subscribe(self._pod_changed)
        world.daemonsets.subscribe(lambda _, __: self.components.add(ALL))
        world.runtime_classes.subscribe(lambda _, __: self.components.add(ALL))
        self._settings.subscribe(lambda _: self.everything())

    def everything(self) -> None:
        """Look at every key, as after a start or a change of settings."""
        self.components.add(ALL)
        self.nodes.add_all(inventory.name for inventory in self._world.inventories)

    def _named_as_node(self, old: KubeObject | None, new: KubeObject | None) -> None:
        self.nodes.add((new or old or Node()).name)

    def _feature_changed(self, old: NodeFeature | None, new: NodeFeature | None) -> None:
        self.nodes.add_all({feature.node for feature in (old, new) if feature is not None and feature.is_agent_report})

    def _device_changed(self, old: GPUDevice | None, new: GPUDevice | None) -> None:
        self.nodes.add_all({device.status.node_name for device in (old, new) if device and device.status.node_name})

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        self.nodes.add_all({pod.node for pod in (old, new) if pod and pod.node})


async def wire(process: Process) -> None:
    """Connect caches and loops, and live."""
    world = World(
        nodes=process.reflect(resources.NODE, Node),
        features=process.reflect(
            resources.NODEFEATURE, NodeFeature, scope=Scope(namespace=names.NAMESPACE), optional=True
        ),
        inventories=process.reflect(resources.GPUNODEINVENTORY, GPUNodeInventory),
        devices=process.reflect(resources.GPUDEVICE, GPUDevice),
        pods=process.reflect(resources.POD, Pod, scope=OPERANDS),
        daemonsets=process.reflect(resources.DAEMONSET, Operand, scope=OPERANDS),
        runtime_classes=process.reflect(resources.RUNTIMECLASS, RuntimeClass),
    )
    settings = module_settings(process)
    reconciler = Reconciler(process, world, settings)
    REGISTRY.register(Readiness(world))

    async def work() -> None:
        reconciler.watch()
        reconciler.everything()
        async with asyncio.TaskGroup() as group:
            for controller in (reconciler.nodes, reconciler.components):
                group.create_task(controller.run(), name=controller.name)

    await process.run(work, lease=names.BOOTSTRAP, namespace=names.NAMESPACE)


if __name__ == "__main__":
    DESCRIPTION = "Prepares GPU nodes, component by component, and says when their cards may be pooled."
    PARSER = arguments(names.BOOTSTRAP, DESCRIPTION)
    PARSER.add_argument("--agent-image", default=AGENT_IMAGE, help="image of the node agents that check a node")
    sys.exit(main(PARSER, names.MANAGER_BOOTSTRAP, wire))
