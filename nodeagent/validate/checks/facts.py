"""The facts that one scan of the node found, as the checks read them. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from nodeagent.host.driverroot import DriverRoot
from nodeagent.host.facts.cards import is_one

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nodeagent.host.facts.records import Bus, CudaAnswer, Driver, PciFunction

NVIDIA, MODULE, NOUVEAU = "10de", "nvidia", "nouveau"
ML, CUDA = "libnvidia-ml.so", "libcuda.so"
LIBRARIES = (ML, CUDA)


@dataclass(frozen=True, slots=True)
class Taken:
    """What the driver says of a card that it has taken (`/proc/driver/nvidia/gpus/<address>/information`)."""

    minor: int | None = None
    """N of `/dev/nvidiaN`."""
    excluded: bool = False
    """Whether the driver was told to leave the card out."""


@dataclass(frozen=True, slots=True)
class Library:
    """One of the driver's libraries in one file system."""

    versions: tuple[str, ...] = ()
    """Of the files `<name>.<version>` that are there."""
    linked: str = ""
    """The version that `<name>.1` leads to; empty where that cannot be told."""


@dataclass(frozen=True, slots=True)
class Node:
    """A file in `/dev`; numbers are None where it is no character device, as on a simulated machine."""

    major: int | None = None
    minor: int | None = None


@dataclass(frozen=True, slots=True)
class Specification:
    """The host's CDI specifications for `nvidia.com/gpu`, together."""

    files: tuple[str, ...] = ()
    broken: tuple[str, ...] = ()
    """Files that cannot be read, or are no specification."""
    minors: frozenset[int] = frozenset()
    """N of every `/dev/nvidiaN` that a device of them brings."""
    versions: frozenset[str] = frozenset()
    """Of the driver's libraries that they mount."""
    access: frozenset[int] | None = None
    """N of every `/dev/nvidia-caps/nvidia-capN` of the specification for containers that get everything; None where the
    host has none, as where the runtime makes it in memory."""


@dataclass(frozen=True, slots=True)
class Facts:
    """One look. None always means: it cannot be seen from here."""

    bus: Bus | None = None
    nouveau: bool = False
    """Whether that module is loaded."""
    module: Driver | None = None
    """The loaded kernel module by procfs; None is a fact here: it is not loaded."""
    form: str = ""
    taken: Mapping[str, Taken] | None = field(default_factory=dict)
    """By address; None where `/proc/driver/nvidia` is a copy from an earlier driver."""
    majors: Mapping[str, int] | None = None
    root: DriverRoot = field(default_factory=DriverRoot)
    """Where the driver lies; in a container its own."""
    sought: str = "/run/nvidia/driver"
    """Where a driver in a container would have its root."""
    holds: bool = False
    """Whether the container that brings the driver does nothing, since its predecessor's modules are in use."""
    libraries: Mapping[str, Library] | None = None
    """Of that root."""
    nodes: Mapping[str, Node] | None = None
    """By path below `/dev`."""
    firmware: bool | None = None
    """Whether the firmware of the loaded version is on the host."""
    driver: Driver | None = None
    """What NVML says."""
    unavailable_reason: str = ""
    """Why it said less than all."""
    pending: bool = False
    cuda: Mapping[str, CudaAnswer] | None = None
    """What came of trying CUDA on the cards, by address; None where it is not tried at all."""
    tried: tuple[str, ...] = ()
    """Addresses of the cards on which CUDA can be tried; one that is not in `cuda` has not answered yet."""
    cuda_marks: str = ""
    """What to note of the cards on which it worked."""
    fabric_due: bool = False
    """Whether NVLink's fabric has had the time that it may take to come up."""
    specification: Specification | None = None
    layout: tuple[str, ...] = ()
    """The MIG instances that have a file in `/proc/driver/nvidia/capabilities`."""
    access: frozenset[int] | None = None
    """Minors of the device nodes that give access to the MIG instances; None where a copy alone is to be seen."""
    caps: frozenset[int] = frozenset()
    """Those of them that are in this container's `/dev`."""
    by_cdi: bool = False
    """Whether this container's edits came from a CDI specification (NVIDIA_VISIBLE_DEVICES=void)."""
    handler: str | None = None
    """The runtime's handler in the host's configuration; empty where there is none."""
    boot_id: str = ""

    @property
    def cards(self) -> tuple[PciFunction, ...]:
        """NVIDIA's cards on the bus, whoever holds them."""
        functions = self.bus.functions if self.bus is not None else ()
        return tuple(function for function in functions if function.vendor == NVIDIA and is_one(function))

    @property
    def held(self) -> tuple[str, ...]:
        """Addresses of the cards that NVIDIA's driver is to serve."""
        return tuple(card.address for card in self.cards if self._is_held(card) and not self._is_excluded(card.address))

    @property
    def version(self) -> str:
        """Of the loaded module; empty where it is not loaded or does not say."""
        return self.module.version if self.module is not None else ""

    def _is_held(self, card: PciFunction) -> bool:
        return card.driver == MODULE or ("driver" in card.unreadable and card.address in (self.taken or {}))

    def _is_excluded(self, address: str) -> bool:
        told = (self.taken or {}).get(address)
        return told is not None and told.excluded
