"""Records of a node's PCI bus, driver, cards and container toolkit, as the scans fill them. Pure.

Two sources see the same cards: the PCI bus, always, and the driver, where it is loaded. They
meet by PCI address; neither is believed about what only the other can know.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from controllers.api.system_facts import SystemFacts


@dataclass(frozen=True, slots=True)
class PciFunction:
    """One function on the PCI bus, as sysfs tells it; hexadecimal in lower case without `0x`."""

    address: str
    """Domain with four digits or more: `0000:17:00.0`."""
    vendor: str
    device: str
    class_: str
    """Class, subclass and programming interface: six digits."""
    subsystem_vendor: str = ""
    subsystem_device: str = ""
    numa_node: int | None = None
    """None where the machine does not say (sysfs: -1, or no such file)."""
    root: str = ""
    """The host bridge above it, as `0000:16`; empty where its place in sysfs does not show one."""
    iommu_group: str = ""
    driver: str = ""
    """The kernel driver that is bound: nvidia, vfio-pci, nouveau, or nothing."""
    physical_function: str = ""
    """Address of the card of which this is a virtual function; empty for what is no virtual function."""
    virtual_functions: int = 0
    """How many virtual functions the card could have (`sriov_totalvfs`)."""
    unreadable: tuple[str, ...] = ()
    """Attributes of the report (`numa_node`) that are there and could not be read this time."""


@dataclass(frozen=True, slots=True)
class Bus:
    """One look at the PCI bus."""

    functions: tuple[PciFunction, ...] = ()
    unclear: frozenset[str] = frozenset()
    """Addresses where something is whose ids could not be read: neither seen nor missed."""


NOT_STARTED, IN_PROGRESS, COMPLETED = "not started", "in progress", "completed"
"""States of a card's registration with NVLink's fabric, which the fabric manager brings about."""


@dataclass(frozen=True, slots=True)
class MigDevice:
    """A MIG device as clients see it: one compute instance in one GPU instance."""

    uuid: str
    profile: str
    """Of the GPU instance: `1g.10gb`."""
    gpu_instance: int
    compute_instance: int


@dataclass(frozen=True, slots=True)
class DriverCard:
    """One card as its driver knows it; what the driver does not tell is None or empty."""

    address: str
    uuid: str = ""
    product: str = ""
    memory_mib: int | None = None
    compute: tuple[int, int] | None = None
    """Compute capability: major, minor."""
    mig_capable: bool | None = None
    mig_enabled: bool | None = None
    """The mode in force, not the one pending until a reset."""
    mig_profiles: tuple[str, ...] = ()
    """Every profile that the driver offers on this card, by name: `1g.10gb`, `1g.10gb+me`."""
    mig_instances: Mapping[str, int] = field(default_factory=dict)
    """GPU instances that exist, by profile name."""
    mig_devices: tuple[MigDevice, ...] = ()
    """The MIG devices that exist; none of them is left out unless `failed` names `mig_instances`."""
    nvlink_peers: tuple[str, ...] = ()
    """Addresses of the cards to which a link is up; with NVSwitches between, of all that are reached through them."""
    nvlink_links: tuple[int, ...] = ()
    """How many links go to each of `nvlink_peers`, in the same order; over switches all that the card has to them."""
    persistence: bool | None = None
    """Whether the driver keeps the card open while nobody uses it."""
    fabric: str = ""
    """How far its registration with NVLink's fabric is (`COMPLETED` and its neighbours); empty where there is none."""
    fabric_error: str = ""
    """Why a completed registration is none, in NVML's words."""
    failed: tuple[str, ...] = ()
    """Names of the fields above that the driver has and failed to tell this time."""


@dataclass(frozen=True, slots=True)
class Driver:
    """The driver that is loaded, and the cards that answer it."""

    version: str
    cuda_version: str = ""
    """The newest CUDA that it serves: `12.4`."""
    cards: Mapping[str, DriverCard] = field(default_factory=dict)
    """By PCI address, spelled as in `PciFunction`."""
    source: str = "nvml"
    """`nvml`, or `procfs` where the driver's library or its devices cannot be opened."""
    root: str = ""
    """Where its files are, if not in the host's own root: `/run/nvidia/driver`."""
    load: str = ""
    """A word for this loading of the module, of procfs's and sysfs's view alone; empty where none is seen."""
    failed: tuple[str, ...] = ()
    """Of `version` and `cuda_version`, what it failed to tell this time."""


@dataclass(frozen=True, slots=True)
class CudaAnswer:
    """What came of trying CUDA on one card; all that is empty says that it works."""

    call: str = ""
    """The function of CUDA that failed."""
    code: int = 0
    """The number of its error."""
    name: str = ""
    """The error's name: `CUDA_ERROR_SYSTEM_NOT_READY`."""
    differs: bool = False
    """Whether what came back from the card's memory was not what went there."""
    in_use: str = ""
    """Why it was not tried, or not to the end: somebody has the card."""
    unavailable_reason: str = ""
    """Why nothing is known."""
    late: bool = False
    """Whether it is silent because a call did not return."""

    @property
    def works(self) -> bool:
        """Whether a context, its memory and both copies worked."""
        return not (self.call or self.differs or self.in_use or self.unavailable_reason)


@dataclass(frozen=True, slots=True)
class Toolkit:
    """The container toolkit on the host."""

    installed: bool
    version: str = ""
    runtime_handler: str = ""
    """The container runtime's handler that gives containers their cards: `nvidia`."""
    failed: tuple[str, ...] = ()
    """Of `version` and `runtime_handler`, what could not be seen, or not in the best place."""
    runtime: Mapping[str, str] = field(default_factory=dict)
    """What role `toolkit` found of the container runtime: its `runtime_kind`, `_state` and `_message`, where told."""


@dataclass(frozen=True, slots=True)
class System:
    """What the node is."""

    facts: SystemFacts
    failed: tuple[str, ...] = ()
    """Attributes of `controllers.api.system_facts` that could not be seen this time."""
