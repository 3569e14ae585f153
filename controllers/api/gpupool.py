"""GPUPool: which cards belong together, how they are divided, and who may use them."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from controllers.api import names
from controllers.api.driver_rollout import Window
from controllers.api.gpudevice import SLOTS_MAX
from controllers.api.gpudriver_rules import WINDOW_RULES
from controllers.api.meta import Condition, KubeObject
from controllers.api.queue import Queue, QueueStatus
from controllers.api.record import Atomic, Timestamp, map_list, record, rules, schema_extra
from controllers.api.selector import LabelSelector

Unit = Literal["card", "mig-partition", "timeslice", "mps"]
Mode = Literal["Exclusive", "MIG", "TimeSlice", "MPS"]
Effect = Literal["NoSchedule", "PreferNoSchedule", "NoExecute"]

MIG_PROFILE = "^(all-)?[1-9][0-9]*g\\.[0-9]+gb([+.](me|gfx|me\\.all)|-me)?$"
"""The spellings of the catalogue's `canonical_profile`, in lower case; compute instances (1c.3g.20gb) are none."""
MPS_CLIENTS_MAX = 48
"""Clients that one MPS server of NVIDIA's serves on a card."""
MPS_MEMORY = "^(Equal|[1-9][0-9]{0,6}(Mi|Gi))$"
MPS_THREADS = "^(Equal|([1-9][0-9]?|100)%)$"
MIG_INSTANCES_MAX = 8
"""More than any known card holds."""
RANGE = "^[0-9]{1,4}(-[0-9]{1,4})?$"
"""Positions, as `0` or `0-3`."""
RANGE_RULES = rules(
    (
        f"!self.matches('{RANGE}') || !self.contains('-') || int(self.split('-')[0]) <= int(self.split('-')[1])",
        "a range goes from its lower position to its higher one, such as 0-3",
    )
)
_NAME = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
LABEL_KEY = f"({_NAME}([.]{_NAME})*/)?[A-Za-z0-9]([-_.A-Za-z0-9]{{0,61}}[A-Za-z0-9])?"
"""A label's or taint's key."""
LABEL_KEY_MAX = 253 + 1 + 63
LABEL_VALUE = "([A-Za-z0-9]([-_.A-Za-z0-9]*[A-Za-z0-9])?)?"
"""A label's or taint's value."""
TOLERATION_RULES = rules(
    (
        "!has(self.operator) || self.operator != 'Exists' || !has(self.value) || self.value == ''",
        "operator Exists compares no value: leave the value out, or use operator Equal",
    ),
    (
        "(has(self.key) && self.key != '') || (has(self.operator) && self.operator == 'Exists')",
        "a toleration without a key needs operator Exists, and then tolerates every taint",
    ),
    (
        "!has(self.tolerationSeconds) || (has(self.effect) && self.effect == 'NoExecute')",
        "tolerationSeconds needs effect NoExecute: only that evicts pods",
    ),
)
UNIT_OF_MODE: dict[str, Unit] = {
    "Exclusive": "card",
    "MIG": "mig-partition",
    "TimeSlice": "timeslice",
    "MPS": "mps",
}
EQUAL = "Equal"
"""A share of mode MPS: what a card has, divided by its clients."""


@record
class PoolResource:
    """The extended resource of the pool; may be left out."""

    name: str | None = None
    """`gpu.deckhouse.io/<pool>`."""
    unit: Unit | None = None
    """What one unit is; follows the mode."""


@record
class DeviceMatch:
    """Properties of cards; every key that is given must match, an empty one is not given."""

    inventory_ids: Annotated[tuple[str, ...], Field(max_length=1000), Atomic] = ()
    """`<node>-<pci address>` of single cards."""
    pci_ids: Annotated[tuple[str, ...], Field(max_length=100), Atomic] = ()
    """`vendor:device`, such as 10de:20b0."""
    # These patterns are for the API server alone: a pool that was stored before them can still be read.
    indexes: Annotated[
        tuple[Annotated[str, schema_extra(pattern=RANGE, maxLength=9, x_kubernetes_validations=RANGE_RULES)], ...],
        Field(max_length=64),
        Atomic,
    ] = ()
    """Positions of a card among its node's, by address, as `0` or `0-3`."""
    vendors: Annotated[tuple[str, ...], Field(max_length=100), Atomic] = ()
    """Vendors, as `nvidia` or 10de."""
    products: Annotated[tuple[str, ...], Field(max_length=100), Atomic] = ()
    """Product names, as the driver or as the label spells them."""
    precisions: Annotated[tuple[str, ...], Field(max_length=32), Atomic] = ()
    """Number formats that the card must all have."""
    min_memory_mib: Annotated[int | None, Field(ge=0)] = None
    """Least memory in MiB."""
    min_compute_capability: Annotated[str | None, schema_extra(pattern="^[0-9]{1,4}(\\.[0-9]{1,4})?$")] = None
    """Least CUDA compute capability, such as 8.0."""
    mig_profiles: Annotated[tuple[str, ...], Field(max_length=64), Atomic] = ()
    """MIG profiles, of which the card must offer one."""
    match_labels: dict[str, str] = Field(default_factory=dict)
    """Labels of the GPUDevice."""


@record
class DeviceSelector:
    """Which cards the pool may take."""

    include: DeviceMatch | None = None
    """Cards that match; all, when left out."""
    exclude: DeviceMatch | None = None
    """Cards that are left out although they match."""


@record
class DeviceAssignment:
    """Whether a person confirms each card."""

    require_annotation: bool | None = None
    """False takes matching cards by itself; unset follows the module's settings."""
    auto_approve_selector: LabelSelector | None = None
    """Cards (by GPUDevice labels) that are taken without a person."""


@record
class TimeSlice:
    """Sharing a card in turns."""

    max_slices_per_device: Annotated[int, Field(ge=1, le=SLOTS_MAX)] = 8
    """Pods that may share one card."""


@record
class MpsShares:
    """Sharing a card at one time: what NVIDIA's Multi-Process Service lets each client have."""

    clients: Annotated[int, Field(ge=2, le=MPS_CLIENTS_MAX)] = 8
    """Containers that may share one card."""
    memory: Annotated[str, Field(pattern=MPS_MEMORY)] = EQUAL
    """Most of the card's memory that one client may have: Equal, or a quantity such as 4Gi."""
    threads: Annotated[str, Field(pattern=MPS_THREADS)] = EQUAL
    """Most of the card's threads that one client may use at a time: Equal, or a percentage such as 25%."""


@record
class MIGShare:
    """Instances of one profile on each card."""

    profile: Annotated[str, Field(pattern=MIG_PROFILE)]
    """MIG profile, such as 1g.10gb."""
    count: Annotated[int, Field(ge=1, le=MIG_INSTANCES_MAX)]
    """Instances of it on each card."""


@record
class AllocationSpec:
    """How a card is handed out. Blocks of other modes are ignored."""

    mode: Mode = "Exclusive"
    """Whole cards, MIG instances, time slices or clients of MPS."""
    max_devices_per_node: Annotated[int | None, Field(ge=1)] = None
    """Most cards of one node."""
    mig_profile: Annotated[str | None, Field(pattern=MIG_PROFILE)] = None
    """MIG profile, such as 1g.10gb, of which each card has as many as fit; mode MIG requires it, or migLayout."""
    mig_layout: Annotated[tuple[MIGShare, ...], Field(max_length=MIG_INSTANCES_MAX), map_list("profile")] = ()
    """A mixed layout: so many of several profiles on each card; pods ask for `gpu.deckhouse.io/<pool>.<profile>`."""
    time_slice: TimeSlice | None = None
    """Settings of mode TimeSlice."""
    mps: MpsShares | None = None
    """Settings of mode MPS."""


@record
class Access:
    """Who may use the pool: the union of the lists; all empty means every namespace."""

    namespaces: Annotated[tuple[str, ...], Field(max_length=1000), Atomic] = ()
    """Namespaces by name."""
    namespace_selector: LabelSelector | None = None
    """Namespaces by label."""
    service_accounts: Annotated[tuple[str, ...], Field(max_length=1000), Atomic] = ()
    """The pod's ServiceAccount, as `namespace/name`."""
    dex_groups: Annotated[tuple[str, ...], Field(max_length=1000), Atomic] = ()
    """Groups of a person who creates the pod."""


@record
class Taint:
    """A taint of the pool's nodes."""

    key: str
    """Taint key."""
    value: str | None = None
    """Taint value."""
    effect: Effect
    """What the taint does."""


@record
class Toleration:
    """A toleration that the pool's pods get."""

    # What the API server would refuse in a pod, whose author did not write it; for the API server alone, as above.
    key: Annotated[str | None, schema_extra(pattern=f"^({LABEL_KEY})?$", maxLength=LABEL_KEY_MAX)] = None
    """Taint key."""
    operator: Literal["Exists", "Equal"] | None = None
    """How the value is compared."""
    value: Annotated[str | None, schema_extra(pattern=f"^{LABEL_VALUE}$", maxLength=names.LABEL_VALUE_MAX)] = None
    """Taint value."""
    effect: Effect | None = None
    """Effect that is tolerated; all, when left out."""
    toleration_seconds: int | None = None
    """How long NoExecute is tolerated, in seconds."""


@record
class Scheduling:
    """Where the pool's pods go."""

    strategy: Literal["Spread", "BinPack"] | None = None
    """Spread over nodes, or fill a node first; unset follows the module's settings."""
    topology_key: Annotated[str | None, schema_extra(pattern=f"^({LABEL_KEY})?$", maxLength=LABEL_KEY_MAX)] = None
    """Node label over which Spread spreads."""
    taints: Annotated[tuple[Taint, ...], Field(max_length=50), Atomic] = ()
    """Taints that the pool's nodes get, and its pods tolerate."""
    tolerations: Annotated[
        tuple[Annotated[Toleration, schema_extra(x_kubernetes_validations=TOLERATION_RULES)], ...],
        Field(max_length=50),
        Atomic,
    ] = ()
    """More tolerations for the pool's pods."""
    affinity: Annotated[dict[str, Any] | None, schema_extra(x_kubernetes_preserve_unknown_fields=True)] = None
    """Affinity that the pool's pods get beside their own, as in a pod's spec."""


@record
class Disruption:
    """How far a pool's nodes may be taken out of service so that a driver is replaced; the GPUDriver's holds, too."""

    max_unavailable_cards: Annotated[int | None, Field(ge=1)] = None
    """Most cards of the pool that may be out of service for that at once, but one node may; unset is no limit."""
    windows: Annotated[
        tuple[Annotated[Window, schema_extra(x_kubernetes_validations=WINDOW_RULES)], ...],
        Field(max_length=32),
        Atomic,
    ] = ()
    """When its nodes may be started, in UTC; always, when left out."""


@record
class GPUPoolSpec:
    """What the administrator asks for."""

    resource: PoolResource | None = None
    """The extended resource; may be left out."""
    node_selector: LabelSelector | None = None
    """Nodes whose cards the pool may take; all, when left out."""
    device_selector: DeviceSelector | None = None
    """Cards that the pool may take."""
    device_assignment: DeviceAssignment | None = None
    """Whether a person confirms each card."""
    allocation: AllocationSpec = Field(default_factory=AllocationSpec)
    """How a card is handed out."""
    access: Access | None = None
    """Who may use the pool."""
    scheduling: Scheduling | None = None
    """Where the pool's pods go."""
    queue: Queue | None = None
    """How pods wait for cards; unset is a queue in order Fair without shares."""
    disruption: Disruption | None = None
    """How far its nodes may be taken out of service so that their driver is replaced; unset narrows nothing."""


@record
class SlotCounts:
    """Slots by what becomes of them."""

    total: Annotated[int, Field(ge=0)] = 0
    """Slots of all cards in the pool."""
    used: Annotated[int, Field(ge=0)] = 0
    """Slots of bound pods."""
    reserved: Annotated[int, Field(ge=0)] = 0
    """Slots promised to pods that are not bound yet."""
    unavailable: Annotated[int, Field(ge=0)] = 0
    """Unused slots of cards that cannot be issued now."""
    available: Annotated[int, Field(ge=0)] = 0
    """Slots that a pod can get now."""


@record
class ProfileCapacity(SlotCounts):
    """Slots of one profile, in a pool of a mixed layout."""

    profile: Annotated[str, schema_extra(maxLength=32)]
    """The MIG profile."""


@record
class Capacity(SlotCounts):
    """Slots of the pool."""

    unit: Unit
    """What one slot is."""
    profiles: Annotated[tuple[ProfileCapacity, ...], Field(max_length=MIG_INSTANCES_MAX), map_list("profile")] = ()
    """The same for each profile of a mixed layout."""


@record
class PoolNode:
    """A node of the pool."""

    name: str
    """The node."""
    total_devices: int
    """Cards of the node, in any pool or none."""
    assigned_devices: int
    """Cards of the node in this pool."""
    slots: int
    """Slots of those cards."""
    used: int
    """Slots in use."""
    health: Literal["Healthy", "Misconfigured", "Degraded"]
    """Whether the node's plugin offers what the pool wants, and the pool's pods can come there."""
    last_event: str | None = None
    """The last thing that went wrong."""
    not_shown_since: Timestamp | None = None
    """Since when kubelet has not shown all free slots that the plugin offers: nobody is promised what it hides."""


@record
class PoolDevice:
    """A card of the pool."""

    inventory_id: str
    """The card."""
    node: str
    """Its node."""
    state: str
    """Its state."""
    auto_attach: bool = False
    """Whether it came without a person."""


@record
class CandidatePool:
    """How a candidate relates to a pool."""

    pool: str
    """The pool."""
    reason: str
    """Why the card is not in it yet."""
    auto_approved: bool = False
    """Whether the pool takes it without a person."""
    annotation_hint: str | None = None
    """The annotation that puts the card into the pool."""


@record
class Candidate:
    """A card that the pool could take."""

    name: str
    """Name of the GPUDevice."""
    pools: Annotated[tuple[CandidatePool, ...], Atomic] = ()
    """How it relates to pools."""


PoolPhase = Literal["Serving", "Draining", "Rebuilding", "Applying", "Halted", "NotServed", "Deleting", "Disabled"]


@record
class PassedOver:
    """A pod whose reservations ran out again and again: others come first for a while."""

    request_id: Annotated[str, Field(alias="requestID", max_length=63)]
    """Of the pod's annotation gpu.deckhouse.io/request-id."""
    turns: Annotated[int, Field(ge=2)]
    """Reservations that ran out before the pod was bound."""
    until: Timestamp
    """When it comes before newcomers again, and is reserved for anew."""


@record
class GPUPoolStatus:
    """Observed state of a pool."""

    capacity: Capacity | None = None
    """Slots."""
    applied_allocation: AllocationSpec | None = None
    """What the nodes are configured for now; differs from the spec during Maintenance."""
    nodes: Annotated[tuple[PoolNode, ...], Field(max_length=names.LIST_MAX), Atomic] = ()
    """Nodes with cards of the pool."""
    devices: Annotated[tuple[PoolDevice, ...], Field(max_length=names.LIST_MAX), Atomic] = ()
    """Cards of the pool."""
    candidates: Annotated[tuple[Candidate, ...], Field(max_length=names.LIST_MAX), Atomic] = ()
    """Cards that the pool could take."""
    truncated: bool | None = None
    """Whether a list above was cut at 500 entries."""
    passed_over: Annotated[tuple[PassedOver, ...] | None, Field(max_length=names.LIST_MAX), Atomic] = None
    """Pods that the scheduler did not place while cards were reserved for them, twice or more."""
    queue: QueueStatus | None = None
    """Who waits for cards; absent while nobody does."""
    phase: PoolPhase | None = None
    """Where the pool is between what its spec asks for and what its nodes are configured for."""
    last_reconfigured: Timestamp | None = None
    """When the nodes were last configured anew; a change that was taken back does not count."""
    conditions: Annotated[tuple[Condition, ...], map_list("type")] = ()
    """Available, Maintenance, Misconfigured, CapacityLow."""


@record
class GPUPool(KubeObject):
    """A pool of GPU cards that pods ask for as `gpu.deckhouse.io/<pool>`."""

    spec: GPUPoolSpec = Field(default_factory=GPUPoolSpec)
    """What the administrator asks for."""
    status: GPUPoolStatus = Field(default_factory=GPUPoolStatus)
    """Observed state."""


_IS_NOT_MIG = "!has(self.spec.allocation) || !has(self.spec.allocation.mode) || self.spec.allocation.mode != 'MIG'"
POOL_RULES = rules(
    (
        f"self.metadata.name.size() <= {names.POOL_NAME_MAX}"
        " && self.metadata.name.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",
        f"{names.NAME_TOO_LONG}: a GPUPool's name is a DNS label of at most {names.POOL_NAME_MAX} characters"
        " (lower-case letters, digits and dashes), because the resource and the objects of the pool carry it",
    ),
    (
        "!has(self.spec.resource) || !has(self.spec.resource.name)"
        f" || self.spec.resource.name == '{names.PREFIX}' + self.metadata.name",
        f"{names.IMMUTABLE_FIELD}: spec.resource.name must be {names.PREFIX}<name of the pool>;"
        " leave it out to get that",
    ),
    (
        "!has(self.spec.resource) || !has(self.spec.resource.unit) || self.spec.resource.unit =="
        " (!has(self.spec.allocation) || !has(self.spec.allocation.mode)"
        " || self.spec.allocation.mode == 'Exclusive' ? 'card'"
        " : self.spec.allocation.mode == 'MIG' ? 'mig-partition'"
        " : self.spec.allocation.mode == 'MPS' ? 'mps' : 'timeslice')",
        f"{names.IMMUTABLE_FIELD}: spec.resource.unit follows spec.allocation.mode (Exclusive: card,"
        " MIG: mig-partition, TimeSlice: timeslice, MPS: mps); leave it out to get that",
    ),
    (
        f"{_IS_NOT_MIG} || has(self.spec.allocation.migProfile)"
        " || (has(self.spec.allocation.migLayout) && self.spec.allocation.migLayout.size() > 0)",
        f"{names.INVALID_MIG_PROFILE}: mode MIG needs spec.allocation.migProfile, such as 1g.10gb,"
        " or spec.allocation.migLayout",
    ),
    (
        f"{_IS_NOT_MIG} || !has(self.spec.allocation.migProfile)"
        " || !has(self.spec.allocation.migLayout) || self.spec.allocation.migLayout.size() == 0",
        f"{names.INVALID_MIG_PROFILE}: spec.allocation.migProfile fills a card with one profile, and"
        " spec.allocation.migLayout counts several: give one of the two",
    ),
)
