"""GPUNodeInventory: one GPU node, its cards, its preparation and its pools."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import Field

from controllers.api.driver_work import DriverWork, LastDriverWork
from controllers.api.meta import Condition, KubeObject
from controllers.api.record import Atomic, Timestamp, map_list, record
from controllers.api.runtime_state import KIND_MAX, MESSAGE_MAX, RuntimeState
from controllers.api.software import SoftwareVersion

Stage = Literal[
    "NotWanted",
    "DriverWork",
    "Node",
    "Agent",
    "Driver",
    "Cuda",
    "Toolkit",
    "DriverCheck",
    "ContainerCheck",
    "Component",
    "Monitoring",
    "Ready",
]
WHO_MAX: Final = 512
"""Characters of a namespace and a name."""
Kept = Literal["Preparing", "Restarting", "MigWork", "Held"]
OperationName = Literal["MigWork"]
Decision = Literal["AwaitingApproval", "NoPoolMatched", "OutOfSelector"]
"""What somebody has yet to decide about a card."""
PendingReason = Literal[Decision, "Declined"]


@record
class InventoryCard:
    """A card in the node's list."""

    name: str
    """Name of its GPUDevice."""
    inventory_id: str
    """`<node>-<pci address>`."""
    address: str
    """PCI address."""
    product: str | None = None
    """Product name."""
    memory_mib: int | None = None
    """Memory in MiB."""


@record
class InventoryHardware:
    """The node's cards."""

    present: bool = False
    """Whether the node has a card."""
    devices: Annotated[tuple[InventoryCard, ...], Field(max_length=64), Atomic] = ()
    """The cards, by address."""


@record
class DriverInfo:
    """The node's driver and container toolkit."""

    version: str | None = None
    """Driver version; absent without a driver."""
    cuda_version: str | None = None
    """Newest CUDA version that the driver serves."""
    toolkit_installed: bool | None = None
    """Whether the container toolkit is there."""
    toolkit_version: str | None = None
    """Version of the container toolkit."""


@record
class ContainerRuntime:
    """The node's container runtime, as the toolkit's pod finds it."""

    kind: Annotated[str, Field(max_length=KIND_MAX)] = ""
    """Its name: containerd, CRI-O, Docker, or K3s and RKE2; empty where that is not known."""
    state: RuntimeState
    """How far it is with NVIDIA's handlers; Ready where it runs with them."""
    message: Annotated[str, Field(max_length=MESSAGE_MAX)] = ""
    """What it waits for, or what is in the way."""
    restart_allowed: bool | None = None
    """Whether it is the node's turn to have its runtime restarted (`bootstrap.toolkit.runtimeRestarts`)."""


@record
class Monitoring:
    """The node's telemetry."""

    dcgm_ready: bool | None = None
    """Whether the exporter serves."""
    last_heartbeat: Timestamp | None = None
    """Last scrape before the most recent change of `dcgmReady`."""


@record
class Bootstrap:
    """How far the node's preparation is."""

    gfd_ready: bool | None = None
    """Whether GPU feature discovery serves."""
    toolkit_ready: bool | None = None
    """Whether containers reach the cards."""
    validated: bool | None = None
    """Whether a validation container saw the cards."""
    last_run: Timestamp | None = None
    """When the preparation last changed."""
    suspended: bool | None = None
    """Whether the preparation rests while `operation` goes on; false where that takes too long."""
    operation: OperationName | None = None
    """What is done to the node meanwhile: MigWork, its cards are divided anew."""
    stage: Stage | None = None
    """What the preparation waits for, or Ready; `lastRun` says since when."""
    component: str | None = None
    """The component whose pod stage Component waits for."""
    disrupted: bool | None = None
    """Whether the node was ready and left service by itself; it counts in `health.maxUnavailablePercent`."""
    kept: Kept | None = None
    """Why a node that was ready stays in service although it is not at stage Ready, or is divided anew."""


@record
class ManagedElsewhere:
    """Programs that are not the module's and do on the node what the module does, each by who runs it."""

    driver: Annotated[str | None, Field(max_length=WHO_MAX)] = None
    """DaemonSet or pod, `<namespace>/<name>`, that brings the driver; no driver of the module's is installed."""
    toolkit: Annotated[str | None, Field(max_length=WHO_MAX)] = None
    """DaemonSet or pod that configures the container runtime."""
    plugin: Annotated[str | None, Field(max_length=WHO_MAX)] = None
    """DaemonSet or pod of another device plugin, or the resource that it offers; no pool offers the node's cards."""
    mig: Annotated[str | None, Field(max_length=WHO_MAX)] = None
    """DaemonSet or pod that divides cards by MIG; the module divides none."""


@record
class AssignedPool:
    """A pool that has cards of this node."""

    name: str
    """Name of the GPUPool."""
    resource: str
    """Extended resource of the pool."""
    slots: Annotated[int, Field(ge=0)]
    """Slots of the pool on this node."""
    slots_reserved: Annotated[int, Field(ge=0)]
    """Slots promised to pods that are not bound yet."""
    since: Timestamp
    """When the first card of the node came into the pool."""


@record
class PendingCard:
    """A card that waits for a decision."""

    pool: str | None = None
    """Pool that would take the card."""
    inventory_id: str
    """The card."""
    auto_approved: bool = False
    """Whether the pool takes it without a person."""
    reason: PendingReason
    """Why it waits."""
    annotation_hint: str | None = None
    """The annotation that puts the card into the pool."""

    @property
    def is_declined(self) -> bool:
        """Whether somebody has decided already: it stays out of every pool."""
        return self.reason == "Declined"


@record
class InventoryPools:
    """Pools of the node's cards."""

    assigned: Annotated[tuple[AssignedPool, ...], Field(max_length=500), Atomic] = ()
    """Pools that have cards here."""
    pending: Annotated[tuple[PendingCard, ...], Field(max_length=500), Atomic] = ()
    """Cards that wait for a decision."""

    @property
    def undecided(self) -> frozenset[Decision]:
        """What somebody has yet to decide about cards of the node."""
        return frozenset(entry.reason for entry in self.pending if entry.reason != "Declined")


@record
class GPUNodeInventoryStatus:
    """Everything known about a GPU node."""

    hw: InventoryHardware | None = None
    """The node's cards."""
    driver: DriverInfo | None = None
    """Driver and toolkit."""
    runtime: ContainerRuntime | None = None
    """The container runtime and NVIDIA's handlers in it; absent where the module does not run the toolkit."""
    monitoring: Monitoring | None = None
    """Telemetry."""
    bootstrap: Bootstrap | None = None
    """Preparation."""
    software: Annotated[tuple[SoftwareVersion, ...], map_list("component"), Field(max_length=64)] = ()
    """Versions of what runs on the node, from the kernel to the module's components."""
    managed_elsewhere: ManagedElsewhere | None = None
    """Programs of others that serve the node; absent without any."""
    pools: InventoryPools | None = None
    """Pools of the node's cards."""
    driver_work: DriverWork | None = None
    """What gpu-driver-controller does to the node."""
    last_driver_work: LastDriverWork | None = None
    """How its last work on the node ended."""
    conditions: Annotated[tuple[Condition, ...], map_list("type")] = ()
    """Conditions of the node, from ManagedDisabled to ReadyForPooling."""


@record
class GPUNodeInventorySpec:
    """Which node this is about."""

    node_name: str
    """The node."""


@record
class GPUNodeInventory(KubeObject):
    """One node with GPU cards: what it has, whether it is ready, what waits for a decision."""

    spec: GPUNodeInventorySpec | None = None
    """Which node this is about."""
    status: GPUNodeInventoryStatus = Field(default_factory=GPUNodeInventoryStatus)
    """Observed state."""
