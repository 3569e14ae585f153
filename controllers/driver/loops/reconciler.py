"""All loops of gpu-driver-controller, and which change of which object wakes which of their keys.

Made at the start, and connected (`watch`) once this process leads, until it ends. The handlers run in the event loop,
after those that forget what is kept (`controllers.driver.observe.forgetting`), and only wake keys.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from controllers.api import names
from controllers.api.kube import Node
from controllers.domain.assignment import assigned_pool
from controllers.domain.eligibility.chain import check_card
from controllers.driver.caches import (
    BY_PHASE,
    drivers_of,
    is_used,
    variants_of_node,
    variants_of_work,
)
from controllers.driver.loops.drivers import DriverController
from controllers.driver.loops.nodes import NodeController
from controllers.driver.loops.rollout import RolloutController
from controllers.driver.loops.variants import VariantController
from controllers.driver.observe.forgetting import (
    card_of,
    is_another,
    is_named,
    newly_proved,
    nodes_of_cards,
    nodes_of_claim,
    nodes_of_reports,
    nodes_of_users,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from controllers.api.agent_report import Report
    from controllers.api.gpudevice import GPUDevice
    from controllers.api.gpudriver import GPUDriver
    from controllers.api.gpunodeinventory import GPUNodeInventory
    from controllers.api.kube import ConfigMap, DaemonSet
    from controllers.api.settings import Settings
    from controllers.api.user_pod import ResourceClaim, UserPod
    from controllers.driver.records import Pod, Pool
    from controllers.driver.world import World
    from controllers.runtime.controller import Controller
    from controllers.runtime.process import Process


class Reconciler:
    """The loops over one set of caches."""

    def __init__(self, process: Process, world: World) -> None:
        """Make the loops; `watch` connects them to the caches."""
        self._world = world
        permits = asyncio.Lock()
        self.nodes = NodeController(process, world, permits)
        self.rollouts = RolloutController(process, world, permits)
        self.drivers = DriverController(process, world)
        self.variants = VariantController(process, world)

    @property
    def controllers(self) -> tuple[Controller, ...]:
        """All of them."""
        return (self.nodes.controller, self.rollouts.controller, self.drivers.controller, self.variants.controller)

    def watch(self) -> None:
        """Wake keys by changes, and look at everything."""
        self._world.note_changes()
        caches = self._world.caches
        caches.drivers.subscribe(self._driver_changed)
        caches.nodes.subscribe(self._node_changed)
        caches.reports.subscribe(self._report_changed)
        caches.inventories.subscribe(self._inventory_changed)
        caches.devices.subscribe(self._device_changed)
        caches.pods.subscribe(self._pod_changed)
        caches.adopted.subscribe(self._pod_changed)
        caches.users.subscribe(self._user_changed)
        caches.claims.subscribe(self._claim_changed)
        caches.daemonsets.subscribe(self._daemonset_changed)
        caches.configmaps.subscribe(self._configmap_changed)
        caches.pools.subscribe(self._pool_changed)
        self.enqueue_all()

    def enqueue_all(self) -> None:
        """Look at every key, as after a start or a change of settings."""
        self.nodes.enqueue_all()
        self.rollouts.enqueue_all()
        self.drivers.enqueue_all()
        self.variants.enqueue_all()

    def settings_changed(self, settings: Settings, *, enabled: bool) -> None:
        """Follow new settings; `enabled`: whether the module is."""
        self._world.settings = settings.driver
        self._world.max_unavailable_percent = settings.health.max_unavailable_percent
        self._world.enabled = enabled and settings.driver.enabled
        self.enqueue_all()

    def _driver_changed(self, old: GPUDriver | None, new: GPUDriver | None) -> None:
        name = (new or old or Node()).name
        self.drivers.enqueue_settled((name,))  # one that is gone, too: what is kept of it goes
        if old is None or new is None or is_another(old, new):
            self.rollouts.enqueue_all()
            self.nodes.enqueue_all_settled()
            self.drivers.enqueue_all()
            self.variants.enqueue_all()
            return
        self.rollouts.enqueue_settled((name,))
        if _known(old) != _known(new) or _pause_of(old) != _pause_of(new):
            # What is remembered of its revisions: its nodes may be begun, or tried again.
            self.nodes.controller.add_all(self._world.nodes_of(name))
            self.variants.enqueue_all()

    def _configmap_changed(self, old: ConfigMap | None, new: ConfigMap | None) -> None:
        found = new or old
        if found is None:
            return
        if values := {value for one in (old, new) if one is not None for value in variants_of_node(one)}:
            self.variants.enqueue_settled(values)
        elif is_named(self._world, found):
            self.enqueue_all()

    def _pool_changed(self, old: Pool | None, new: Pool | None) -> None:
        self.rollouts.enqueue_all()
        if (old is not None and old.is_closed) != (new is not None and new.is_closed):
            # A node that is back waits until its cards are offered, and for none that is not to be.
            returning = self._world.caches.inventories.by(BY_PHASE, "Returning")
            self.nodes.controller.add_all(one.name for one in returning)

    def _node_changed(self, old: Node | None, new: Node | None) -> None:
        self._look_at((new or old or Node()).name)
        before, after = (set(variants_of_node(node)) if node is not None else set() for node in (old, new))
        self.variants.enqueue_settled(before ^ after)

    def _report_changed(self, old: Report | None, new: Report | None) -> None:
        for node in nodes_of_reports(old, new):
            self._look_at(node)

    def _device_changed(self, old: GPUDevice | None, new: GPUDevice | None) -> None:
        if old is not None and new is not None and card_of(old) == card_of(new):
            if _shown(old) != _shown(new) and new.status.node_name:
                self.nodes.controller.add(new.status.node_name)
            return
        for node in nodes_of_cards(old, new):
            self._look_at(node)

    def _inventory_changed(self, old: GPUNodeInventory | None, new: GPUNodeInventory | None) -> None:
        name = (new or old or Node()).name
        self._look_at(name)
        both = tuple(one for one in (old, new) if one is not None)
        self.drivers.enqueue_settled({driver for one in both for driver in drivers_of(one)} | newly_proved(old, new))
        self.variants.enqueue_settled({value for one in both for value in variants_of_work(one)})
        self.nodes.inventory_changed(old, new)

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        self.nodes.controller.add_all({pod.node for pod in (old, new) if pod is not None and pod.node})

    def _user_changed(self, old: UserPod | None, new: UserPod | None) -> None:
        self._users_changed(nodes_of_users(old, new))

    def _claim_changed(self, old: ResourceClaim | None, new: ResourceClaim | None) -> None:
        self._users_changed(nodes_of_claim(self._world, new or old))

    def _users_changed(self, nodes: Iterable[str]) -> None:
        """Pods come and go by the thousand: they matter to a node at work, and to the order in which others begin."""
        for node in nodes:
            inventory = self._world.caches.inventories.get(node)
            if inventory is not None and inventory.status.driver_work is not None:
                self.nodes.controller.add(node)

    def _daemonset_changed(self, old: DaemonSet | None, new: DaemonSet | None) -> None:
        both = (one for one in (old, new) if one is not None)
        self.variants.enqueue_settled({value for one in both for value in variants_of_node(one)})

    def _look_at(self, node: str) -> None:
        """What is decided about a node may be another answer now: for itself, and for the GPUDrivers that match it."""
        self.nodes.controller.add(node)
        self.rollouts.enqueue_all()
        winner = self._world.decisions.ranking(node).winner
        if winner is not None:
            self.drivers.enqueue_settled((winner,))


def _pause_of(driver: GPUDriver) -> str | None:
    """The annotation by which a person pauses the roll-out for a while."""
    return driver.metadata.annotations.get(names.PAUSE)


def _known(driver: GPUDriver) -> tuple[object, ...]:
    """What nodes' plans read of a status."""
    status = driver.status
    revisions = tuple((one.hash, one.result, one.since, one.halted, one.strata) for one in status.revisions)
    return status.target, status.current, revisions


def _shown(device: GPUDevice) -> tuple[object, ...]:
    """What of a card the next step of its node's work may hang on."""
    status, reply = device.status, device.status.mig_apply
    work = (reply.phase, reply.driver_load) if reply is not None else None
    pools = (status.pool_ref, assigned_pool(device), bool(status.foreign_allocations))
    offered = (*pools, check_card(device, ready=True) is None, status.published is not None, status.offer, work)
    return is_used(device), bool(status.allocations), bool(status.reservations), status.fault, *offered
