"""gpupool-controller: wiring only. Which caches, which change wakes which key."""

from __future__ import annotations

import asyncio
import sys
import time
from typing import TYPE_CHECKING

from controllers.api import names, resources
from controllers.api.gpudevice import GPUDevice
from controllers.api.gpunodeinventory import GPUNodeInventory
from controllers.api.gpupool import GPUPool
from controllers.api.kube import ConfigMap, DaemonSet, Node, Pod
from controllers.api.settings import Settings
from controllers.gpupool import metrics, nodes, plan, reservations
from controllers.gpupool.observe import BY_POOL, FREE, World
from controllers.gpupool.operands import AGENT_IMAGE
from controllers.runtime.controller import Controller
from controllers.runtime.plan import Apply
from controllers.runtime.process import Process, arguments, main
from controllers.runtime.reflector import Scope
from controllers.runtime.settings import module_settings

if TYPE_CHECKING:
    from controllers.api.meta import KubeObject

OURS = Scope(namespace=names.NAMESPACE, labels=names.LABEL_POOL)
STATUS_PERIOD = 1.0
"""Seconds between two writes of one pool's status."""
CANDIDATES_DELAY = 0.25
"""Seconds in which changes of free cards are collected before every pool looks at them."""


class Reconciler:
    """The three loops over one set of caches."""

    def __init__(self, process: Process, world: World) -> None:
        """Make the loops; `watch` connects them to the caches."""
        self._execute, self._world = process.executor.execute, world
        self._status_written: dict[str, float] = {}
        self.pools = Controller("pools", self._pool, workers=4)
        self.nodes = Controller("nodes", self._node, workers=8)
        self.cards = Controller("cards", self._card, workers=8)

    async def _pool(self, name: str) -> float | None:
        seen = self._world.pool(name)
        if seen is None:
            self._status_written.pop(name, None)
            metrics.forget(name)
            made = plan.orphans(self._world.without_pool(name), time.time())
            await self._execute(made.actions)
            return made.requeue_after
        due = self._status_written.get(name, float("-inf")) + STATUS_PERIOD
        made = plan.plan(seen, time.time(), status_in=due - time.monotonic())
        await self._execute(made.actions)
        if any(isinstance(a, Apply) and a.ref.resource is resources.GPUPOOL and a.subresource for a in made.actions):
            self._status_written[name] = time.monotonic()
        metrics.record(seen.pool)
        return made.requeue_after

    async def _node(self, name: str) -> float | None:
        made = nodes.plan(self._world.node(name), time.time())
        await self._execute(made.actions)
        return made.requeue_after

    async def _card(self, name: str) -> float | None:
        seen = self._world.card(name)
        if seen is None:
            return None
        made = reservations.plan(seen, time.time())
        await self._execute(made.actions)
        return made.requeue_after

    def watch(self) -> None:
        """Wake keys by changes."""
        world = self._world
        world.pools.subscribe(self._pool_changed)
        world.devices.subscribe(self._device_changed)
        world.nodes.subscribe(self._node_changed)
        world.inventories.subscribe(self._node_changed)
        world.pods.subscribe(self._pod_changed)
        world.configs.subscribe(self._operand_changed)
        world.daemonsets.subscribe(self._operand_changed)

    def everything(self) -> None:
        """Look at every key, as after a start or a change of settings."""
        self.pools.add_all(pool.name for pool in self._world.pools)
        self.pools.add_all(name for name in self._world.devices.index_values(BY_POOL) if name != FREE)
        self.nodes.add_all({node.name for node in self._world.inventories})
        self.cards.add_all(device.name for device in self._world.devices)

    def settings_changed(self, settings: Settings) -> None:
        """Follow new settings."""
        self._world.settings = settings
        self.everything()

    def _pool_changed(self, old: GPUPool | None, new: GPUPool | None) -> None:
        pool = new or old
        if pool is None:
            return
        self.pools.add(pool.name)
        if old is None or new is None or _stands(old) != _stands(new):
            self.nodes.add_all({node.name for node in self._world.inventories})
            self._candidates_changed()

    def _device_changed(self, old: GPUDevice | None, new: GPUDevice | None) -> None:
        for device in (old, new):
            if device is None:
                continue
            self.nodes.add(device.status.node_name or "")
            if device.status.pool_ref is not None:
                self.pools.add(device.status.pool_ref.name)
            else:
                self._candidates_changed()
            if wanted := device.metadata.annotations.get(names.ASSIGNMENT):
                self.pools.add(wanted)
        if new is not None:
            self.cards.add(new.name)

    def _candidates_changed(self) -> None:
        for pool in self._world.pools:
            self.pools.add_after(pool.name, CANDIDATES_DELAY)

    def _node_changed(self, old: KubeObject | None, new: KubeObject | None) -> None:
        name = (new or old or Node()).name
        self.nodes.add(name)
        members = self._world.devices.by("node", name)
        self.pools.add_all({d.status.pool_ref.name for d in members if d.status.pool_ref})
        if any(d.status.pool_ref is None for d in members):
            self._candidates_changed()

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        for pod in (old, new):
            if pod is None:
                continue
            self.pools.add(pod.metadata.labels.get(names.LABEL_POOL, ""))
            if request := pod.metadata.annotations.get(names.REQUEST_ID):
                self.cards.add_all(
                    d.name
                    for d in self._world.devices.by(BY_POOL, pod.metadata.labels.get(names.LABEL_POOL, ""))
                    if any(r.request_id == request for r in d.status.reservations)
                )

    def _operand_changed(self, old: KubeObject | None, new: KubeObject | None) -> None:
        self.pools.add((new or old or Node()).metadata.labels.get(names.LABEL_POOL, ""))


def _stands(pool: GPUPool) -> tuple[object, ...]:
    """What other pools' and nodes' decisions read of a pool."""
    return pool.spec, pool.metadata.deletion_timestamp


async def wire(process: Process) -> None:
    """Connect caches and loops, and live."""
    world = World(
        pools=process.reflect(resources.GPUPOOL, GPUPool),
        devices=process.reflect(resources.GPUDEVICE, GPUDevice),
        inventories=process.reflect(resources.GPUNODEINVENTORY, GPUNodeInventory),
        nodes=process.reflect(resources.NODE, Node),
        pods=process.reflect(resources.POD, Pod, scope=Scope(labels=names.LABEL_POOL, fields=names.TENANT_PODS)),
        configs=process.reflect(resources.CONFIGMAP, ConfigMap, scope=OURS),
        daemonsets=process.reflect(resources.DAEMONSET, DaemonSet, scope=OURS),
        agent_image=process.args.agent_image,
    )
    reconciler = Reconciler(process, world)
    module_settings(process).subscribe(reconciler.settings_changed)

    async def work() -> None:
        reconciler.watch()
        reconciler.everything()
        async with asyncio.TaskGroup() as group:
            for controller in (reconciler.pools, reconciler.nodes, reconciler.cards):
                group.create_task(controller.run(), name=controller.name)

    await process.run(work, lease=names.POOL_CONTROLLER, namespace=names.NAMESPACE)


if __name__ == "__main__":
    DESCRIPTION = "Puts GPU cards into pools, runs the pools' device plugins, and ends reservations."
    PARSER = arguments(names.POOL_CONTROLLER, DESCRIPTION)
    PARSER.add_argument("--agent-image", default=AGENT_IMAGE, help="image of the pools' device plugins")
    sys.exit(main(PARSER, names.MANAGER_POOL, wire))
