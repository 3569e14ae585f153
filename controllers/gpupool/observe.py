"""What the planners look at: frozen views cut from the caches, one for each kind of key."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING

from controllers.api import names
from controllers.api.conditions import CONFIGURED, READY_FOR_POOLING, find, is_true
from controllers.api.gpudevice import GPUDevice
from controllers.api.gpupool import GPUPool
from controllers.api.meta import ObjectMeta
from controllers.api.settings import Settings
from controllers.domain import mig
from controllers.domain.assignment import assigned_pool
from controllers.domain.position import positions
from controllers.domain.request import pools_of
from controllers.domain.taints import tolerated, wanted
from controllers.domain.usage import given_cards
from controllers.gpupool.candidates import Candidates, candidates_on
from controllers.gpupool.miglayout import ObservedLayout, profile
from controllers.gpupool.operands import cards_in
from controllers.gpupool.selection import Selection
from controllers.runtime import resting

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from controllers.api.gpunodeinventory import GPUNodeInventory
    from controllers.api.gpupool import Candidate, Toleration
    from controllers.api.kube import ConfigMap, DaemonSet, Node, Pod
    from controllers.api.tenant import TenantPod, UnadmittedPod
    from controllers.domain.agents import Variables
    from controllers.domain.mig import NodeLayout
    from controllers.gpupool.selection import Fit
    from controllers.runtime.store import Store

BY_NODE, BY_POOL, BY_REQUEST, BY_NAMESPACE = "node", "pool", "request", "namespace"
BY_CLAIM = "claim"
"""Cards in no pool by the pool that their annotation names."""
BY_MEMORY = "memory"
"""Cards whose Node was deleted, and that are not recognised yet, by the pool that their annotation names."""
UNBOUND = "unbound"
"""Pods by the pool that admitted them that are on no node and have not ended."""
UNLABELLED = "unlabelled"
"""Pods by the pools that they ask for without its label, that are on no node and have not ended."""
FREE = ""
"""Index value of cards that are in no pool."""


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """A node, as far as pools go."""

    node: Node | None
    inventory: GPUNodeInventory | None
    layout: NodeLayout | None = None
    """How its cards are to be divided by MIG, as it is written."""
    written: ConfigMap | None = None
    """What that was read from."""
    ready: bool = field(init=False)
    """Whether its free cards may be pooled and offered."""

    def __post_init__(self) -> None:
        """Look once: it is asked for each card."""
        ready = (
            self.node is not None
            and self.inventory is not None
            and is_true(self.inventory.status.conditions, READY_FOR_POOLING)
        )
        object.__setattr__(self, "ready", ready)


UNKNOWN = NodeFacts(None, None)


@dataclass(frozen=True, slots=True)
class ObservedPool:
    """One pool with everything that decides about it."""

    pool: GPUPool
    members: tuple[GPUDevice, ...]
    """Cards whose poolRef is the pool."""
    claimants: tuple[GPUDevice, ...]
    """Cards in no pool whose annotation names this one."""
    nodes: Mapping[str, NodeFacts]
    positions: Mapping[str, int]
    """Place of each claimant (by name) among its node's cards, by address."""
    pods: tuple[Pod, ...]
    """Pods that hold cards of the pool, or may yet."""
    unlabelled: tuple[Pod, ...] = ()
    """Those of them that are on no node and do not carry the pool's label: no list by label shows them."""
    remembered: tuple[GPUDevice, ...] = ()
    """Cards that are to no pool there, since their Node is gone, and whose annotation names this one."""
    configs: tuple[ConfigMap, ...] = ()
    daemonset: DaemonSet | None = None
    mig_manager: DaemonSet | None = None
    held: frozenset[str] = frozenset()
    """Free cards (inventoryIDs) that a bound pod of any pool was given and kubelet has not told otherwise."""
    bound: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """Bound pods of all pools by node, as far as a free card there claims to come in."""
    agent_image: str = ""
    agent_env: Variables = ()
    """Variables by which agents find the API server."""
    cards_on: Mapping[str, int] = field(default_factory=dict)
    """Cards of each of the pool's nodes, in any pool or none."""
    tolerated: tuple[Toleration, ...] = ()
    """What the pool's pods tolerate."""
    candidates: tuple[Candidate, ...] | None = None
    """Cards that it could take, cut one above what a list may hold; None while not all nodes have been looked at."""
    fit: Fit | None = None
    """How many cards that its selectors mean can be divided as it asks, in mode MIG; None while that is not known."""
    joined: Mapping[str, float] = field(default_factory=dict)
    """When cards (by name) came in whose plugins have yet to offer them, where that was seen; in epoch seconds."""
    freed: Mapping[str, float] = field(default_factory=dict)
    """When DaemonSets of the pool (by name) were seen to go, in epoch seconds."""
    enabled: bool = True
    """Whether the module is."""
    settings: Settings = field(default_factory=Settings)
    strays: frozenset[str] = field(init=False)
    """Members (by name) on which kubelet tells of a pod that the cluster does not have there."""

    def __post_init__(self) -> None:
        """Look once: it is asked for each card."""
        object.__setattr__(self, "strays", _strays(self.members, self.pods))

    def facts(self, node: str | None) -> NodeFacts:
        """A node's facts; of a node that is unknown, that it is not ready."""
        return self.nodes.get(node or "", UNKNOWN)


@dataclass(frozen=True, slots=True)
class ObservedNode:
    """One node with its cards and all pools."""

    name: str
    facts: NodeFacts
    devices: tuple[GPUDevice, ...]
    """Its cards, by address."""
    pools: tuple[GPUPool, ...]
    """All pools, oldest first."""
    takers: Mapping[str, tuple[GPUPool, ...]] = field(default_factory=dict)
    """The pools whose selectors mean a free card, oldest first, by the card's name."""
    fits: Mapping[str, Fit] = field(default_factory=dict)
    """How the node's cards suit the pools of mode MIG, by the pool's name."""
    held: frozenset[str] = frozenset()
    """Cards (inventoryIDs) that a bound pod of any pool was given and kubelet has not told otherwise."""
    layout: ObservedLayout | None = None
    """What more is looked at where the node has a MIG layout, or is to have one."""
    enabled: bool = True
    """Whether the module is."""
    operated: frozenset[str] = frozenset()
    """Pools that have programs of ours on nodes."""
    settings: Settings = field(default_factory=Settings)
    _by_name: dict[str, GPUPool] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Order the pools by name, too."""
        object.__setattr__(self, "_by_name", {pool.name: pool for pool in self.pools})

    @property
    def by_name(self) -> Mapping[str, GPUPool]:
        """All pools by name."""
        return self._by_name

    @property
    def free(self) -> list[GPUDevice]:
        """Its cards in no pool."""
        return [device for device in self.devices if device.status.pool_ref is None]

    def members_of(self, pool: str) -> int:
        """Its cards in a pool."""
        return sum(1 for d in self.devices if d.status.pool_ref is not None and d.status.pool_ref.name == pool)


@dataclass(frozen=True, slots=True)
class ObservedCard:
    """One card with the pods that its reservations name."""

    device: GPUDevice
    pods: Mapping[str, TenantPod]
    """By request id."""
    known: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """Keys of all pods that hold or await cards, by the namespaces that the reservations name."""
    settings: Settings = field(default_factory=Settings)


@dataclass(slots=True)
class World:
    """The caches of the process."""

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
    candidates: Candidates = field(default_factory=Candidates, init=False)
    joined: dict[str, float] = field(default_factory=dict, init=False)
    """When cards (by name) came into their pools, while nothing has been said of their plugins; see `follow`."""
    freed: dict[str, float] = field(default_factory=dict, init=False)
    """When DaemonSets (by name) were seen to go, of late; see `follow`."""
    _known: dict[str, tuple[ConfigMap | None, NodeFacts]] = field(default_factory=dict, init=False)
    """The facts of nodes, and the layout that they were read from."""
    _selection: Selection | None = field(default=None, init=False)
    _stale: bool = field(default=True, init=False)
    _tainting: tuple[GPUPool, ...] | None = field(default=None, init=False)
    """Pools that want taints; None until somebody asks."""

    def __post_init__(self) -> None:
        """Index what the views ask for."""
        self.pools.subscribe(self._pools_changed)
        self.devices.index(BY_CLAIM, _claims)
        self.devices.index(BY_MEMORY, _remembered_for)
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

    def follow(self) -> None:
        """From now on, note when cards come into pools and DaemonSets go: no object tells that."""
        self.devices.subscribe(self._note_joined)
        self.daemonsets.subscribe(lambda old, new: resting.follow(self.freed, old, new, self.clock()))

    def _note_joined(self, old: GPUDevice | None, new: GPUDevice | None) -> None:
        if new is None or new.status.pool_ref is None or find(new.status.conditions, CONFIGURED) is not None:
            self.joined.pop((new or old or GPUDevice()).name, None)
        elif old is None or old.status.pool_ref is None:
            self.joined[new.name] = self.clock()

    def _facts(self, name: str) -> NodeFacts:
        """A node's facts, made once for each version of what they are made from: a pool asks for hundreds."""
        node, inventory, config = self.nodes.get(name), self.inventories.get(name), self._layout(name)
        known = self._known.get(name)
        if known is not None and known[0] is config and known[1].node is node and known[1].inventory is inventory:
            return known[1]
        layout = _read(config.data.get(names.MIG_CARDS, "")) if config is not None else None
        facts = NodeFacts(node, inventory, layout, config)
        if node is None and inventory is None:
            self._known.pop(name, None)
        else:
            self._known[name] = config, facts
        return facts

    def _layout(self, node: str) -> ConfigMap | None:
        return self.configs.get(f"{names.NAMESPACE}/{names.mig_layout(node)}")

    def _divided(self, node: str, devices: tuple[GPUDevice, ...]) -> ObservedLayout | None:
        """What a node's MIG layout is made from; None where it has none and needs none."""
        config = self._layout(node)
        homes = {d.status.pool_ref.name for d in devices if d.status.pool_ref is not None}
        pools = [pool for name in homes if (pool := self.pools.get(name)) is not None]
        if config is None and all(profile(pool) is None for pool in pools):
            return None
        here = {d.status.inventory_id or "" for d in devices}
        lists = [cards_in(found) & here for name in homes for found in self.configs.by(BY_POOL, name)]
        unlabelled = {pod.key: pod for name in homes for pod in self._pods(UNLABELLED, name)}
        return ObservedLayout(config, self._pods(BY_NODE, node), tuple(unlabelled.values()), frozenset().union(*lists))

    def pods_of(self, pool: str) -> tuple[Pod, ...]:
        """Pods that hold cards of a pool or may yet, admitted or not."""
        return self._pods(BY_POOL, pool)

    def _pods(self, index: str, value: str) -> tuple[Pod, ...]:
        return *self.pods.by(index, value), *self.unadmitted.by(index, value)

    def tolerated(self, pool: GPUPool) -> tuple[Toleration, ...]:
        """What the pods of a pool tolerate."""
        if self._tainting is None:
            self._tainting = tuple(filter(wanted, self.pools))
        return tolerated(pool, self._tainting, self._homes, self.nodes.get)

    def _homes(self, pool: str) -> set[str]:
        return {device.status.node_name or "" for device in self.devices.by(BY_POOL, pool)}

    def _pools_changed(self, _old: GPUPool | None, _new: GPUPool | None) -> None:
        self._stale, self._tainting = True, None

    @property
    def selection(self) -> Selection:
        """All pools, prepared for judging cards."""
        if self._selection is None or self._stale:
            self._selection, self._stale = Selection(self.pools, self._selection), False
        return self._selection

    def pool(self, name: str) -> ObservedPool | None:
        """The view of a pool; None where there is no such pool."""
        pool = self.pools.get(name)
        if pool is None:
            return None
        members, claimants = tuple(self.devices.by(BY_POOL, name)), tuple(self.devices.by(BY_CLAIM, name))
        coming = {d.status.node_name or "" for d in claimants}
        homes = {d.status.node_name or "" for d in members}
        places: dict[str, int] = {}
        for node in coming:
            here = self.devices.by(BY_NODE, node)
            places.update(zip((device.name for device in here), positions(here), strict=True))
        made = (names.plugin_object(name), names.mig_manager(name))
        return ObservedPool(
            pool=pool,
            members=members,
            claimants=claimants,
            nodes={node: self._facts(node) for node in homes | coming},
            positions=places,
            pods=self.pods_of(name),
            unlabelled=self._pods(UNLABELLED, name),
            remembered=tuple(self.devices.by(BY_MEMORY, name)),
            configs=tuple(self.configs.by(BY_POOL, name)),
            daemonset=self.daemonsets.get(f"{names.NAMESPACE}/{names.plugin_object(name)}"),
            mig_manager=self.daemonsets.get(f"{names.NAMESPACE}/{names.mig_manager(name)}"),
            held=frozenset(card for node in coming for card in self._given(node)),
            bound={node: frozenset(pod.key for pod in self.pods.by(BY_NODE, node)) for node in coming},
            agent_image=self.agent_image,
            agent_env=self.agent_env,
            cards_on={node: self.devices.count(BY_NODE, node) for node in homes},
            tolerated=self.tolerated(pool),
            candidates=self.candidates.of(name),
            fit=self.candidates.fit(name) if pool.spec.allocation.mode == "MIG" else None,
            joined={d.name: self.joined[d.name] for d in members if d.name in self.joined} if self.joined else {},
            freed={each: self.freed[each] for each in made if each in self.freed},
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
            claimants=(),
            nodes={node: self._facts(node) for node in nodes},
            positions={},
            pods=self.pods_of(name),
            unlabelled=self._pods(UNLABELLED, name),
            remembered=tuple(self.devices.by(BY_MEMORY, name)),
            configs=tuple(self.configs.by(BY_POOL, name)),
            daemonset=self.daemonsets.get(f"{names.NAMESPACE}/{names.plugin_object(name)}"),
            mig_manager=self.daemonsets.get(f"{names.NAMESPACE}/{names.mig_manager(name)}"),
        )

    def _given(self, node: str) -> set[str]:
        """Cards of a node that its bound pods were given, as far as kubelet has not told of them."""
        return given_cards(self.devices.by(BY_NODE, node), self.pods.by(BY_NODE, node))

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
            takers=selection.takers(devices, labels),
            fits=selection.fits(devices, labels),
            held=frozenset(self._given(name)) if free else frozenset(),
            layout=self._divided(name, devices),
            enabled=self.enabled,
            operated=frozenset(each.metadata.labels.get(names.LABEL_POOL, "") for each in self.daemonsets),
            settings=self.settings,
        )

    def look(self, seen: ObservedNode) -> set[str]:
        """Take over a node's candidates; returns the pools whose lists change by it."""
        return self.candidates.put(seen.name, candidates_on(seen), seen.fits)

    def card(self, name: str) -> ObservedCard | None:
        """The view of a card; None where there is no such card."""
        device = self.devices.get(name)
        if device is None:
            return None
        wanted = (r.request_id for r in device.status.reservations)
        pods = {request: pod for request in wanted for pod in self.pods.by(BY_REQUEST, request)[:1]}
        namespaces = {r.namespace for r in device.status.reservations}
        known = {name: frozenset(pod.key for pod in self.pods.by(BY_NAMESPACE, name)) for name in namespaces}
        return ObservedCard(device, pods, known, self.settings)


def _strays(members: tuple[GPUDevice, ...], pods: tuple[Pod, ...]) -> frozenset[str]:
    """Cards with a pod that was deleted by force and runs on for a while, or that a node has made up."""
    known = {(pod.node, pod.metadata.uid) for pod in pods if pod.node and not pod.finished}
    return frozenset(
        card.name
        for card in members
        if any((card.status.node_name, taken.pod_uid) not in known for taken in card.status.allocations)
    )


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


def _claims(device: GPUDevice) -> tuple[str, ...]:
    named = assigned_pool(device) if device.status.pool_ref is None and not device.is_remembered else None
    return (named,) if named is not None else ()
