"""The views of gpupool-controller: cut from the caches, one kind for each kind of key."""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING

from controllers.api import names
from controllers.api.gpupool import GPUPool
from controllers.api.meta import ObjectMeta
from controllers.domain.allocation import applied
from controllers.domain.assignment import assigned_pool
from controllers.domain.lifecycle import live
from controllers.domain.named_devices import named_nodes
from controllers.domain.position import positions
from controllers.domain.queue.entry import Entries
from controllers.domain.queue.gates import is_queued
from controllers.domain.request import units_of
from controllers.domain.taints import wanted
from controllers.gpupool.caches import (
    BY_ASSIGNMENT,
    BY_NAMESPACE,
    BY_NODE,
    BY_POOL,
    BY_REMEMBERED,
    BY_REQUEST,
    UNBOUND,
    UNLABELLED,
    Caches,
)
from controllers.gpupool.membership.candidates import candidates_on
from controllers.gpupool.mig.layout import desired_division
from controllers.gpupool.nearness import PodCards
from controllers.gpupool.node.taints import ObservedTaints
from controllers.gpupool.operands.device_plugin import cards_in
from controllers.gpupool.queue.records import ObservedQueue
from controllers.gpupool.queue.wait import Wait
from controllers.gpupool.views import ObservedCard, ObservedLayout, ObservedNode, ObservedPool

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from controllers.api.gpudevice import GPUDevice
    from controllers.api.tenant import TenantPod
    from controllers.gpupool.queue.records import Turn


@dataclass(slots=True)
class World(Caches):
    """The caches, and the views of each key as they are now.

    Views are cut in the event loop; what the planner of a large one reads of it in a thread is frozen.
    """

    def pool(self, name: str) -> ObservedPool | None:
        """The view of a pool; None where there is no such pool."""
        pool = self.pools.get(name)
        if pool is None:
            return None
        members, assigned = tuple(self.devices.by(BY_POOL, name)), tuple(self.devices.by(BY_ASSIGNMENT, name))
        coming = {d.status.node_name or "" for d in assigned}
        homes = {d.status.node_name or "" for d in members}
        places: dict[str, int] = {}
        for node in coming:
            here = self.devices.by(BY_NODE, node)
            places.update(zip((device.name for device in here), positions(here), strict=True))
        made = (names.plugin_object(name), names.mig_manager(name), names.mps(name))
        return ObservedPool(
            pool=pool,
            members=members,
            assigned_cards=assigned,
            nodes={node: self._facts(node) for node in homes | coming},
            positions=places,
            pods=self.pods_of(name),
            unlabelled=self._pods(UNLABELLED, name),
            remembered=tuple(self.devices.by(BY_REMEMBERED, name)),
            configs=tuple(self.configs.by(BY_POOL, name)),
            daemonset=self.daemonsets.get(f"{names.NAMESPACE}/{names.plugin_object(name)}"),
            mig_manager=self.daemonsets.get(f"{names.NAMESPACE}/{names.mig_manager(name)}"),
            mps=self.daemonsets.get(f"{names.NAMESPACE}/{names.mps(name)}"),
            maybe_in_use=frozenset(card for node in coming for card in self._maybe_in_use(node)),
            bound={node: frozenset(pod.key for pod in self.pods.by(BY_NODE, node)) for node in coming},
            agent_image=self.agent_image,
            agent_env=self.agent_env,
            cards_on_node={node: self.devices.count(BY_NODE, node) for node in homes},
            tolerated=self.tolerated(pool),
            candidates=self.candidates.of(name),
            queue=self.queue_statuses.get(name),
            mig_fit=self.candidates.mig_fit(name) if pool.spec.allocation.mode == "MIG" else None,
            joined_at={d.name: self.joined_at[d.name] for d in members if d.name in self.joined_at}
            if self.joined_at
            else {},
            deleted_at={each: self.deleted_at[each] for each in made if each in self.deleted_at},
            enabled=self.enabled,
            settings=self.settings,
        )

    def without_pool(self, name: str) -> ObservedPool:
        """The cards of a pool that is not there, as those of one that is being deleted."""
        gone = GPUPool(metadata=ObjectMeta(name=name, deletion_timestamp="gone"))
        members = tuple(self.devices.by(BY_POOL, name))
        nodes = {device.status.node_name or "" for device in members}
        return ObservedPool(
            pool=gone,
            members=members,
            assigned_cards=(),
            nodes={node: self._facts(node) for node in nodes},
            positions={},
            pods=self.pods_of(name),
            unlabelled=self._pods(UNLABELLED, name),
            remembered=tuple(self.devices.by(BY_REMEMBERED, name)),
            configs=tuple(self.configs.by(BY_POOL, name)),
            daemonset=self.daemonsets.get(f"{names.NAMESPACE}/{names.plugin_object(name)}"),
            mig_manager=self.daemonsets.get(f"{names.NAMESPACE}/{names.mig_manager(name)}"),
            mps=self.daemonsets.get(f"{names.NAMESPACE}/{names.mps(name)}"),
        )

    def node(self, name: str) -> ObservedNode:
        """The view of a node."""
        facts = self._facts(name)
        # What is only remembered has no place; once its Node is back, it is one of the node's cards by address.
        devices = tuple(d for d in self.devices.by(BY_NODE, name) if facts.node is not None or not d.is_remembered)
        selection, labels = self.selection, facts.node.metadata.labels if facts.node else {}
        free = any(device.status.pool_ref is None for device in devices)
        return ObservedNode(
            name=name,
            facts=facts,
            devices=devices,
            pools=selection.pools,
            matching_pools=selection.matching_pools(devices, labels),
            mig_fits=selection.mig_fits(devices, labels),
            maybe_in_use=frozenset(self._maybe_in_use(name)) if free else frozenset(),
            layout=self._mig_layout(name, devices),
            enabled=self.enabled,
            pools_with_daemonsets=frozenset(each.metadata.labels.get(names.LABEL_POOL, "") for each in self.daemonsets),
            settings=self.settings,
        )

    def update_candidates(self, view: ObservedNode) -> set[str]:
        """Take over a node's candidates; returns the pools whose lists change by it."""
        return self.candidates.update_node(view.name, candidates_on(view), view.mig_fits)

    def card(self, name: str) -> ObservedCard | None:
        """The view of a card; None where there is no such card."""
        device = self.devices.get(name)
        if device is None:
            return None
        wanted = (r.request_id for r in device.status.reservations)
        pods = {request: pod for request in wanted for pod in self.pods.by(BY_REQUEST, request)[:1]}
        namespaces = {r.namespace for r in device.status.reservations}
        known = {name: frozenset(pod.key for pod in self.pods.by(BY_NAMESPACE, name)) for name in namespaces}
        ended, more = self.tenancies.ended(name, self.clock())
        return ObservedCard(device, pods, known, self.settings, ended, more)

    def taints(self, name: str, now: float) -> ObservedTaints | None:
        """The view of a node; None where no taint is wanted or remembered, as on most nodes."""
        node = self.nodes.get(name)
        if node is None or node.metadata.deletion_timestamp is not None:
            return None
        devices = self.devices.by(BY_NODE, name)
        here = {device.home for device in devices if device.home is not None}
        pools = [pool for pool in map(self.pools.get, here) if pool is not None and self.enabled]
        starts = any(taint.key == names.STARTUP_TAINT for taint in node.spec.taints)
        if names.POOL_TAINTS not in node.metadata.annotations and not starts and not any(map(wanted, pools)):
            return None
        of_pools = [device for device in devices if device.home is not None or assigned_pool(device) is not None]
        held = [r for device in devices for r in device.status.reservations if live(r, now)]
        promised = {r.request_id: self.pods.by(BY_REQUEST, r.request_id) for r in held}
        waiting = [pod for pool in pools for pod in self.pods.by(UNBOUND, pool.name)]
        # One of the queue is given its tolerations with its cards, whatever taint has come until then.
        coming = {
            pod.key: pod
            for pods in (waiting, *promised.values())
            for pod in pods
            if _may_be_bound(pod) and not is_queued(pod)
        }
        return ObservedTaints(
            node=node,
            pools=tuple(sorted(pools, key=lambda pool: (pool.metadata.creation_timestamp, pool.name))),
            running=tuple(pod for pod in self.pods.by(BY_NODE, name) if not pod.finished),
            coming=tuple(coming.values()),
            unseen=tuple(r for r in held if not promised[r.request_id]),
            are_cards_offered=bool(of_pools) and all(device.status.published is not None for device in of_pools),
        )

    def queue(
        self,
        name: str,
        turns: Mapping[str, Turn],
        unreached: Iterable[str] = (),
        denied: Mapping[str, str] = MappingProxyType({}),
    ) -> ObservedQueue | None:
        """The view of a pool's queue; None where no pod can be in it, which costs nothing to see."""
        pool, unbound = self.pools.get(name), self.pods.by(UNBOUND, name)
        if pool is None or not (unbound or pool.status.passed_over):
            self._entries.pop(name, None)
            return None
        members = self.devices.by(BY_POOL, name)
        found = {node: self.nodes.get(node) for node in {device.status.node_name or "" for device in members}}
        return ObservedQueue(
            pool=pool,
            unbound=tuple(unbound),
            members=tuple(members),
            nodes={name: node for name, node in found.items() if node is not None},
            bound=tuple(pod for pod in self.pods_of(name) if pod.node is not None),
            tolerated=self.tolerated(pool),
            turns=turns,
            unreached=frozenset(unreached),
            reservation_ttl=self.settings.admission.reservation_ttl,
            unseen_ttl=self.settings.admission.unseen_ttl,
            scheduling=self.settings.scheduling,
            denied=denied,
            came_free_at={node: at for node in found if (at := self.came_free_at.get(node)) is not None},
            entries=self._entries.setdefault(name, Entries()),
        )

    def pod_cards(self, key: str, *, is_new: bool) -> PodCards | None:
        """A pod with the cards that it has or could have had; None where it is on no node, or its pool is gone."""
        pod = self.pods.get(key)
        pool = self.pools.get(pod.metadata.labels.get(names.LABEL_POOL, "")) if pod is not None else None
        if pod is None or pod.node is None or pool is None:
            return None
        here = self._cards_of(pool.name, pod.node)
        elsewhere = named_nodes(pod) - {pod.node}
        there = self._cards_of(pool.name, elsewhere.pop()) if len(elsewhere) == 1 else here
        return PodCards(pod, pool.name, here, there, applied(pool), is_new)

    def _cards_of(self, pool: str, node: str) -> tuple[GPUDevice, ...]:
        return tuple(device for device in self.devices.by(BY_NODE, node) if device.home == pool)

    def reasons_without_pool(self, name: str) -> Mapping[str, Wait]:
        """Why pods wait for cards of a pool that is not there, by key."""
        queued = [pod for pod in self.pods.by(UNBOUND, name) if is_queued(pod)]
        return {pod.key: Wait("PoolClosed", units_of(pod, name)) for pod in queued}

    def _mig_layout(self, node: str, devices: tuple[GPUDevice, ...]) -> ObservedLayout | None:
        """What a node's MIG layout is made from; None where it has none and needs none."""
        config = self._layout_config(node)
        homes = {d.status.pool_ref.name for d in devices if d.status.pool_ref is not None}
        pools = [pool for name in homes if (pool := self.pools.get(name)) is not None]
        if config is None and all(desired_division(pool) is None for pool in pools):
            return None
        here = {d.status.inventory_id or "" for d in devices}
        lists = [cards_in(found) & here for name in homes for found in self.configs.by(BY_POOL, name)]
        unlabelled = {pod.key: pod for name in homes for pod in self._pods(UNLABELLED, name)}
        return ObservedLayout(config, self._pods(BY_NODE, node), tuple(unlabelled.values()), frozenset().union(*lists))


def _may_be_bound(pod: TenantPod) -> bool:
    """Whether it may yet be bound."""
    return pod.node is None and not pod.finished and pod.metadata.deletion_timestamp is None
