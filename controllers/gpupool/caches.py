"""The caches of gpupool-controller: stores with their indexes, and times that no object records."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING

from controllers.api import names
from controllers.api.conditions import CONFIGURED, find
from controllers.api.gpudevice import GPUDevice
from controllers.api.settings import Settings
from controllers.components import cooldown
from controllers.domain import mig
from controllers.domain.assignment import assigned_pool
from controllers.domain.queue.supply import COMING
from controllers.domain.request import pools_of
from controllers.domain.taints import tolerated, wanted
from controllers.domain.usage import given_cards
from controllers.gpupool.membership.candidate_index import CandidateIndex
from controllers.gpupool.membership.selector_index import SelectorIndex
from controllers.gpupool.tenancies import Tenancies
from controllers.gpupool.views import NodeFacts

if TYPE_CHECKING:
    from collections.abc import Callable

    from controllers.api.gpunodeinventory import GPUNodeInventory
    from controllers.api.gpupool import GPUPool, Toleration
    from controllers.api.kube import ConfigMap, DaemonSet, Node, Pod
    from controllers.api.queue import QueueStatus
    from controllers.api.tenant import TenantPod, UnadmittedPod
    from controllers.domain.agents import Variables
    from controllers.domain.mig import NodeLayout
    from controllers.domain.queue.entry import Entries
    from controllers.gpupool.queue.looks import QueueLook
    from controllers.runtime.store import Store

BY_NODE, BY_POOL, BY_REQUEST, BY_NAMESPACE = "node", "pool", "request", "namespace"
BY_ASSIGNMENT = "assignment"
"""Cards in no pool by the pool that their annotation names."""
BY_REMEMBERED = "remembered"
"""Cards whose Node was deleted, and that are not recognised yet, by the pool that their annotation names."""
UNBOUND = "unbound"
"""Pods by the pool that admitted them that are on no node and have not ended."""
UNLABELLED = "unlabelled"
"""Pods by the pools that they ask for without its label, that are on no node and have not ended."""
FREE = ""
"""Index value of cards that are in no pool."""


@dataclass(slots=True)
class Caches:
    """Stores with their indexes, and what is kept beside them.

    They live as long as the process, and are changed from its event loop only. Collectors of metrics read the stores
    and `queue_looks` from another thread.
    """

    pools: Store[GPUPool]
    devices: Store[GPUDevice]
    inventories: Store[GPUNodeInventory]
    nodes: Store[Node]
    pods: Store[TenantPod]
    """Pods that a pool admitted: they carry its label."""
    unadmitted: Store[UnadmittedPod]
    """Pods that ask for cards without the label of a pool."""
    configs: Store[ConfigMap]
    daemonsets: Store[DaemonSet]
    clock: Callable[[], float]
    """Tells epoch seconds."""
    settings: Settings = field(default_factory=Settings)
    enabled: bool = True
    """Whether the module is."""
    agent_image: str = ""
    agent_env: Variables = ()
    """Variables by which agents find the API server."""
    candidates: CandidateIndex = field(default_factory=CandidateIndex, init=False)
    joined_at: dict[str, float] = field(default_factory=dict, init=False)
    """When cards (by name) came into their pools, while condition Configured is not written; see `note_changes`."""
    came_free_at: dict[str, float] = field(default_factory=dict, init=False)
    """When a card of a node (by name) last came free, of late; see `note_changes`."""
    deleted_at: dict[str, float] = field(default_factory=dict, init=False)
    """When DaemonSets (by name) were deleted of late; see `note_changes`."""
    tenancies: Tenancies = field(init=False)
    """Who has the cards, and who had them of late; see `note_changes`."""
    queue_statuses: dict[str, QueueStatus | None] = field(default_factory=dict, init=False)
    """What the last look at each pool's queue came to, for its status."""
    queue_looks: dict[str, QueueLook] = field(default_factory=dict, init=False)
    """The same for metrics, which are counted in another thread: a look is replaced, and never changed."""
    _entries: dict[str, Entries] = field(default_factory=dict, init=False)
    """The entries of each pool's queue, as far as they are made."""
    _facts_of: dict[str, tuple[ConfigMap | None, NodeFacts]] = field(default_factory=dict, init=False)
    """The facts of nodes, and the layout that they were read from."""
    _selection: SelectorIndex | None = field(default=None, init=False)
    _is_selection_stale: bool = field(default=True, init=False)
    _tainting_pools: tuple[GPUPool, ...] | None = field(default=None, init=False)
    """Pools that want taints; None until somebody asks."""

    def __post_init__(self) -> None:
        """Index what the views ask for."""
        self.tenancies = Tenancies(self.pools.get, self._find_pod, self.clock)
        self.pools.subscribe(self._on_pools_changed)
        self.devices.index(BY_ASSIGNMENT, _assigned_to)
        self.devices.index(BY_REMEMBERED, _remembered_for)
        self.devices.index(BY_REQUEST, lambda d: [r.request_id for r in d.status.reservations])
        self.devices.index(BY_NODE, lambda d: (d.status.node_name or "",))
        self.devices.index(BY_POOL, _homes)
        self.pods.index(UNBOUND, lambda p: _unbound(p) & {_label(p)})
        for pods in (self.pods, self.unadmitted):
            pods.index(BY_POOL, pools_of)
            pods.index(UNLABELLED, lambda p: _unbound(p) - {_label(p)})
            pods.index(BY_NODE, lambda p: [p.node] if p.node else [])
        self.pods.index(BY_NAMESPACE, lambda p: [p.metadata.namespace or ""])
        self.pods.index(BY_REQUEST, lambda p: [v for v in (p.metadata.annotations.get(names.REQUEST_ID),) if v])
        self.configs.index(BY_POOL, lambda c: (c.metadata.labels.get(names.LABEL_POOL, ""),))

    def note_changes(self) -> None:
        """From now on, note when cards come into pools and DaemonSets go, and who has cards: no object records that."""
        for device in self.devices:
            self.tenancies.device_changed(None, device)
        self.devices.subscribe(self.tenancies.device_changed)
        self.pods.subscribe(self.tenancies.pod_changed)
        self.unadmitted.subscribe(self.tenancies.pod_changed)
        self.devices.subscribe(self._on_device_changed)
        self.daemonsets.subscribe(lambda old, new: cooldown.record_deletion(self.deleted_at, old, new, self.clock()))

    def _find_pod(self, key: str) -> Pod | None:
        return self.pods.get(key) or self.unadmitted.get(key)

    def _on_device_changed(self, old: GPUDevice | None, new: GPUDevice | None) -> None:
        if old is not None and new is not None and len(new.status.allocations) < len(old.status.allocations):
            now = self.clock()
            # Those of long ago are forgotten with it: cards of nodes that are gone come free, too.
            recent = {name: at for name, at in self.came_free_at.items() if now < at + COMING}
            self.came_free_at = recent | {new.status.node_name or "": now}
        if new is None or new.status.pool_ref is None or find(new.status.conditions, CONFIGURED) is not None:
            self.joined_at.pop((new or old or GPUDevice()).name, None)
        elif old is None or old.status.pool_ref is None:
            self.joined_at[new.name] = self.clock()

    def _facts(self, name: str) -> NodeFacts:
        """A node's facts, made once for each version of what they are made from: a pool asks for hundreds."""
        node, inventory, config = self.nodes.get(name), self.inventories.get(name), self._layout_config(name)
        known = self._facts_of.get(name)
        if known is not None and known[0] is config and known[1].node is node and known[1].inventory is inventory:
            return known[1]
        layout = _read(config.data.get(names.MIG_CARDS, "")) if config is not None else None
        facts = NodeFacts(node, inventory, layout, config)
        if node is None and inventory is None:
            self._facts_of.pop(name, None)
        else:
            self._facts_of[name] = config, facts
        return facts

    def _layout_config(self, node: str) -> ConfigMap | None:
        return self.configs.get(f"{names.NAMESPACE}/{names.mig_layout(node)}")

    def pods_of(self, pool: str) -> tuple[Pod, ...]:
        """Pods that hold cards of a pool or may yet, admitted or not."""
        return self._pods(BY_POOL, pool)

    def _pods(self, index: str, value: str) -> tuple[Pod, ...]:
        return *self.pods.by(index, value), *self.unadmitted.by(index, value)

    def tolerated(self, pool: GPUPool) -> tuple[Toleration, ...]:
        """What the pods of a pool tolerate."""
        if self._tainting_pools is None:
            self._tainting_pools = tuple(filter(wanted, self.pools))
        return tolerated(pool, self._tainting_pools, self._nodes_of, self.nodes.get)

    def _nodes_of(self, pool: str) -> set[str]:
        return {device.status.node_name or "" for device in self.devices.by(BY_POOL, pool)}

    def _on_pools_changed(self, _old: GPUPool | None, _new: GPUPool | None) -> None:
        self._is_selection_stale, self._tainting_pools = True, None

    @property
    def selection(self) -> SelectorIndex:
        """All pools, prepared for judging cards."""
        if self._selection is None or self._is_selection_stale:
            self._selection, self._is_selection_stale = SelectorIndex(self.pools, self._selection), False
        return self._selection

    def _maybe_in_use(self, node: str) -> set[str]:
        """Cards of a node that its bound pods may have, as far as kubelet has not reported them."""
        return given_cards(self.devices.by(BY_NODE, node), self.pods.by(BY_NODE, node))


def _unbound(pod: Pod) -> frozenset[str]:
    """The pools of a pod that is on no node and has not ended; none of others."""
    return frozenset() if pod.node or pod.finished else pools_of(pod)


def _label(pod: Pod) -> str:
    """The pool that admitted a pod; empty where none did."""
    return pod.metadata.labels.get(names.LABEL_POOL, "")


@lru_cache(maxsize=4096)
def _read(cards: str) -> NodeLayout | None:
    """A node's layout; it changes seldom, and is looked at for each plan of each pool of the node."""
    return mig.read({names.MIG_CARDS: cards})


def _homes(device: GPUDevice) -> tuple[str, ...]:
    """The pool of a card; of one whose Node was deleted none, nor is it free, until it is recognised."""
    if device.is_remembered:
        return ()
    return (device.home or FREE,)


def _remembered_for(device: GPUDevice) -> set[str]:
    """The pools of a card that is only remembered: that which it names, and that in which it was."""
    home = device.status.pool_ref
    named = (assigned_pool(device), home.name if home is not None else None)
    return {pool for pool in named if pool} if device.is_remembered else set()


def _assigned_to(device: GPUDevice) -> tuple[str, ...]:
    named = assigned_pool(device) if device.status.pool_ref is None and not device.is_remembered else None
    return (named,) if named is not None else ()
