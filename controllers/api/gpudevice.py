"""GPUDevice: one PCI device. No spec; a status field has one owner (docs/dev/design.md, Owners of status fields)."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import Field

from controllers.api import names
from controllers.api.meta import Condition, KubeObject, ObjectMeta, keeping
from controllers.api.record import Atomic, Timestamp, map_list, record

HISTORY_MAX: Final = 16
"""Ended tenancies that a card keeps, the newest."""
SLOTS_MAX = 64
"""Slots that a card can have, however it is shared or divided; agents write them, so the API server bounds them."""
PROFILES_MAX: Final = 8
"""MIG profiles of one card's layout."""
Fault = Literal["CardLost", "ValidationFailed", "CriticalXid", "DoubleBitEcc", "RowRemapFailure", "Overheated"]
FaultEnd = Literal["CleanScrapes", "ByHand", "Validated", "Back"]
Offer = Literal[
    "Offered",
    "Withdrawn",
    "AwaitingPlugin",
    "AwaitingWithdrawal",
    "AwaitingLayout",
    "Drifted",
    "PoolUnknown",
    "KeptOut",
]
TenancyEnd = Literal["Finished", "Failed", "Evicted", "Deleted", "Lost"]
DeviceState = Literal["Unassigned", "Reserved", "Assigned", "Faulted"]


@record
class PoolRef:
    """The pool that a card is in."""

    name: str
    """Name of the GPUPool."""
    resource: str
    """Extended resource under which the pool's cards are asked for."""


@record
class MissingPool:
    """The pool that the card's annotation names, where there is none of that name."""

    name: Annotated[str, Field(max_length=names.LABEL_VALUE_MAX + 1)]
    """Name in the annotation, cut where it is longer than any that a pool can have."""
    since: Timestamp
    """Since when it is missing."""


@record
class Reservation:
    """A promise of slots of this card to a pod that is not bound yet."""

    request_id: Annotated[str, Field(alias="requestID", max_length=63)]
    """The webhook's name for the request; the pod carries it as an annotation."""
    namespace: Annotated[str, Field(max_length=63)]
    """Namespace of the pod."""
    pod: Annotated[str, Field(max_length=254)]
    """Name of the pod, or its generateName followed by `*`."""
    slots: Annotated[int, Field(ge=1, le=SLOTS_MAX)]
    """Slots of this card that are promised."""
    since: Timestamp
    """When the promise was made."""
    expires_at: Timestamp
    """When the promise ends if the pod is not bound by then."""
    seen: bool = False
    """Whether the pod has appeared in the cluster."""
    profile: Annotated[str | None, Field(max_length=63)] = None
    """MIG profile of those slots, where the pool has a mixed layout."""


@record
class ProfileSlots:
    """Slots of one MIG profile."""

    profile: Annotated[str, Field(max_length=63)]
    """As the driver spells it, such as 1g.10gb+me."""
    slots: Annotated[int, Field(ge=1, le=SLOTS_MAX)]
    """How many."""


@record
class Published:
    """What the node's plugin offers now: its acknowledgement. Absent means withdrawn."""

    pool: Annotated[str, Field(max_length=63)]
    """Pool under which the card is offered."""
    config_version: Annotated[str, Field(max_length=64)]
    """Hash of the settings that concern this card; changes only when this card's offer does."""
    slots: Annotated[int, Field(ge=0, le=SLOTS_MAX)]
    """Slots offered."""
    profiles: Annotated[tuple[ProfileSlots, ...] | None, Field(max_length=PROFILES_MAX), Atomic] = None
    """Those slots by MIG profile, where the pool has a mixed layout."""


@record
class Allocation:
    """What kubelet says that this card serves."""

    pod_uid: Annotated[str, Field(max_length=128)]
    """UID of the pod."""
    namespace: Annotated[str, Field(max_length=63)]
    """Namespace of the pod."""
    pod: Annotated[str, Field(max_length=253)]
    """Name of the pod."""
    container: Annotated[str, Field(max_length=63)]
    """Name of the container."""
    slots: Annotated[int, Field(ge=1, le=SLOTS_MAX)]
    """Slots that the container holds."""
    profile: Annotated[str | None, Field(max_length=63)] = None
    """MIG profile of those slots, where the pool has a mixed layout."""


@record
class ForeignAllocation:
    """A container that has the card by a resource that is not the module's, as kubelet tells it."""

    namespace: Annotated[str, Field(max_length=63)]
    """Namespace of the pod."""
    pod: Annotated[str, Field(max_length=253)]
    """Name of the pod."""
    container: Annotated[str, Field(max_length=63)]
    """Name of the container."""
    resource: Annotated[str, Field(max_length=317)]
    """The extended resource, such as nvidia.com/gpu; for what a ResourceClaim gave, the name of its DRA driver."""


@record
class Tenancy:
    """A pod that had the card, and no longer has it."""

    pool: Annotated[str, Field(max_length=63)]
    """Pool through which the pod had the card."""
    namespace: Annotated[str, Field(max_length=63)]
    """Namespace of the pod."""
    pod: Annotated[str, Field(max_length=253)]
    """Name of the pod."""
    uid: Annotated[str, Field(max_length=128)]
    """UID of the pod."""
    since: Timestamp
    """When kubelet began with the pod; where that is not known, when the pod was first seen to have the card."""
    until: Timestamp
    """When kubelet was seen to have taken the card back."""
    ended: TenancyEnd
    """How it ended. Lost: the card went from under a pod that had not ended."""


MIG_WORK: Final = ("Waiting", "Applying")
"""Phases of MIG work in which the node's manager is at a card, or about to be."""
MIG_OVER: Final = ("Done", "Failed", "Lost")
"""Phases in which it is through with a version, however that went."""


@record
class MigApply:
    """Result of the node's last MIG work on this card."""

    version: Annotated[str, Field(max_length=128)]
    """Version of the layout that was applied."""
    phase: Literal["Waiting", "Applying", "Done", "Failed", "Lost"]
    """How far the work is. Lost: the driver was loaded anew since, and the card is not as it was."""
    reason: Annotated[str | None, Field(max_length=4096)] = None
    """Why it failed, or what was lost."""
    boot_id: Annotated[str | None, Field(alias="bootID", max_length=64)] = None
    """Boot of the node in which the work came to its end."""
    driver_load: Annotated[str | None, Field(max_length=64)] = None
    """Which loading of the driver that was, as a word that no other one of the same boot has."""

    @property
    def explanation(self) -> str:
        """What the MIG manager says to it, for people."""
        return self.reason or ""


@record
class MpsDaemon:
    """The MPS control daemon of a card, as its node's device plugin sees it."""

    pool: Annotated[str, Field(max_length=names.POOL_NAME_MAX)]
    """Pool whose daemon it is."""
    phase: Literal["Ready", "Down", "Stopping"]
    """Ready: it answers with the pool's limits. Down: it does not, and the card is not offered. Stopping: it leaves."""
    reason: Annotated[str | None, Field(max_length=1024)] = None
    """Why it is not Ready."""
    running: bool = True
    """Whether a process of the daemon may hold the driver open; false where compute mode alone is left to put back."""

    @property
    def spelled(self) -> str:
        """Why it is not Ready, as part of a sentence; the phase where nobody says more."""
        return (self.reason or self.phase).rstrip(".")


@record
class Pci:
    """The card's place on the bus and its identifiers, lower-case hexadecimal."""

    vendor: Annotated[str, Field(pattern="^[0-9a-f]{4}$")]
    """PCI vendor, such as 10de."""
    device: Annotated[str, Field(pattern="^[0-9a-f]{4}$")]
    """PCI device."""
    class_: Annotated[str, Field(alias="class", pattern="^[0-9a-f]{4}$")]
    """PCI class and subclass: 0300 display, 0302 3D, 0380 other display."""
    address: Annotated[str, Field(pattern="^[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\\.[0-7]$")]
    """Place on the bus, as domain:bus:device.function."""
    root: Annotated[str | None, Field(pattern="^[0-9a-f]{4,8}:[0-9a-f]{2}$")] = None
    """Host bridge above the card, as domain:bus; absent where the machine does not show it."""


@record
class ComputeCapability:
    """CUDA compute capability."""

    major: int
    """Major number, such as 9 for Hopper."""
    minor: int
    """Minor number."""


@record
class Precision:
    """Number formats that the card computes in hardware."""

    supported: Annotated[tuple[str, ...], Atomic] = ()
    """Formats, such as fp16, bf16, fp8."""


@record
class MigType:
    """MIG instances of one profile that the card holds now."""

    name: str
    """Profile, such as 1g.10gb."""
    count: Annotated[int, Field(ge=0)]
    """Instances of this profile."""


@record
class Mig:
    """What the card can do and does with Multi-Instance GPU."""

    capable: bool = False
    """Whether the hardware can be divided."""
    enabled: bool = False
    """Whether MIG mode is on."""
    strategy: Literal["none", "single", "mixed"] = "none"
    """How the instances are made known: none, one profile, several profiles."""
    profiles_supported: Annotated[tuple[str, ...], Atomic] = ()
    """Profiles that the card offers."""
    types: Annotated[tuple[MigType, ...], Atomic] = ()
    """Instances that exist."""
    boot_id: Annotated[str | None, Field(alias="bootID", max_length=64)] = None
    """Boot of the node in which this was told; of a card that cannot be divided absent."""
    driver_load: Annotated[str | None, Field(max_length=64)] = None
    """Which loading of the driver told it, as `migApply.driverLoad`: instances end with the loading."""


@record
class NvLink:
    """Direct links to other cards of the node."""

    peers: Annotated[tuple[str, ...], Atomic] = ()
    """PCI addresses of the cards at the other end."""
    links: Annotated[tuple[int, ...], Atomic] = ()
    """How many links go to each of `peers`, in the same order; over switches all of the card. Empty where unknown."""


@record
class Hardware:
    """What the card is, as its node's agent reports it."""

    uuid: str | None = None
    """The driver's name for the card; absent until a driver has told it, and kept while the driver is away."""
    product: str | None = None
    """Product name, as the driver spells it."""
    memory_mib: Annotated[int | None, Field(ge=0)] = None
    """Memory in MiB."""
    numa_node: int | None = None
    """NUMA node; absent where the machine does not say."""
    pci: Pci
    """Address and identifiers."""
    compute_capability: ComputeCapability | None = None
    """CUDA compute capability."""
    precision: Precision | None = None
    """Number formats, from the compute capability."""
    mig: Mig | None = None
    """Multi-Instance GPU."""
    nvlink: NvLink | None = None
    """Direct links."""


@record
class DeviceHealth:
    """Telemetry, written when it crosses a threshold and not on each scrape."""

    temperature_c: int | None = None
    """Temperature in degrees Celsius."""
    ecc_errors_total: int | None = None
    """Uncorrectable memory errors since the driver was loaded."""
    last_xid: int | None = None
    """The driver's last error number."""
    throttled: bool | None = None
    """Whether the card slows itself down."""
    row_remap_failure_accepted: bool | None = None
    """Whether a person took the card back although its memory rows can no longer be remapped."""
    last_updated: Timestamp | None = None
    """When one of these was written."""


@record
class GPUDeviceStatus:
    """Everything known about a card."""

    node_name: str | None = None
    """Node that the card is in."""
    inventory_id: str | None = None
    """`<node>-<pci address>`: the card's name in lists and selectors."""
    managed: bool | None = None
    """Whether the node is managed by the module."""
    lost_since: Timestamp | None = None
    """Since when a fresh report of its node does not name the card, while it is in a pool or serves pods."""
    node_gone_since: Timestamp | None = None
    """Since when its Node is deleted; until the card is recognised on a Node of that name pools go without it."""
    auto_attach: bool | None = None
    """Whether a pool takes this card without a person's confirmation."""
    offer: Offer | None = None
    """What the card is waited for, or whether the node's plugin offers it as its pool wants."""
    missing_pool: MissingPool | None = None
    """What the annotation waits for, until it is removed; absent where the pool exists, or none is named."""
    state: DeviceState | None = None
    """A projection for people; programs read the fields it is made of."""
    pool_ref: PoolRef | None = None
    """Set while the card is in a pool."""
    reservations: Annotated[tuple[Reservation, ...], Field(max_length=64), Atomic] = ()
    """Promises to pods that are not bound yet."""
    published: Published | None = None
    """What the node's device plugin offers now."""
    allocations: Annotated[tuple[Allocation, ...], Field(max_length=256), Atomic] = ()
    """What kubelet says that the card serves."""
    foreign_allocations: Annotated[tuple[ForeignAllocation, ...], Field(max_length=64), Atomic] = ()
    """Who has the card by resources that are not the module's: while there is one, the card is offered to nobody."""
    history: Annotated[tuple[Tenancy, ...], Field(max_length=HISTORY_MAX), Atomic] = ()
    """Pods that had the card, the newest last; of pools whose cards are shared none."""
    mig_apply: MigApply | None = None
    """Result of the last MIG work."""
    mps: MpsDaemon | None = None
    """MPS control daemon of the card; absent while none runs there, and compute mode is the driver's own again."""
    hardware: Hardware | None = None
    """What the card is."""
    health: DeviceHealth | None = None
    """Telemetry."""
    fault: Fault | None = None
    """What keeps the card out of service; absent while nothing does."""
    fault_end: FaultEnd | None = None
    """How the last fault ended; absent until one has, and while there is one."""
    conditions: Annotated[tuple[Condition, ...], map_list("type")] = ()
    """ManagedDisabled, InventoryIncomplete, Faulted, Ignored, Configured."""


CardMeta = Annotated[ObjectMeta, keeping(frozenset({names.ASSIGNMENT, names.RETURN, names.LABEL_IGNORE}))]
"""A card's metadata; of its annotations, what people tell the module."""


@record
class GPUDevice(KubeObject):
    """One GPU card: what it is, which pool it is in, and whom it serves."""

    metadata: CardMeta = Field(default_factory=ObjectMeta)
    status: GPUDeviceStatus = Field(default_factory=GPUDeviceStatus)
    """Observed state; there is no spec."""

    @property
    def is_remembered(self) -> bool:
        """Whether the record outlives its Node for what people said of the card: to pools it is not there."""
        return self.status.node_gone_since is not None

    @property
    def home(self) -> str | None:
        """The pool that the card serves in."""
        ref = self.status.pool_ref
        return None if ref is None or self.is_remembered else ref.name
