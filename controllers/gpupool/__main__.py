"""gpupool-controller: wiring only. Which caches, which change wakes which key."""

from __future__ import annotations

import asyncio
import sys
import time
from functools import partial
from typing import TYPE_CHECKING

from prometheus_client import REGISTRY

from controllers.api import names, resources
from controllers.api.conditions import READY_FOR_POOLING, is_true
from controllers.api.gpudevice import GPUDevice
from controllers.api.gpunodeinventory import GPUNodeInventory
from controllers.api.gpupool import GPUPool
from controllers.api.kube import ConfigMap, DaemonSet, Node
from controllers.api.settings import Settings
from controllers.api.tenant import TenantPod, UnadmittedPod
from controllers.components.images import AGENT_IMAGE
from controllers.domain.agents import api_server
from controllers.domain.assignment import assigned_pool
from controllers.domain.mig.configmap import COMPONENT as MIG_MANAGER
from controllers.domain.position import is_lost
from controllers.domain.request import pools_of
from controllers.gpupool import metrics, plan, reservations
from controllers.gpupool.miglayout import profile
from controllers.gpupool.observe import BY_MEMORY, BY_NODE, BY_POOL, BY_REQUEST, FREE, World
from controllers.gpupool.operands.device_plugin import PLUGIN, SHARD_CARDS
from controllers.gpupool.places import POOLS_DELAY, Places
from controllers.gpupool.queues import Queues
from controllers.gpupool.sayings import Sayings, planned
from controllers.gpupool.tainting import Tainting
from controllers.runtime.controller import Controller
from controllers.runtime.process import Process, arguments, main
from controllers.runtime.reflector import Scope
from controllers.runtime.settings import module_settings

if TYPE_CHECKING:
    from collections.abc import Iterable

    from controllers.api.kube import Pod
    from controllers.api.meta import KubeObject
    from controllers.runtime.plan import Plan

OURS = Scope(namespace=names.NAMESPACE, labels=names.LABEL_POOL)
ADMITTED = Scope(labels=names.LABEL_POOL, fields=names.TENANT_PODS)
UNADMITTED = Scope(labels=f"!{names.LABEL_POOL}", fields=names.TENANT_PODS, only=pools_of)
"""Pods that ask for cards and went round the webhook, found by what they ask for (ADR 0021)."""
CONFIGS = Scope(namespace=names.NAMESPACE, labels=f"{names.LABEL_COMPONENT} in ({PLUGIN},{MIG_MANAGER})")
"""The pools' lists, and the nodes' MIG layouts, which belong to no pool alone."""
POOL_WORKERS = 16
"""Mostly they wait for the API server: a quorum list of pods takes up to 100 ms."""
LISTS_PERIOD, SMALL_LISTS_PERIOD = 1.0, 0.1
"""Seconds between two writes of one pool's lists that only add cards: the plugins of all its nodes read each. A list
that fits into one ConfigMap is cheap, and somebody waits for it."""
CARD_WORKERS = 16
"""A first start writes the state of every card."""


class Reconciler:
    """The loops over one set of caches."""

    def __init__(self, process: Process, world: World) -> None:
        """Make the loops; `watch` connects them to the caches."""
        self._execute, self._world = process.executor.execute, world
        self._listed: dict[str, float] = {}  # when the pools' lists were written, in monotonic seconds
        self.sayings = Sayings(process, world)
        self.pools = Controller("pools", self._pool, workers=POOL_WORKERS)
        self.nodes = Places(process, world, self._changed)
        self.cards = Controller("cards", self._card, workers=CARD_WORKERS)
        self.queues = Queues(process, world)
        self.tainting = Tainting(process, world)

    @property
    def loops(self) -> tuple[Controller, ...]:
        """All of them."""
        others = (self.nodes.controller, self.queues.controller, self.tainting.controller)
        return (self.pools, self.cards, self.sayings.controller, *others)

    async def _pool(self, name: str) -> float | None:
        if name == FREE:
            return None  # a pod's label may be empty, and the cards in no pool are not to be let go of
        made = await self._acts(name)
        if made is not None and plan.writes_status(made):
            async with self.sayings.alone(name):
                made = await self._acts(name)
                await self._carry_out(name, made)
        else:
            await self._carry_out(name, made)
        if made is None:
            self._listed.pop(name, None)
            self.nodes.forget(name)
            made = plan.orphans(self._world.without_pool(name), time.time())
            await self._execute(made.actions)
        return made.requeue_after

    async def _acts(self, name: str) -> Plan | None:
        """The plan for a pool as it is now; None where there is none."""
        seen = self._world.pool(name)
        if seen is None:
            return None
        period = LISTS_PERIOD if len(seen.members) > SHARD_CARDS else SMALL_LISTS_PERIOD
        wait = self._listed.get(name, float("-inf")) + period - time.monotonic()
        return await planned(seen, partial(plan.act, lists_in=wait))

    async def _carry_out(self, name: str, made: Plan | None) -> None:
        if made is None:
            return
        try:
            await self._execute(made.actions)
        finally:  # what came after them may have been refused
            if plan.writes_lists(made):
                self._listed[name] = time.monotonic()
            if plan.writes_status(made):
                self.sayings.wrote(name)

    async def _card(self, name: str) -> float | None:
        seen = self._world.card(name)
        if seen is None:
            return None
        made = reservations.plan(seen, time.time())
        await self._execute(made.actions)
        metrics.count_expired(seen.device, made)
        return made.requeue_after

    def watch(self) -> None:
        """Wake keys by changes."""
        world = self._world
        world.follow()
        world.pools.subscribe(self._pool_changed)
        world.devices.subscribe(self._device_changed)
        world.nodes.subscribe(self._node_changed)
        world.inventories.subscribe(self._inventory_changed)
        world.pods.subscribe(self._pod_changed)
        world.unadmitted.subscribe(self._pod_changed)
        world.configs.subscribe(self._config_changed)
        world.daemonsets.subscribe(self._operand_changed)
        self.queues.watch()
        self.tainting.watch()
        self.nodes.start()

    def everything(self) -> None:
        """Look at every key, as after a start or a change of settings."""
        self._wake(pool.name for pool in self._world.pools)
        for index in (BY_POOL, BY_MEMORY):
            self.pools.add_all(name for name in self._world.devices.index_values(index) if name != FREE)
        self.nodes.everything()
        self.cards.add_all(device.name for device in self._world.devices)
        self.queues.everything()
        self.tainting.everything()

    def settings_changed(self, settings: Settings, *, enabled: bool) -> None:
        """Follow new settings; `enabled`: whether the module is."""
        self._world.settings, self._world.enabled = settings, enabled
        self.everything()

    def _changed(self, pool: str) -> None:
        """The cards that could come into a pool are other ones: what it says, and whether one can come in at all."""
        self.pools.add(pool)
        self.sayings.controller.add(pool)

    def _wake(self, pools: Iterable[str]) -> None:
        """Look at pools at once, and say what there is to say a little later."""
        changed = tuple(pools)
        self.pools.add_all(changed)
        self.sayings.settle(changed)

    def _pool_changed(self, old: GPUPool | None, new: GPUPool | None) -> None:
        pool = new or old
        if pool is None:
            return
        if old is None or new is None or _decides(old) != _decides(new):
            self.pools.add(pool.name)
        self.sayings.settle((pool.name,))
        if old is None or new is None or _stands(old) != _stands(new):
            self.nodes.everything(after=POOLS_DELAY)

    def _device_changed(self, old: GPUDevice | None, new: GPUDevice | None) -> None:
        for device in (old, new):
            if device is None:
                continue
            self.nodes.controller.add(device.status.node_name or "")
            self._wake(_concerned(device))
        if old is not None and is_lost(old.status) != (new is None or is_lost(new.status)):
            self._place_changed(old.status.node_name or "", pools=True)  # the others' positions are other ones now
        if new is not None:
            self.cards.add(new.name)
        metrics.count_promises(old, new, self._world.pods)

    def _node_changed(self, old: Node | None, new: Node | None) -> None:
        if old is None or new is None or _matters(old) != _matters(new):
            self._place_changed((new or old or Node()).name, pools=True)

    def _inventory_changed(self, old: GPUNodeInventory | None, new: GPUNodeInventory | None) -> None:
        name = (new or old or GPUNodeInventory()).name
        # What a pool reads of it; the rest is mostly what we wrote there ourselves.
        was, now = (is_true(i.status.conditions, READY_FOR_POOLING) if i else None for i in (old, new))
        self._place_changed(name, pools=was != now)

    def _place_changed(self, name: str, *, pools: bool) -> None:
        self.nodes.controller.add(name)
        if pools:
            here = self._world.devices.by(BY_NODE, name)
            self._wake({pool for device in here for pool in _concerned(device)})

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        for pod in (old, new):
            if pod is None:
                continue
            self._wake(pools_of(pod))
            if request := pod.metadata.annotations.get(names.REQUEST_ID):
                self.cards.add_all(device.name for device in self._world.devices.by(BY_REQUEST, request))

    def _config_changed(self, old: ConfigMap | None, new: ConfigMap | None) -> None:
        for config in (old, new):
            if config is None:
                continue
            if pool := config.metadata.labels.get(names.LABEL_POOL):
                self._wake((pool,))
            for owner in config.metadata.owner_references:
                if owner.kind == resources.NODE.kind:  # a MIG layout
                    self._place_changed(owner.name, pools=True)

    def _operand_changed(self, old: KubeObject | None, new: KubeObject | None) -> None:
        self.pools.add((new or old or Node()).metadata.labels.get(names.LABEL_POOL, ""))
        if new is None and not self._world.enabled:
            self.nodes.everything()  # the pool's label of its nodes goes after its programs


def _concerned(device: GPUDevice) -> set[str]:
    """The pools that decide about a card: the one that it is in, and the one that it is to come into."""
    pool, named = device.status.pool_ref, assigned_pool(device)
    return ({pool.name} if pool is not None else set()) | ({named} if named is not None else set())


def _matters(node: Node) -> tuple[object, ...]:
    """What pools and nodes' decisions read of a Node: of what kubelet reports of resources, the pools'."""
    ours = {key: value for key, value in node.status.allocatable.items() if key.startswith(names.PREFIX)}
    return node.metadata, node.spec, node.ready, ours


def _decides(pool: GPUPool) -> tuple[object, ...]:
    """What is acted on of a pool: not what its status counts and lists."""
    return pool.metadata, pool.spec, pool.status.applied_allocation, pool.status.conditions


def _stands(pool: GPUPool) -> tuple[object, ...]:
    """What other pools' and nodes' decisions read of a pool."""
    return pool.spec, pool.metadata.deletion_timestamp, pool.status.applied_allocation, profile(pool)


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
        # Only who leads tells of the cluster: a standby's word would count twice.
        REGISTRY.register(metrics.Reserved(world))
        REGISTRY.register(metrics.Told(world))
        reconciler.watch()
        reconciler.everything()
        async with asyncio.TaskGroup() as group:
            for controller in reconciler.loops:
                group.create_task(controller.run(), name=controller.name)

    await process.run(work, lease=names.POOL_CONTROLLER, namespace=names.NAMESPACE)


if __name__ == "__main__":
    DESCRIPTION = "Puts GPU cards into pools, runs the pools' device plugins, and ends reservations."
    PARSER = arguments(names.POOL_CONTROLLER, DESCRIPTION)
    PARSER.add_argument("--agent-image", default=AGENT_IMAGE, help="image of the pools' device plugins")
    PARSER.add_argument("--agent-api-server-host", help="address of the API server for agents; else its Service")
    PARSER.add_argument("--agent-api-server-port", help="its port (default: 443)")
    sys.exit(main(PARSER, names.MANAGER_POOL, wire))
