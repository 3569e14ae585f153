"""Records of the catalogue. Ids are four lower-case hexadecimal digits, as sysfs spells them without `0x`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class Vendor:
    """A maker of cards."""

    id: str
    """PCI vendor id: 10de."""
    name: str
    """nvidia, amd, intel."""
    classes: tuple[str, ...]
    """PCI classes of cards, each class and subclass: 0302."""
    modules: tuple[str, ...]
    """Kernel modules of the driver; the first is the one without which there is none."""
    integrated: frozenset[str]
    """Device ids of displays that are part of a processor or a management controller, and no cards."""
    devices: frozenset[str] = frozenset()
    """The only device ids that are cards, where nearly every display is part of a processor; else empty."""

    def makes(self, device: str) -> bool:
        """Whether a display of that device id is a card."""
        return device not in self.integrated and (not self.devices or device in self.devices)

    @property
    def has_displays(self) -> bool:
        """Whether its driver serves displays that are no cards too."""
        return bool(self.integrated or self.devices)


@dataclass(frozen=True, slots=True)
class Profile:
    """One MIG profile of a geometry."""

    name: str
    """As the driver spells it: `1g.10gb+me`."""
    compute_slices: int
    memory_slices: int
    """Memory slices that an instance takes: the size of its placement."""
    memory_mib: int | None
    """What a driver gave such an instance; None where nobody has published it."""
    instances: int
    """How many of them one GPU holds."""
    starts: tuple[int, ...]
    """The memory slices where an instance may begin."""
    media: bool
    """Whether it takes the GPU's media extensions, of which there is one set."""


@dataclass(frozen=True, slots=True)
class Geometry:
    """How a GPU can be cut."""

    name: str
    compute_slices: int
    memory_slices: int
    profiles: Mapping[str, Profile]
    """By name."""
    source: str


@dataclass(frozen=True, slots=True)
class Model:
    """A card model."""

    vendor: str
    device: str
    product: str
    """As the driver spells it; several, joined by ` or `, where only the subsystem tells them apart."""
    memory_mib: int | None
    """Nominal: the published GB times 1024. The driver reports up to 8 % less. None where it is not known or shared."""
    compute: tuple[int, int] | None
    """CUDA compute capability: major, minor."""
    geometry: str | None
    """Name of the MIG geometry; None without MIG, and where its profiles are not published."""
    mig_needs_reset: bool | None
    """Whether entering MIG mode resets the GPU; None without MIG and where nobody says."""
    source: str
    shares_memory: bool = False
    """Whether its memory is the processor's, so that its driver tells none of its own."""
