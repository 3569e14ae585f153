"""Frozen views of a node and of a GPUDriver, which the planners read. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping

    from controllers.api.agent_report import Report
    from controllers.api.driver_work import DriverWork, LastDriverWork
    from controllers.api.gpudevice import GPUDevice
    from controllers.api.gpudriver import GPUDriver, Result
    from controllers.api.gpunodeinventory import GPUNodeInventory
    from controllers.api.kube import ConfigMap, DaemonSet, Node
    from controllers.api.reasons.typed import Reason
    from controllers.domain.driver.choice import Choice, Install
    from controllers.domain.driver.overlaps import Overlap
    from controllers.domain.driver.users import User
    from controllers.domain.driver.waves import Progress, Stage
    from controllers.driver.records import Pod
    from controllers.runtime.plan import Refusal

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Named:
    """An object of the module's namespace as it is to be made."""

    name: str
    body: Json


@dataclass(frozen=True, slots=True)
class StartPermits:
    """What the node may begin now, with regard to all others; cut under the lock under which permits are taken."""

    preflight: bool = True
    """Whether another node may be looked at."""
    install: bool = True
    """Whether another node may get a driver."""
    proved: bool = True
    """Whether the revision is proved on nodes of this kind, or this node may be the one that tries it."""
    bad: bool = False
    """Whether the revision is bad on nodes of this kind: none is begun, unless a person asks for it."""
    halted: bool = False
    """Whether nothing is begun, as one thing befell several nodes."""
    missing: tuple[str, ...] = ()
    """ConfigMaps that the GPUDriver names and that are not there: nothing is begun."""
    counted_since: str | None = None
    """Since when what nodes show of the target's revision counts; of a node that goes back, of the one that it leaves.
    """


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
    wanted_clearing_check: Named | None = None
    """The pod that looks whether anybody still holds the driver open, before it is taken away."""
    pod: Pod | None = None
    """The pod of the driver's DaemonSet that the node's label names."""
    driver_pods: tuple[Pod, ...] = ()
    """Pods of drivers on the node, those that are about to go among them."""
    adopted: Pod | None = None
    """The driver's pod of another program that was given over to the module, one of `driver_pods`."""
    lost_adopted: bool = False
    """Whether such a pod has ended, as kubelet ends all where it shuts the node down: nothing starts it again."""
    devices: tuple[GPUDevice, ...] = ()
    """The node's cards."""
    closed_pools: frozenset[str] = frozenset()
    """Pools of these cards that offer none of theirs now: they are in maintenance, or go."""
    users: tuple[User, ...] = ()
    """Pods that use the node's cards, and must leave before its driver does, lowest priority first."""
    refusals: Mapping[str, Refusal] = field(default_factory=dict)
    """Evictions that the API server has refused of late, by the pod's uid."""
    way_back: Install | None = None
    """The driver that the node gets should the one that it is at, or is on its way to, fail there; None without one."""
    recalled: str | None = None
    """Why a node that is out of service with the driver that it had is given back, for people; None: it goes on."""
    objects: Objects = field(default_factory=Objects)
    """For `target`."""
    permits: StartPermits = field(default_factory=StartPermits)
    stratum: str = ""
    """The node's kind; empty where no driver is to be installed."""
    is_asked_again: bool = False
    """Whether the node, which waits for an image that was missing, asks for it again."""
    used: bool = False
    """Whether pods may use the driver that is loaded: a card is published, or somebody has one."""
    wanted_result: Result = "Unproved"
    """What is known, on the node's kind, of the revision that is wanted."""
    counted_since: str | None = None
    """Since when what nodes show of that revision counts; None where that is not on record yet."""
    wanted_version: str | None = None
    """What the driver that is under way (`driverWork.to`) has to report; None where nobody can tell any more."""
    labelled_version: str | None = None
    """What the driver that the node's label names has to report; likewise."""

    @property
    def work(self) -> DriverWork | None:
        """What is done to the node."""
        return self.inventory.status.driver_work if self.inventory is not None else None


@dataclass(frozen=True, slots=True)
class Results:
    """What is known of a revision: on each kind of node, which decides there, and as a whole, which is told."""

    revision: Result = "Unproved"
    strata: Mapping[str, Result] = field(default_factory=dict)
    """By stratum; those that are not there are not proved."""
    halted: Reason | None = None
    """What befell so many nodes alike that no node at all is started; None where nothing did."""

    def on(self, stratum: str) -> Result:
        """What is known of it on nodes of a kind."""
        return self.strata.get(stratum, "Unproved")


@dataclass(frozen=True, slots=True)
class Evidence:
    """What one node says of a revision."""

    node: str
    stratum: str
    good: bool
    """Whether it came to serve there; else it failed."""
    since: str
    reason: str | None = None
    message: str | None = None
    fault: Literal["Revision", "Node"] | None = None
    """Whose fault it was that it failed."""
    is_rolled: bool = False
    """Whether that was in a roll-out, in which others may have failed before."""
    cause: Reason | None = None
    """What befell it: nodes with the same one have something in common."""


@dataclass(frozen=True, slots=True)
class Member:
    """A node of a GPUDriver, as its status tells of it."""

    name: str
    choice: Choice | None = None
    next_choice: Choice | None = None
    """What the node will get once it runs the kernel that is installed for its next start; None without such."""
    stratum: str = ""
    """What the node has in common with those that are of its kind; empty where that is not known."""
    kernel: str = ""
    """The kernel that the node runs."""
    label: str | None = None
    """The node's variant."""
    work: DriverWork | None = None
    last: LastDriverWork | None = None
    """How the last work on this very node ended."""
    version: str = ""
    """Of the driver that runs; empty without one."""
    node_ready: bool = True
    """Whether kubelet says so."""
    may_start: bool = True
    """Whether neither a person nor an autoscaler takes the node away."""
    loaded: bool = False
    """Whether a driver runs that is not the module's."""
    in_service: bool = False
    """Whether the node is ready for pooling."""


@dataclass(frozen=True, slots=True)
class Rolled:
    """How far a GPUDriver's roll-out is."""

    waiting: Mapping[str, Reason] = field(default_factory=dict)
    """Why nodes wait that are to get another driver, by name."""
    stages: Mapping[str, Stage] = field(default_factory=dict)
    """The wave of each kind of node."""
    progress: Mapping[str, Progress] = field(default_factory=dict)
    """Nodes of each kind, counted by how far they are."""
    spent: Mapping[str, int] = field(default_factory=dict)
    """Cards times seconds out of service in works of the last 24 hours, by the hour in which they ended."""
    eta: float | None = None
    """When all nodes will have the revision, in seconds since the epoch; None where that cannot be said."""


@dataclass(frozen=True, slots=True)
class ObservedDriver:
    """One GPUDriver with its nodes."""

    driver: GPUDriver
    revision: str
    """The revision that its spec comes to, with the contents of the ConfigMaps that it names."""
    members: tuple[Member, ...] = ()
    """Nodes that it has, or that are under way for it."""
    results: Results = field(default_factory=Results)
    """Of that revision."""
    former: Mapping[str, Results] = field(default_factory=dict)
    """Of the revisions that were wanted before, by revision."""
    evidence: tuple[Evidence, ...] = ()
    """By which that is known, as far as nodes still say so."""
    overlap: Overlap | None = None
    """What it shares with other GPUDrivers."""
    missing: tuple[str, ...] = ()
    """ConfigMaps that it names and that are not there."""
    rolled: Rolled = field(default_factory=Rolled)
    """How its revision comes onto nodes that have a driver."""
    enabled: bool = True
    """Whether the module is, and brings drivers onto nodes."""


@dataclass(frozen=True, slots=True)
class ObservedVariant:
    """One variant: its objects, and who needs them."""

    value: str
    daemonset: DaemonSet | None = None
    configmap: ConfigMap | None = None
    wanted: Objects = field(default_factory=Objects)
    """The objects as they are built today, where somebody can still build them."""
    used: bool = False
    """Whether a node carries the label, or is on its way to it."""
    labelled: bool = False
    """Whether a node carries the label."""
    remembered: bool = False
    """Whether it is of a revision that a GPUDriver wants or remembers."""
    agent_image: str = ""
    """The image of the node agent, by which the way for a driver is cleared."""
    deleted_at: Mapping[str, float] = field(default_factory=dict)
    """When DaemonSets were gone, in epoch seconds by name, where that was a moment ago."""
    enabled: bool = True
    """As of `ObservedDriver`."""
