"""What the planners look at: frozen views cut from the caches, one for each kind of key."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from controllers.api import names
from controllers.api.conditions import READY_FOR_POOLING, is_true
from controllers.api.gpupool import GPUPool
from controllers.api.meta import ObjectMeta
from controllers.api.settings import Settings
from controllers.domain.slots import named_devices

if TYPE_CHECKING:
    from collections.abc import Mapping

    from controllers.api.gpudevice import GPUDevice
    from controllers.api.gpunodeinventory import GPUNodeInventory
    from controllers.api.kube import ConfigMap, DaemonSet, Node, Pod
    from controllers.runtime.store import Store

BY_NODE, BY_POOL, BY_REQUEST, BY_NAMESPACE = "node", "pool", "request", "namespace"
FREE = ""
"""Index value of cards that are in no pool."""


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """A node, as far as pools go."""

    node: Node | None
    inventory: GPUNodeInventory | None

    @property
    def ready(self) -> bool:
        """Whether its free cards may be pooled and offered."""
        return (
            self.node is not None
            and self.inventory is not None
            and is_true(self.inventory.status.conditions, READY_FOR_POOLING)
        )


@dataclass(frozen=True, slots=True)
class ObservedPool:
    """One pool with everything that decides about it."""

    pool: GPUPool
    members: tuple[GPUDevice, ...]
    """Cards whose poolRef is the pool."""
    free: tuple[GPUDevice, ...]
    """Cards in no pool, of the whole cluster."""
    nodes: Mapping[str, NodeFacts]
    positions: Mapping[str, int]
    """Place of each card (by name) among its node's, by address."""
    pods: tuple[Pod, ...]
    configs: tuple[ConfigMap, ...] = ()
    daemonset: DaemonSet | None = None
    held: frozenset[str] = frozenset()
    """Free cards (inventoryIDs) that a bound pod of any pool was given and kubelet has not told otherwise."""
    bound: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """Bound pods of all pools by node, as far as a free card there claims to come in."""
    agent_image: str = ""
    rivals: tuple[GPUPool, ...] = ()
    """The other pools, oldest first."""
    settings: Settings = field(default_factory=Settings)

    def facts(self, node: str | None) -> NodeFacts:
        """A node's facts; of a node that is unknown, that it is not ready."""
        return self.nodes.get(node or "", NodeFacts(None, None))


@dataclass(frozen=True, slots=True)
class ObservedNode:
    """One node with its cards and all pools."""

    name: str
    facts: NodeFacts
    devices: tuple[GPUDevice, ...]
    """Its cards, by address."""
    pools: tuple[GPUPool, ...]
    """All pools, oldest first."""
    settings: Settings = field(default_factory=Settings)


@dataclass(frozen=True, slots=True)
class ObservedCard:
    """One card with the pods that its reservations name."""

    device: GPUDevice
    pods: Mapping[str, Pod]
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
    pods: Store[Pod]
    configs: Store[ConfigMap]
    daemonsets: Store[DaemonSet]
    settings: Settings = field(default_factory=Settings)
    agent_image: str = ""

    def __post_init__(self) -> None:
        """Index what the views ask for."""
        self.devices.index(BY_NODE, lambda d: (d.status.node_name or "",))
        self.devices.index(BY_POOL, lambda d: (d.status.pool_ref.name if d.status.pool_ref else FREE,))
        self.pods.index(BY_POOL, lambda p: (p.metadata.labels.get(names.LABEL_POOL, ""),))
        self.pods.index(BY_NODE, lambda p: [p.node] if p.node else [])
        self.pods.index(BY_NAMESPACE, lambda p: [p.metadata.namespace or ""])
        self.pods.index(BY_REQUEST, lambda p: [v for v in (p.metadata.annotations.get(names.REQUEST_ID),) if v])
        self.configs.index(BY_POOL, lambda c: (c.metadata.labels.get(names.LABEL_POOL, ""),))

    def _facts(self, node: str) -> NodeFacts:
        return NodeFacts(self.nodes.get(node), self.inventories.get(node))

    def _by_age(self) -> list[GPUPool]:
        return sorted(self.pools, key=lambda pool: (pool.metadata.creation_timestamp, pool.name))

    def pool(self, name: str) -> ObservedPool | None:
        """The view of a pool; None where there is no such pool."""
        pool = self.pools.get(name)
        if pool is None:
            return None
        members, free = tuple(self.devices.by(BY_POOL, name)), tuple(self.devices.by(BY_POOL, FREE))
        nodes = {d.status.node_name or "" for d in (*members, *free)}
        positions = {d.name: at for node in nodes for at, d in enumerate(self.devices.by(BY_NODE, node))}
        coming = {d.status.node_name or "" for d in free if d.metadata.annotations.get(names.ASSIGNMENT) == name}
        return ObservedPool(
            pool=pool,
            members=members,
            free=free,
            nodes={node: self._facts(node) for node in nodes},
            positions=positions,
            pods=tuple(self.pods.by(BY_POOL, name)),
            configs=tuple(self.configs.by(BY_POOL, name)),
            daemonset=self.daemonsets.get(f"{names.NAMESPACE}/{names.plugin_object(name)}"),
            held=frozenset(card for node in coming for card in self._held(node)),
            bound={node: frozenset(pod.key for pod in self.pods.by(BY_NODE, node)) for node in coming},
            agent_image=self.agent_image,
            rivals=tuple(rival for rival in self._by_age() if rival.name != name),
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
            free=(),
            nodes={node: self._facts(node) for node in nodes},
            positions={},
            pods=tuple(self.pods.by(BY_POOL, name)),
        )

    def _held(self, node: str) -> set[str]:
        """Cards of a node that bound pods were given, without those that kubelet gave other cards."""
        reported = {a.pod_uid for d in self.devices.by(BY_NODE, node) for a in d.status.allocations}
        pods = (p for p in self.pods.by(BY_NODE, node) if not p.finished and p.metadata.uid not in reported)
        return {card for pod in pods for card in named_devices(pod)}

    def node(self, name: str) -> ObservedNode:
        """The view of a node."""
        devices = tuple(self.devices.by(BY_NODE, name))
        return ObservedNode(name, self._facts(name), devices, tuple(self._by_age()), self.settings)

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
