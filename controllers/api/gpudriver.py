"""GPUDriver: which driver the module puts on which nodes, and how far it is there."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import Field

from controllers.api import names
from controllers.api.driver_work import Phase
from controllers.api.duration import Duration, duration
from controllers.api.meta import Condition, KubeObject
from controllers.api.record import Atomic, Timestamp, map_list, record
from controllers.api.selector import LabelSelector

DriverMode = Literal["Auto", "Host", "Precompiled", "Compiled"]
Flavour = Literal["Auto", "Open", "Proprietary"]
Strategy = Literal["WhenIdle", "Drain"]
Result = Literal["Good", "Bad", "Unproved"]
Day = Literal["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"]
VERSION: Final = "^[0-9]{3,4}([.][0-9]+){0,2}$"
"""A whole version such as 580.178.04, or a branch such as 580, which only precompiled images know."""


@record
class TargetDevices:
    """Cards of which a node must have one; every key that is given must match."""

    families: Annotated[tuple[str, ...], Field(max_length=64), Atomic] = ()
    """Families of cards, such as hopper, as label gpu.deckhouse.io/family spells them."""
    pci_ids: Annotated[tuple[str, ...], Field(max_length=100), Atomic] = ()
    """`vendor:device`, such as 10de:20b0."""
    products: Annotated[tuple[str, ...], Field(max_length=100), Atomic] = ()
    """Product names, as label gpu.deckhouse.io/product spells them."""


@record
class Target:
    """Which nodes the driver is for; empty means every node that has cards."""

    node_selector: LabelSelector | None = None
    """Nodes by label; all, when left out."""
    devices: TargetDevices | None = None
    """Nodes by their cards; all, when left out."""


@record
class ImageOverride:
    """An image for one system and some of its kernels."""

    system: Annotated[str, Field(min_length=1, max_length=63)]
    """The system, as `<ID><VERSION_ID>` of os-release, such as ubuntu24.04."""
    kernel: Annotated[str, Field(min_length=1, max_length=253)] = "*"
    """The kernel's release, in which `*` stands for any text."""
    image: Annotated[str, Field(min_length=1, max_length=500)]
    """The image with its tag or digest."""


@record
class DriverImage:
    """Where the driver's image comes from."""

    repository: Annotated[str, Field(min_length=1, max_length=253)] = "nvcr.io/nvidia"
    """Registry and path."""
    name: Annotated[str, Field(min_length=1, max_length=253)] = "driver"
    """Name of the image; its tag follows from version, system and kernel."""
    overrides: Annotated[tuple[ImageOverride, ...], Field(max_length=64), Atomic] = ()
    """Images for single systems and kernels, which come before what the module would choose."""
    pull_policy: Literal["Always", "IfNotPresent", "Never"] = "IfNotPresent"
    """When the node pulls the image."""
    pull_secrets: Annotated[tuple[str, ...], Field(max_length=16), Atomic] = ()
    """Secrets of the module's namespace with registry credentials."""


@record
class Proxy:
    """Proxies of the driver's container."""

    http: Annotated[str | None, Field(max_length=2048)] = None
    """Proxy for http."""
    https: Annotated[str | None, Field(max_length=2048)] = None
    """Proxy for https."""
    no: Annotated[str | None, Field(max_length=4096)] = None
    """What goes past the proxies."""


@record
class NamedConfigMap:
    """A ConfigMap of the module's namespace."""

    config_map: Annotated[str, Field(max_length=253)] = ""
    """Its name; empty for none."""


@record
class Build:
    """What the driver's container needs to compile modules."""

    repositories: NamedConfigMap = Field(default_factory=NamedConfigMap)
    """Package repositories: each key is a file of the system's folder for them."""
    certificates: NamedConfigMap = Field(default_factory=NamedConfigMap)
    """Certificates of authorities that the container is to trust."""
    use_cluster_proxy: bool = True
    """Whether the cluster's proxies hold, where Deckhouse knows some."""
    proxy: Proxy | None = None
    """Proxies instead of the cluster's."""
    secret_env: Annotated[str, Field(max_length=253)] = ""
    """A Secret of the module's namespace whose keys become environment variables."""


@record
class Rdma:
    """GPUDirect RDMA."""

    enabled: bool = False
    """Whether module nvidia-peermem is loaded."""
    host_mofed: bool = False
    """Whether the host's own MOFED is used rather than a driver container's."""


@record
class Sidecar:
    """One more kernel module beside the driver, from an image of its own."""

    enabled: bool = False
    """Whether it is loaded."""
    image: Annotated[str, Field(max_length=500)] = ""
    """Its image without a tag."""
    version: Annotated[str, Field(max_length=128)] = ""
    """Its version; the image's tag is `<version>-<system>`."""


@record
class FabricManager:
    """The fabric manager of machines with NVSwitch."""

    config: Annotated[dict[str, Annotated[str, Field(max_length=253)]], Field(max_length=64)] = Field(
        default_factory=dict
    )
    """Settings of fabricmanager.cfg by name."""


@record
class Licensing:
    """The licence of a vGPU guest driver."""

    secret_name: Annotated[str, Field(max_length=253)] = ""
    """A Secret with gridd.conf and client_configuration_token.tok, which the module never reads."""


@record
class Canary:
    """The first nodes of a new revision."""

    per_stratum: Annotated[int, Field(ge=1, le=100)] = 1
    """Nodes of each kind of node."""
    percent: Annotated[int, Field(ge=1, le=100)] = 5
    """Most of all nodes, in percent; at least one."""
    soak: Duration = duration("1h")
    """How long they have to serve."""
    evidence: Literal["Use", "Probe", "None"] = "Use"
    """What proves a revision: a pod that used a card, the module's own CUDA call, or the time alone."""


@record
class MaxUnavailable:
    """How much may be out of service for the driver's sake at once; all of it holds."""

    nodes: Annotated[str, Field(pattern="^([1-9][0-9]{0,4}|[1-9][0-9]?%|100%)$")] = "10%"
    """Nodes, as a number or a share; at least one."""
    per_pool: Annotated[str, Field(pattern="^([1-9][0-9]{0,4}|[1-9][0-9]?%|100%)$")] = "10%"
    """Nodes of each pool; at least one."""
    cards: Annotated[int, Field(ge=0)] = 64
    """Cards; 0 for no limit."""
    gpu_hours_per_day: Annotated[int, Field(ge=0)] = 0
    """Cards out of service times hours, in 24 hours; 0 for no limit."""


@record
class Window:
    """When nodes may be started, in UTC."""

    days: Annotated[tuple[Day, ...], Field(max_length=7), Atomic] = ()
    """Days of the week; every day, when left out."""
    from_: Annotated[str, Field(pattern="^([01][0-9]|2[0-3]):[0-5][0-9]$", alias="from")]
    """When it begins, as 06:00."""
    to: Annotated[str, Field(pattern="^([01][0-9]|2[0-3]):[0-5][0-9]$")]
    """When it ends; later than its beginning."""


@record
class Drain:
    """How pods leave a node, in strategy Drain."""

    wait_for: Duration = duration("1h")
    """How long pods may end by themselves first."""
    timeout: Duration = duration("30m")
    """How long evictions are tried."""
    local_data: Literal["Wait", "Evict"] = "Wait"
    """Pods with an emptyDir on disk."""
    bare: Literal["Wait", "Evict"] = "Wait"
    """Pods that nothing makes anew."""


@record
class MaxFailures:
    """Failed nodes, beyond the canaries, after which a rollout halts."""

    nodes: Annotated[int, Field(ge=0)] = 2
    """Nodes."""
    percent: Annotated[int, Field(ge=0, le=100)] = 2
    """Share of the nodes that were begun."""


@record
class Rollout:
    """How a new revision comes onto nodes that have a driver already."""

    paused: bool = False
    """Whether no node is started."""
    strategy: Strategy = "WhenIdle"
    """Wait until a node's cards are free, or evict pods."""
    canary: Canary = Field(default_factory=Canary)
    """The first nodes."""
    waves: Annotated[tuple[Annotated[int, Field(ge=1, le=100)], ...], Field(max_length=16), Atomic] = (10, 30, 100)
    """Shares of the nodes, in percent, that have the revision after each wave; growing, the last is 100."""
    wave_soak: Duration = duration("15m")
    """How long a wave has to serve before the next one."""
    max_unavailable: MaxUnavailable = Field(default_factory=MaxUnavailable)
    """How much may be out of service at once."""
    windows: Annotated[tuple[Window, ...], Field(max_length=32), Atomic] = ()
    """When nodes may be started; always, when left out."""
    drain: Drain = Field(default_factory=Drain)
    """How pods leave a node, in strategy Drain."""
    max_failures: MaxFailures = Field(default_factory=MaxFailures)
    """When it halts."""
    rollback: Literal["None", "FailedNodes", "Wave", "All"] = "FailedNodes"
    """Which nodes get the former revision back by themselves once it halts."""
    history_limit: Annotated[int, Field(ge=1, le=10)] = 3
    """Revisions that are remembered."""


@record
class GPUDriverSpec:
    """What the administrator asks for."""

    priority: Annotated[int, Field(ge=-1000, le=1000)] = 0
    """Of several drivers that match a node the one with the highest priority has it."""
    target: Target = Field(default_factory=Target)
    """Which nodes the driver is for."""
    mode: DriverMode = "Auto"
    """Who brings the kernel's modules: the host, a precompiled image, or a compiler on the node."""
    version: Annotated[str, Field(pattern=VERSION, max_length=32)]
    """Version, such as 580.178.04; a branch such as 580 in modes Precompiled and Auto."""
    flavour: Flavour = "Auto"
    """Open or proprietary kernel modules; Auto follows the node's cards."""
    type: Literal["Datacenter", "VGPUGuest"] = "Datacenter"
    """The data center driver, or that of a vGPU guest."""
    image: DriverImage = Field(default_factory=DriverImage)
    """Where the image comes from."""
    build: Build = Field(default_factory=Build)
    """What the container needs to compile modules."""
    kernel_modules: Annotated[
        dict[
            Literal["nvidia", "nvidia-uvm", "nvidia-modeset", "nvidia-peermem"],
            Annotated[dict[str, Annotated[str, Field(max_length=253)]], Field(max_length=64)],
        ],
        Field(max_length=4),
    ] = Field(default_factory=dict)
    """Parameters of kernel modules, by module and by parameter."""
    rdma: Rdma = Field(default_factory=Rdma)
    """GPUDirect RDMA."""
    gds: Sidecar = Field(default_factory=Sidecar)
    """GPUDirect Storage; needs the open modules."""
    gdrcopy: Sidecar = Field(default_factory=Sidecar)
    """GDRCopy."""
    fabric_manager: FabricManager = Field(default_factory=FabricManager)
    """The fabric manager."""
    licensing: Licensing = Field(default_factory=Licensing)
    """The licence of a vGPU guest driver."""
    rollout_nonce: Annotated[str, Field(max_length=128)] = ""
    """Any new text makes a new revision: for Secrets, which the module does not read."""
    rollout: Rollout = Field(default_factory=Rollout)
    """How a new revision comes onto nodes that have a driver already."""


@record
class RevisionStatus:
    """A revision that was wanted, now or before."""

    hash: Annotated[str, Field(max_length=10)]
    """The first ten digits of the hash over what the revision is."""
    version: Annotated[str, Field(max_length=32)]
    """Its version."""
    result: Result = "Unproved"
    """What is known of it."""
    since: Timestamp
    """Since when."""
    why: Annotated[str | None, Field(max_length=512)] = None
    """The evidence."""


@record
class DriverCounts:
    """Nodes by how far they are."""

    nodes: Annotated[int, Field(ge=0)] = 0
    """Nodes that the driver has."""
    current: Annotated[int, Field(ge=0)] = 0
    """Nodes with the revision that is wanted, in service."""
    outdated: Annotated[int, Field(ge=0)] = 0
    """Nodes with another revision of the module's."""
    host: Annotated[int, Field(ge=0)] = 0
    """Nodes whose driver is the host's own."""
    busy: Annotated[int, Field(ge=0)] = 0
    """Nodes that are at work."""
    blocked: Annotated[int, Field(ge=0)] = 0
    """Nodes that cannot get the driver."""
    failed: Annotated[int, Field(ge=0)] = 0
    """Nodes that failed with it."""


@record
class StratumStatus:
    """Nodes of one kind: what one of them proves holds for all."""

    key: Annotated[str, Field(max_length=253)]
    """What they have in common."""
    nodes: Annotated[int, Field(ge=0)]
    """How many there are."""
    canary: Annotated[str | None, Field(max_length=253)] = None
    """The node that tries the revision first, or did."""
    result: Result = "Unproved"
    """What is known of the revision there."""


@record
class DriverNode:
    """A node that the driver has, and how far it is."""

    name: str
    """The node."""
    phase: Phase | Literal["Current", "Outdated", "Host", "OptedOut"]
    """How far it is."""
    reason: Annotated[str | None, Field(max_length=63)] = None
    """Why it is no further."""
    since: Timestamp | None = None
    """Since when."""


@record
class RunningVersion:
    """How many nodes run a version."""

    version: Annotated[str, Field(max_length=64)]
    """The version."""
    nodes: Annotated[int, Field(ge=0)]
    """How many nodes."""


@record
class GPUDriverStatus:
    """Observed state of a driver."""

    observed_generation: int | None = None
    """Generation of the spec that this status follows."""
    target: Annotated[str | None, Field(max_length=10)] = None
    """The revision that is wanted."""
    current: Annotated[str | None, Field(max_length=10)] = None
    """The newest revision that has proved good."""
    revisions: Annotated[tuple[RevisionStatus, ...], Field(max_length=10), Atomic] = ()
    """Revisions, the newest first."""
    counts: DriverCounts | None = None
    """Nodes by how far they are."""
    state: Annotated[str | None, Field(max_length=63)] = None
    """In a word or two: Ready, Installing, Blocked, Failed, Paused, Deleting."""
    strata: Annotated[tuple[StratumStatus, ...], Field(max_length=64), Atomic] = ()
    """Kinds of nodes."""
    versions: Annotated[tuple[RunningVersion, ...], Field(max_length=32), Atomic] = ()
    """Versions that run on its nodes."""
    nodes: Annotated[tuple[DriverNode, ...], Field(max_length=names.LIST_MAX), Atomic] = ()
    """Nodes, those in trouble first."""
    truncated: bool | None = None
    """Whether the list of nodes was cut at 500 entries."""
    conditions: Annotated[tuple[Condition, ...], map_list("type")] = ()
    """Ready, Progressing, Blocked, Overlaps, SettingsInvalid, Halted."""


@record
class GPUDriver(KubeObject):
    """A driver for the GPU nodes that it matches: installed from an image, or the host's own."""

    spec: GPUDriverSpec
    """What the administrator asks for."""
    status: GPUDriverStatus = Field(default_factory=GPUDriverStatus)
    """Observed state."""
