"""What the roll-out of a GPUDriver sees: its nodes, and what else is out of service in the cluster and in each pool."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from controllers.api import names
from controllers.domain.driver.windows import Schedule
from controllers.driver.views import Results

if TYPE_CHECKING:
    from collections.abc import Mapping

    from controllers.api.driver_work import DriverWork, LastDriverWork
    from controllers.api.gpudevice import GPUDevice
    from controllers.api.gpudriver import GPUDriver
    from controllers.api.gpunodeinventory import GPUNodeInventory
    from controllers.api.kube import Node
    from controllers.domain.driver.choice import Choice, Install


@dataclass(frozen=True, slots=True)
class Load:
    """Pods that have cards of a node."""

    pods: int = 0
    priority: int = 0
    """The sum of their priorities."""
    jobs: frozenset[str] = frozenset()
    """Jobs of which they are ranks: one that ends takes the others with it."""


@dataclass(frozen=True, slots=True)
class Facts:
    """A node as it is, whoever has it; made anew when something of it changes."""

    node: Node
    inventory: GPUNodeInventory
    devices: tuple[GPUDevice, ...] = ()
    pools: Mapping[str, int] = field(default_factory=dict)
    """How many of its cards are in each pool."""
    in_service: bool = True
    """Whether the node is ready for pooling."""
    has_left: bool = False
    """Whether it is out of service although it was in it, or pools have cards there."""
    may_start: bool = True
    """Whether neither a person nor an autoscaler takes the node away."""
    load: Load = field(default_factory=Load)
    last: LastDriverWork | None = None
    """How the last work on this very node ended."""

    @property
    def name(self) -> str:
        """The node's name."""
        return self.node.name

    @property
    def work(self) -> DriverWork | None:
        """What is done to the node."""
        return self.inventory.status.driver_work

    @property
    def label(self) -> str | None:
        """The node's variant."""
        return self.node.metadata.labels.get(names.DRIVER_VARIANT)

    @property
    def version(self) -> str:
        """Of the driver that runs, as its inventory says; empty without one."""
        return (self.inventory.status.driver.version if self.inventory.status.driver is not None else None) or ""

    @property
    def is_planned(self) -> bool:
        """Whether the node is out of service for its driver's sake."""
        work = self.work
        return work is not None and work.out_since is not None

    @property
    def is_unplanned(self) -> bool:
        """Whether it is out of service for another cause."""
        return self.has_left and not self.is_planned


@dataclass(frozen=True, slots=True)
class Candidate:
    """A node of the GPUDriver."""

    facts: Facts
    choice: Choice | None = None
    """What the GPUDriver comes to there."""
    stratum: str = ""
    """Its kind; empty where that is not known."""
    back: Install | None = None
    """The former driver, where the node serves with one that is bad on its kind, and is to get that back."""

    @property
    def name(self) -> str:
        """The node's name."""
        return self.facts.name


@dataclass(slots=True)
class Group:
    """Nodes that share a budget, by number."""

    nodes: int = 0
    planned: int = 0
    """Those that are out of service for their driver's sake."""
    planned_cards: int = 0
    """Cards of the group on them."""
    unplanned: int = 0
    """Those that are out of service for another cause."""

    def count(self, facts: Facts, cards: int, times: Literal[1, -1] = 1) -> None:
        """Count a node in, with so many cards of the group, or out of it (-1)."""
        self.nodes += times
        self.unplanned += times * facts.is_unplanned
        if facts.is_planned:
            self.planned += times
            self.planned_cards += times * cards


@dataclass(frozen=True, slots=True)
class PoolRules:
    """What a pool says of its nodes' starts."""

    max_cards: int | None = None
    """Most of its cards that may be out of service at once; None for no limit."""
    schedule: Schedule = field(default_factory=lambda: Schedule(()))
    """When its nodes may be started."""
    in_maintenance: bool = False
    """Whether its cards are being configured anew."""


@dataclass(frozen=True, slots=True)
class ObservedRollout:
    """The roll-out of one GPUDriver."""

    driver: GPUDriver
    revision: str
    """The revision that is wanted."""
    candidates: tuple[Candidate, ...] = ()
    """Its nodes, in the order of their names."""
    results: Results = field(default_factory=Results)
    """Of that revision."""
    counted_since: str | None = None
    """Since when what nodes show of that revision counts."""
    is_missing: bool = False
    """Whether a ConfigMap that the GPUDriver names is not there."""
    own: Group = field(default_factory=Group)
    """Its nodes."""
    cluster: Group = field(default_factory=Group)
    """All nodes with cards."""
    pools: Mapping[str, Group] = field(default_factory=dict)
    """Nodes of each pool, whoever's driver they have."""
    rules: Mapping[str, PoolRules] = field(default_factory=dict)
    """What pools ask for, where they ask for something."""
    percent: int = 20
    """Share of a group, in percent, of which at most a half may be out of service unplanned when a node is started."""
    looks: int = 0
    """How many more nodes may be looked at now."""
