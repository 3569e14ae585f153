"""All controllers of gpupool-controller, and which change of which object enqueues which of their keys."""

from __future__ import annotations

from typing import TYPE_CHECKING

from controllers.api import names, resources
from controllers.api.conditions import READY_FOR_POOLING, is_true
from controllers.api.gpunodeinventory import GPUNodeInventory
from controllers.api.kube import Node
from controllers.domain.assignment import assigned_pool
from controllers.domain.position import is_lost
from controllers.domain.request import pools_of
from controllers.gpupool import metrics
from controllers.gpupool.caches import BY_NODE, BY_POOL, BY_REMEMBERED, BY_REQUEST, FREE
from controllers.gpupool.loops.cards import CardController
from controllers.gpupool.loops.nodes import POOLS_DELAY, NodeController
from controllers.gpupool.loops.pending_pods import PendingPodController
from controllers.gpupool.loops.pod_conditions import PodConditionController
from controllers.gpupool.loops.pools import PoolController
from controllers.gpupool.loops.status import StatusController
from controllers.gpupool.loops.taints import TaintController
from controllers.gpupool.mig.layout import desired_division

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from controllers.api.gpudevice import GPUDevice
    from controllers.api.gpupool import GPUPool
    from controllers.api.kube import ConfigMap, Pod
    from controllers.api.meta import KubeObject
    from controllers.api.settings import Settings
    from controllers.gpupool.queue.wait import Wait
    from controllers.gpupool.world import World
    from controllers.runtime.controller import Controller
    from controllers.runtime.process import Process


class Reconciler:
    """The controllers over one set of caches."""

    def __init__(self, process: Process, world: World) -> None:
        """Make the controllers; `watch` connects them to the caches."""
        self._world = world
        self.status = StatusController(process, world)
        self.nodes = NodeController(process, world, self._candidates_changed)
        self.pools = PoolController(process, world, self.status, self.nodes.forget)
        self.cards = CardController(process, world)
        self.pod_conditions = PodConditionController(process, world)
        self.pending_pods = PendingPodController(process, world, self._queue_looked_at)
        self.taints = TaintController(process, world)

    @property
    def controllers(self) -> tuple[Controller, ...]:
        """All of them."""
        all_of_them = (
            self.pools,
            self.cards,
            self.status,
            self.nodes,
            self.pending_pods,
            self.pod_conditions,
            self.taints,
        )
        return tuple(each.controller for each in all_of_them)

    def watch(self) -> None:
        """Enqueue keys by changes."""
        world = self._world
        world.note_changes()
        world.pools.subscribe(self._pool_changed)
        world.devices.subscribe(self._device_changed)
        world.nodes.subscribe(self._node_changed)
        world.inventories.subscribe(self._inventory_changed)
        world.pods.subscribe(self._pod_changed)
        world.unadmitted.subscribe(self._pod_changed)
        world.configs.subscribe(self._config_changed)
        world.daemonsets.subscribe(self._operand_changed)
        self.pending_pods.watch()
        self.pod_conditions.watch()
        self.taints.watch()
        self.nodes.start()

    def enqueue_all(self) -> None:
        """Look at every key, as after a start or a change of settings."""
        self._enqueue_pools(pool.name for pool in self._world.pools)
        for index in (BY_POOL, BY_REMEMBERED):
            self.pools.controller.add_all(name for name in self._world.devices.index_values(index) if name != FREE)
        self.nodes.enqueue_all()
        self.cards.controller.add_all(device.name for device in self._world.devices)
        self.pending_pods.enqueue_all()
        self.pod_conditions.enqueue_all()
        self.taints.enqueue_all()

    def settings_changed(self, settings: Settings, *, enabled: bool) -> None:
        """Follow new settings; `enabled`: whether the module is."""
        self._world.settings, self._world.enabled = settings, enabled
        self.enqueue_all()

    def _candidates_changed(self, pool: str) -> None:
        """The candidates of a pool changed: its status does, and whether a card can come in at all."""
        self.pools.controller.add(pool)
        self.status.controller.add(pool)

    def _queue_looked_at(self, pool: str, reasons: Mapping[str, Wait], numbers: Callable[[str], str]) -> None:
        """Why pods of a pool wait: their conditions say so, and the pool's status."""
        self.pod_conditions.tell(pool, reasons, numbers)
        self.status.enqueue_settled((pool,))

    def _enqueue_pools(self, pools: Iterable[str]) -> None:
        """Look at pools at once, and at their statuses a little later."""
        changed = tuple(pools)
        self.pools.controller.add_all(changed)
        self.status.enqueue_settled(changed)

    def _pool_changed(self, old: GPUPool | None, new: GPUPool | None) -> None:
        pool = new or old
        if pool is None:
            return
        if old is None or new is None or _relevant_pool_fields(old) != _relevant_pool_fields(new):
            self.pools.controller.add(pool.name)
        self.status.enqueue_settled((pool.name,))
        if old is None or new is None or _shared_pool_fields(old) != _shared_pool_fields(new):
            self.nodes.enqueue_all(after=POOLS_DELAY)

    def _device_changed(self, old: GPUDevice | None, new: GPUDevice | None) -> None:
        for device in (old, new):
            if device is None:
                continue
            self.nodes.controller.add(device.status.node_name or "")
            self._enqueue_pools(_pools_concerned(device))
        if old is not None and is_lost(old.status) != (new is None or is_lost(new.status)):
            self._enqueue_node(old.status.node_name or "", pools=True)  # the others' positions are other ones now
        if new is not None:
            self.cards.controller.add(new.name)
        metrics.count_promises(old, new, self._world.pods)

    def _node_changed(self, old: Node | None, new: Node | None) -> None:
        if old is None or new is None or _relevant_node_fields(old) != _relevant_node_fields(new):
            self._enqueue_node((new or old or Node()).name, pools=True)

    def _inventory_changed(self, old: GPUNodeInventory | None, new: GPUNodeInventory | None) -> None:
        name = (new or old or GPUNodeInventory()).name
        # What a pool reads of it; the rest is mostly what we wrote there ourselves.
        was, now = (_relevant_inventory_fields(one) if one is not None else None for one in (old, new))
        self._enqueue_node(name, pools=was != now)

    def _enqueue_node(self, name: str, *, pools: bool) -> None:
        self.nodes.controller.add(name)
        if pools:
            here = self._world.devices.by(BY_NODE, name)
            self._enqueue_pools({pool for device in here for pool in _pools_concerned(device)})

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        for pod in (old, new):
            if pod is None:
                continue
            self._enqueue_pools(pools_of(pod))
            self.cards.controller.add_all(self._world.tenancies.cards_of(pod))
            if request := pod.metadata.annotations.get(names.REQUEST_ID):
                self.cards.controller.add_all(device.name for device in self._world.devices.by(BY_REQUEST, request))

    def _config_changed(self, old: ConfigMap | None, new: ConfigMap | None) -> None:
        for config in (old, new):
            if config is None:
                continue
            if pool := config.metadata.labels.get(names.LABEL_POOL):
                self._enqueue_pools((pool,))
            for owner in config.metadata.owner_references:
                if owner.kind == resources.NODE.kind:  # a MIG layout
                    self._enqueue_node(owner.name, pools=True)

    def _operand_changed(self, old: KubeObject | None, new: KubeObject | None) -> None:
        self.pools.controller.add((new or old or Node()).metadata.labels.get(names.LABEL_POOL, ""))
        if new is None and not self._world.enabled:
            self.nodes.enqueue_all()  # the pool's label of its nodes goes after its programs


def _pools_concerned(device: GPUDevice) -> set[str]:
    """The pools that decide about a card: the one that it is in, and the one that it is to come into."""
    pool, named = device.status.pool_ref, assigned_pool(device)
    return ({pool.name} if pool is not None else set()) | ({named} if named is not None else set())


def _relevant_inventory_fields(inventory: GPUNodeInventory) -> tuple[object, ...]:
    status = inventory.status
    return is_true(status.conditions, READY_FOR_POOLING), status.managed_elsewhere


def _relevant_node_fields(node: Node) -> tuple[object, ...]:
    """What pools and nodes' decisions read of a Node: of what kubelet reports of resources, the pools'."""
    ours = {key: value for key, value in node.status.allocatable.items() if key.startswith(names.PREFIX)}
    return node.metadata, node.spec, node.ready, ours


def _relevant_pool_fields(pool: GPUPool) -> tuple[object, ...]:
    """What is acted on of a pool: not what its status counts and lists."""
    return pool.metadata, pool.spec, pool.status.applied_allocation, pool.status.conditions


def _shared_pool_fields(pool: GPUPool) -> tuple[object, ...]:
    """What other pools' and nodes' decisions read of a pool."""
    return pool.spec, pool.metadata.deletion_timestamp, pool.status.applied_allocation, desired_division(pool)
