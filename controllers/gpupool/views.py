"""Frozen records that the planners of gpupool-controller read: GPUPool, Node, GPUDevice with what decides about each.

They are cut from the caches by `controllers.gpupool.world`; no planner knows a cache. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

from controllers.api.conditions import READY_FOR_POOLING, is_true
from controllers.api.gpunodeinventory import ManagedElsewhere
from controllers.api.settings import Settings
from controllers.domain.assignment import assigned_pool

if TYPE_CHECKING:
    from collections.abc import Mapping

    from controllers.api.gpudevice import GPUDevice, Tenancy
    from controllers.api.gpunodeinventory import GPUNodeInventory
    from controllers.api.gpupool import Candidate, GPUPool, Toleration
    from controllers.api.kube import ConfigMap, DaemonSet, Node, Pod
    from controllers.api.queue import QueueStatus
    from controllers.api.tenant import TenantPod
    from controllers.domain.agents import Variables
    from controllers.domain.mig import NodeLayout


NOBODY: Final = ManagedElsewhere()


class MIGFit(NamedTuple):
    """How many cards that a pool's selectors match can be partitioned by MIG as it asks."""

    able: int = 0
    unable: int = 0
    explanation: str = ""
    """Why the first of those that cannot be partitioned so cannot."""

    def plus(self, other: MIGFit) -> MIGFit:
        """Both together."""
        return MIGFit(self.able + other.able, self.unable + other.unable, self.explanation or other.explanation)


@dataclass(frozen=True, slots=True)
class ObservedLayout:
    """What decides about the MIG layout of a node, beside its cards."""

    config: ConfigMap | None
    """The layout as it is written."""
    pods: tuple[Pod, ...] = ()
    """Bound pods of all pools on the node."""
    unlabelled: tuple[Pod, ...] = ()
    """Unbound pods of the pools of its cards that no list by label shows."""
    listed: frozenset[str] = frozenset()
    """Cards (inventoryIDs) of the node that a list of their pool allows."""


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """A node, as far as pools go."""

    node: Node | None
    inventory: GPUNodeInventory | None
    layout: NodeLayout | None = None
    """How its cards are to be partitioned by MIG, as it is written."""
    written: ConfigMap | None = None
    """What that was read from."""
    ready: bool = field(init=False)
    """Whether its free cards may be pooled and offered."""

    @property
    def elsewhere(self) -> ManagedElsewhere:
        """Who else serves the node's cards."""
        return (self.inventory.status.managed_elsewhere if self.inventory is not None else None) or NOBODY

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
    assigned_cards: tuple[GPUDevice, ...]
    """Cards in no pool whose annotation names this one."""
    nodes: Mapping[str, NodeFacts]
    positions: Mapping[str, int]
    """Place of each claimant (by name) among its node's cards, by address."""
    pods: tuple[Pod, ...]
    """Pods that hold cards of the pool, or may yet."""
    unlabelled: tuple[Pod, ...] = ()
    """Those of them that are on no node and do not carry the pool's label: no list by label shows them."""
    remembered: tuple[GPUDevice, ...] = ()
    """Cards whose Node is deleted, and whose annotation names this pool."""
    configs: tuple[ConfigMap, ...] = ()
    daemonset: DaemonSet | None = None
    mig_manager: DaemonSet | None = None
    mps: DaemonSet | None = None
    maybe_in_use: frozenset[str] = frozenset()
    """Unassigned cards (inventoryIDs) that may still be allocated to a bound pod, as far as kubelet reports."""
    bound: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """Bound pods of all pools by node, as far as a free card there claims to come in."""
    agent_image: str = ""
    agent_env: Variables = ()
    """Variables by which agents find the API server."""
    cards_on_node: Mapping[str, int] = field(default_factory=dict)
    """Cards of each of the pool's nodes, in any pool or none."""
    tolerated: tuple[Toleration, ...] = ()
    """What the pool's pods tolerate."""
    candidates: tuple[Candidate, ...] | None = None
    """Cards that it could take, cut one above what a list may hold; None while not all nodes have been looked at."""
    queue: QueueStatus | None = None
    """Who waits for its cards."""
    mig_fit: MIGFit | None = None
    """How many cards that its selectors match can be partitioned so, in mode MIG; None while that is not known."""
    joined_at: Mapping[str, float] = field(default_factory=dict)
    """When cards (by name) came in whose plugins have yet to offer them, where that was seen; in epoch seconds."""
    deleted_at: Mapping[str, float] = field(default_factory=dict)
    """When DaemonSets of the pool (by name) were seen to go, in epoch seconds."""
    enabled: bool = True
    """Whether the module is."""
    settings: Settings = field(default_factory=Settings)
    with_unknown_pods: frozenset[str] = field(init=False)
    """Members (by name) with an allocation of a pod that the cluster does not have there."""

    def __post_init__(self) -> None:
        """Look once: it is asked for each card."""
        object.__setattr__(self, "with_unknown_pods", _cards_with_unknown_pods(self.members, self.pods))

    def wants(self, device: GPUDevice) -> bool:
        """Whether a member is to stay: a changed selector never evicts it, only its annotation does."""
        return assigned_pool(device) == self.pool.name and self.pool.metadata.deletion_timestamp is None

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
    matching_pools: Mapping[str, tuple[GPUPool, ...]] = field(default_factory=dict)
    """The pools whose selectors match a card in no pool, oldest first, by the card's name."""
    mig_fits: Mapping[str, MIGFit] = field(default_factory=dict)
    """How the node's cards suit the pools of mode MIG, by the pool's name."""
    maybe_in_use: frozenset[str] = frozenset()
    """Cards (inventoryIDs) that may still be allocated to a bound pod, as far as kubelet reports."""
    layout: ObservedLayout | None = None
    """What more is looked at where the node has a MIG layout, or is to have one."""
    enabled: bool = True
    """Whether the module is."""
    pools_with_daemonsets: frozenset[str] = frozenset()
    """Pools that have a DaemonSet."""
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
    def unassigned(self) -> list[GPUDevice]:
        """Its cards in no pool."""
        return [device for device in self.devices if device.status.pool_ref is None]

    def members_of(self, pool: str) -> int:
        """Its cards in a pool."""
        return sum(1 for device in self.devices if device.home == pool)


@dataclass(frozen=True, slots=True)
class ObservedCard:
    """One card with the pods that its reservations name."""

    device: GPUDevice
    pods: Mapping[str, TenantPod]
    """By request id."""
    known: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """Keys of all pods that hold or await cards, by the namespaces that the reservations name."""
    settings: Settings = field(default_factory=Settings)
    ended: tuple[Tenancy, ...] = ()
    """Tenancies that are over and are to be in its history, the oldest first."""
    more_ended_in: float | None = None
    """Seconds until another one is; None where none is awaited."""


def _cards_with_unknown_pods(members: tuple[GPUDevice, ...], pods: tuple[Pod, ...]) -> frozenset[str]:
    """Cards with a pod that was deleted by force and runs on for a while, or that a node has made up."""
    known = {(pod.node, pod.metadata.uid) for pod in pods if pod.node and not pod.finished}
    return frozenset(
        card.name
        for card in members
        if any((card.status.node_name, taken.pod_uid) not in known for taken in card.status.allocations)
    )
