"""GPUDriver: which driver the module puts on which nodes, and how far it is there."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from controllers.api import gpudriver_rules as rules
from controllers.api import names
from controllers.api.driver_rollout import Rollout
from controllers.api.driver_work import Phase
from controllers.api.meta import Condition, KubeObject
from controllers.api.record import Atomic, Timestamp, map_list, record, schema_extra
from controllers.api.selector import LabelSelector

DriverMode = Literal["Auto", "Host", "Precompiled", "Compiled"]
Flavour = Literal["Auto", "Open", "Proprietary"]
Result = Literal["Good", "Bad", "Unproved"]
NodePhase = Literal[Phase, "RollingBack", "Current", "Outdated", "Host", "OptedOut"]
"""How far a node is: at work, or one of the four in which nothing is done to it.

RollingBack is a node at work that gets a former revision back."""


@record
class TargetDevices:
    """Cards of which a node must have one; every key that is given must match."""

    families: Annotated[tuple[str, ...], Field(max_length=64), Atomic] = ()
    """Families of cards, such as hopper, as label gpu.deckhouse.io/family spells them."""
    pci_ids: Annotated[
        tuple[Annotated[str, schema_extra(pattern=rules.PCI_ID)], ...], Field(max_length=100), Atomic
    ] = ()
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

    system: Annotated[str, Field(max_length=63), schema_extra(pattern=rules.SYSTEM)]
    """The system, as `<ID><VERSION_ID>` of os-release, such as ubuntu24.04."""
    kernel: Annotated[str, Field(max_length=253), schema_extra(pattern=rules.KERNEL)] = "*"
    """The kernel's release, in which `*` stands for any text."""
    image: Annotated[str, Field(max_length=500), schema_extra(pattern=rules.REFERENCE)]
    """The image with its tag or digest."""


@record
class DriverImage:
    """Where the driver's image comes from."""

    repository: Annotated[str, Field(max_length=253), schema_extra(pattern=rules.REPOSITORY)] = rules.UPSTREAM
    """Registry and path."""
    name: Annotated[str, Field(max_length=253), schema_extra(pattern=rules.IMAGE_NAME)] = "driver"
    """Name of the image; its tag follows from version, system and kernel."""
    overrides: Annotated[
        tuple[ImageOverride, ...],
        Field(max_length=64),
        schema_extra(x_kubernetes_list_type="atomic", x_kubernetes_validations=rules.OVERRIDE_RULES),
    ] = ()
    """Images for single systems and kernels, which come before what the module would choose."""
    pull_policy: Literal["Always", "IfNotPresent", "Never"] = "IfNotPresent"
    """When the node pulls the image."""
    pull_secrets: Annotated[
        tuple[Annotated[str, schema_extra(pattern=rules.MAYBE_NAME, minLength=1, maxLength=253)], ...],
        Field(max_length=16),
        Atomic,
    ] = ()
    """Secrets of the module's namespace with registry credentials."""


@record
class Proxy:
    """Proxies of the driver's container."""

    http: Annotated[str | None, Field(max_length=2048), schema_extra(pattern=rules.PROXY)] = None
    """Proxy for http."""
    https: Annotated[str | None, Field(max_length=2048), schema_extra(pattern=rules.PROXY)] = None
    """Proxy for https."""
    no: Annotated[str | None, Field(max_length=4096)] = None
    """What goes past the proxies."""


@record
class NamedConfigMap:
    """A ConfigMap of the module's namespace."""

    config_map: Annotated[str, Field(max_length=253), schema_extra(pattern=rules.MAYBE_NAME)] = ""
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
    secret_env: Annotated[str, Field(max_length=253), schema_extra(pattern=rules.MAYBE_NAME)] = ""
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
    image: Annotated[str, Field(max_length=500), schema_extra(pattern=rules.SIDECAR_IMAGE)] = ""
    """Its image without a tag, or with its digest."""
    version: Annotated[str, Field(max_length=64), schema_extra(pattern=rules.SIDECAR_VERSION)] = ""
    """Its version; the image's tag is `<version>-<system>`."""


@record
class FabricManager:
    """The fabric manager of machines with NVSwitch."""

    config: Annotated[
        dict[str, Annotated[str, Field(max_length=253), schema_extra(pattern=rules.WORD)]],
        schema_extra(maxProperties=64, x_kubernetes_validations=rules.FABRIC_RULES),
    ] = Field(default_factory=dict)
    """Settings of fabricmanager.cfg by name, such as LOG_LEVEL."""


@record
class Licensing:
    """The licence of a vGPU guest driver."""

    secret_name: Annotated[str, Field(max_length=253), schema_extra(pattern=rules.MAYBE_NAME)] = ""
    """A Secret with gridd.conf and client_configuration_token.tok, which the module never reads."""


@record
class DriverResources:
    """Requests and limits of the driver's container."""

    requests: Annotated[
        dict[str, Annotated[str, Field(max_length=32), schema_extra(pattern=rules.QUANTITY)]],
        schema_extra(maxProperties=3, x_kubernetes_validations=rules.RESOURCE_RULES),
    ] = Field(default_factory=dict)
    """What is set aside on the node: quantities of `cpu`, `memory`, `ephemeral-storage`."""
    limits: Annotated[
        dict[str, Annotated[str, Field(max_length=32), schema_extra(pattern=rules.QUANTITY)]],
        schema_extra(maxProperties=3, x_kubernetes_validations=rules.RESOURCE_RULES),
    ] = Field(default_factory=dict)
    """What it gets at most, in the same words."""


@record
class GPUDriverSpec:
    """What the administrator asks for."""

    priority: Annotated[int, Field(ge=-1000, le=1000)] = 0
    """Of several drivers that match a node the one with the highest priority has it."""
    target: Target = Field(default_factory=Target)
    """Which nodes the driver is for."""
    mode: DriverMode = "Auto"
    """Who brings the kernel's modules: the host, a precompiled image, or a compiler on the node."""
    version: Annotated[str, Field(max_length=32), schema_extra(pattern=rules.VERSION)]
    """Version, such as 580.178.04; a branch such as 580 in modes Precompiled and Auto, as their images have."""
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
            str,
            Annotated[
                dict[str, Annotated[str, Field(max_length=253), schema_extra(pattern=rules.WORD)]],
                schema_extra(maxProperties=64),
            ],
        ],
        schema_extra(maxProperties=4, x_kubernetes_validations=rules.MODULE_RULES),
    ] = Field(default_factory=dict)
    """Parameters of kernel modules, by module and by parameter."""
    rdma: Rdma = Field(default_factory=Rdma)
    """GPUDirect RDMA."""
    gds: Annotated[Sidecar, schema_extra(x_kubernetes_validations=rules.SIDECAR_RULES)] = Field(default_factory=Sidecar)
    """GPUDirect Storage; needs the open modules."""
    gdrcopy: Annotated[Sidecar, schema_extra(x_kubernetes_validations=rules.SIDECAR_RULES)] = Field(
        default_factory=Sidecar
    )
    """GDRCopy."""
    fabric_manager: FabricManager = Field(default_factory=FabricManager)
    """The fabric manager."""
    licensing: Licensing = Field(default_factory=Licensing)
    """The licence of a vGPU guest driver."""
    resources: DriverResources = Field(default_factory=DriverResources)
    """What the driver's container asks for and gets at most; revisions that are there already keep theirs."""
    rollout_nonce: Annotated[str, Field(max_length=128)] = ""
    """Any new text makes a new revision: for Secrets, which the module does not read."""
    rollout: Rollout = Field(default_factory=Rollout)
    """How a new revision comes onto nodes that have a driver already."""


@record
class StratumResult:
    """What is known of a revision on nodes of one kind."""

    key: Annotated[str, Field(max_length=253)]
    """What they have in common."""
    result: Result
    """What is known of the revision there."""


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
    halted: Annotated[str | None, Field(max_length=63)] = None
    """The reason by which several nodes failed with it within an hour, for which no node is started."""
    strata: Annotated[tuple[StratumResult, ...], Field(max_length=64), Atomic] = ()
    """What is known of it by kinds of nodes, of those that have tried it."""


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
    wave: Annotated[int | None, Field(ge=0)] = None
    """The wave in which nodes are begun now; 0 is the canary."""
    started: Annotated[int, Field(ge=0)] = 0
    """Nodes that have the revision, are under way to it, or failed with it."""
    finished: Annotated[int, Field(ge=0)] = 0
    """Those of them that are not at work any more."""


@record
class Spent:
    """What ended works on the driver's nodes have cost."""

    hour: Timestamp
    """The hour in which they ended."""
    gpu_seconds: Annotated[int, Field(ge=0)]
    """Cards times the seconds for which they were out of service."""


@record
class DriverNode:
    """A node that the driver has, and how far it is."""

    name: str
    """The node."""
    phase: NodePhase
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
    """In a word or two: Ready, Installing, Rolling and its wave, Soaking, Blocked, Failed, Halted, Paused, Outdated,
    Deleting, NoNodes, NodesOutOfService."""
    strata: Annotated[tuple[StratumStatus, ...], Field(max_length=64), Atomic] = ()
    """Kinds of nodes."""
    spent: Annotated[tuple[Spent, ...], Field(max_length=25), Atomic] = ()
    """What replacing drivers has cost in the last 24 hours, by the hour."""
    eta: Timestamp | None = None
    """When all nodes will have the revision, as far as can be said; absent where that depends on a person."""
    versions: Annotated[tuple[RunningVersion, ...], Field(max_length=32), Atomic] = ()
    """Versions that run on its nodes."""
    nodes: Annotated[tuple[DriverNode, ...], Field(max_length=names.LIST_MAX), Atomic] = ()
    """Nodes, those in trouble first."""
    truncated: bool | None = None
    """Whether the list of nodes was cut at 500 entries."""
    conditions: Annotated[tuple[Condition, ...], map_list("type")] = ()
    """Ready, Progressing, Blocked, Failed, Halted, Overlaps, SettingsInvalid, NextKernelUnserved."""


@record
class GPUDriver(KubeObject):
    """A driver for the GPU nodes that it matches: installed from an image, or the host's own."""

    spec: GPUDriverSpec
    """What the administrator asks for."""
    status: GPUDriverStatus = Field(default_factory=GPUDriverStatus)
    """Observed state."""
