"""Frozen views of a node and of a GPUDriver, which the planners read. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from controllers.api.driver_work import DriverWork, LastDriverWork
    from controllers.api.gpudriver import GPUDriver, Result
    from controllers.api.gpunodeinventory import GPUNodeInventory
    from controllers.api.kube import DaemonSet, Node
    from controllers.domain.driver.choice import Choice, Install
    from controllers.driver.records import Pod, Report

Json = dict[str, object]


@dataclass(frozen=True, slots=True)
class Named:
    """An object of the module's namespace as it is to be made."""

    name: str
    body: Json


@dataclass(frozen=True, slots=True)
class Slots:
    """What the node may begin now, with regard to all others; cut under the lock under which slots are taken."""

    preflight: bool = True
    """Whether another node may be looked at."""
    install: bool = True
    """Whether another node may get a driver."""
    proved: bool = True
    """Whether the revision is proved on nodes of this kind, or this node may be the one that tries it."""
    halted: str = ""
    """Why no node is started with the revision, since it is bad; empty where it is not."""
    resumed: str | None = None
    """When a person last had the revision tried again, or when it was first wanted."""


@dataclass(frozen=True, slots=True)
class Objects:
    """What has to be there before the node is labelled, where it is not."""

    daemonset: Json | None = None
    """The variant's DaemonSet."""
    configmap: Json | None = None
    """The parameters of its kernel modules."""


@dataclass(frozen=True, slots=True)
class ObservedNode:
    """One node with its cards, its agent's report, and the driver that it is to have."""

    name: str
    node: Node | None = None
    inventory: GPUNodeInventory | None = None
    report: Report | None = None
    """Of the node's present start; None where its agent has said nothing since."""
    driver: GPUDriver | None = None
    """The GPUDriver that has the node; None where none does, or the module is to let go of nodes."""
    choice: Choice | None = None
    """What that GPUDriver comes to on this node; None without one."""
    target: Install | None = None
    """The driver that a node without one gets: the choice, or the last good revision while the choice is not proved."""
    checks: tuple[Pod, ...] = ()
    """Pods that look at the node: the one of `wanted_check`, and those of other targets."""
    wanted_check: Named | None = None
    """The pod that looks at the node for `target`, as it is to be made."""
    pod: Pod | None = None
    """The pod of the driver's DaemonSet that the node's label names."""
    objects: Objects = field(default_factory=Objects)
    """For `target`."""
    slots: Slots = field(default_factory=Slots)
    wanted_version: str | None = None
    """What the driver that is under way (`driverWork.to`) has to report; None where nobody can tell any more."""

    @property
    def work(self) -> DriverWork | None:
        """What is done to the node."""
        return self.inventory.status.driver_work if self.inventory is not None else None


@dataclass(frozen=True, slots=True)
class Member:
    """A node of a GPUDriver, as its status tells of it."""

    name: str
    choice: Choice | None
    label: str | None
    """The node's variant."""
    work: DriverWork | None
    last: LastDriverWork | None
    stratum: str
    """What the node has in common with those that are of its kind; empty where that is not known."""
    ready: bool
    """ReadyForPooling."""
    version: str
    """Of the driver that runs; empty without one."""


@dataclass(frozen=True, slots=True)
class ObservedDriver:
    """One GPUDriver with its nodes."""

    driver: GPUDriver
    revision: str
    """The revision that its spec comes to, with the contents of the ConfigMaps that it names."""
    members: tuple[Member, ...] = ()
    """Nodes that it has, or that are under way for it."""
    overlaps: Mapping[str, str] = field(default_factory=dict)
    """Nodes that it matches, or shares, by name: the GPUDriver that has each, and another one where it has it itself."""
    missing: tuple[str, ...] = ()
    """ConfigMaps that it names and that are not there."""
    enabled: bool = True
    """Whether the module is, and brings drivers onto nodes."""


@dataclass(frozen=True, slots=True)
class ObservedVariant:
    """One variant: its DaemonSet, and who needs it."""

    value: str
    daemonset: DaemonSet | None
    wanted: Json | None = None
    """The DaemonSet as it is built today; None where nobody can build it any more."""
    used: bool = False
    """Whether a node carries the label, or is on its way to it."""
    remembered: bool = False
    """Whether it is of a revision that a GPUDriver wants or remembers."""


Proofs = dict[tuple[str, str], "Result"]
"""Result of a revision on a kind of node: by revision and stratum."""
