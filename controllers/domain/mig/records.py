"""What the MIG layout of a node is made from. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from controllers.domain.catalogue import VENDORS, canonical_profile, vendor_id

if TYPE_CHECKING:
    from collections.abc import Mapping

    from controllers.api.gpudevice import GPUDevice, Mig

NVIDIA = vendor_id("nvidia")
"""The only vendor whose cards have MIG."""


@dataclass(frozen=True, slots=True)
class CardLayout:
    """How a card is divided."""

    enabled: bool
    """Whether MIG mode is on."""
    instances: Mapping[str, int] = field(default_factory=dict)
    """How many instances of each profile, in the driver's spelling; none where there are none."""


DISABLED = CardLayout(enabled=False)
"""A card that is not divided."""


@dataclass(frozen=True, slots=True)
class Division:
    """How a pool wants each of its cards divided: by one profile, or by a mixed layout."""

    profile: str = ""
    """The profile of which there are to be as many as fit, in any spelling."""
    instances: tuple[tuple[str, int], ...] = ()
    """A mixed layout: profiles in the driver's spelling, sorted, each with how many there are to be."""

    def __str__(self) -> str:
        """As a message spells it: `1g.10gb`, or `2 × 1g.10gb + 1 × 3g.40gb`."""
        return " + ".join(f"{count} × {name}" for name, count in self.instances) or self.profile


@dataclass(frozen=True, slots=True)
class MigCard:
    """One card of a node, in a MIG pool or not: those that are not count for the indexes of the others."""

    address: str
    """PCI address as sysfs spells it: 0000:17:00.0."""
    vendor: str
    """PCI vendor id: 10de."""
    device: str
    """PCI device id: 2330."""
    uuid: str | None = None
    """The driver's name for it."""
    capable: bool | None = None
    """Whether the driver says that it can do MIG; None where no driver was asked."""
    offered: tuple[str, ...] = ()
    """Profiles that the driver offers, in its spelling; empty where it was not asked."""
    actual: CardLayout | None = None
    """How it is divided now; None where nobody has told."""
    division: Division | None = None
    """What its pool asks of it; None for a card in no MIG pool."""
    ours: bool = False
    """Whether it was we who turned MIG mode on: only then is it turned off when the card leaves its pool."""
    served: bool = True
    """Whether the driver serves it now, so that NVML counts it: one that is lost or passed through is not."""

    @property
    def nvidia(self) -> bool:
        """Whether it is a card of the vendor that has MIG."""
        return self.vendor == NVIDIA


def card_of(
    device: GPUDevice, *, division: Division | None = None, ours: bool = False, served: bool = True
) -> MigCard | None:
    """The record of a GPUDevice; None for one whose hardware is not known yet."""
    hardware = device.status.hardware
    if hardware is None:
        return None
    mig, pci = hardware.mig, hardware.pci
    return MigCard(
        address=pci.address,
        vendor=pci.vendor,
        device=pci.device,
        uuid=hardware.uuid,
        capable=mig.capable if mig else None,
        offered=mig.profiles_supported if mig else (),
        actual=_actual(mig) if mig else None,
        division=division,
        ours=ours,
        served=served,
    )


def _actual(mig: Mig) -> CardLayout:
    if not mig.enabled:
        return DISABLED
    # A compute instance's name is no profile of the card and stays as it is: the layout is then another one.
    return CardLayout(True, {canonical_profile(kind.name) or kind.name: kind.count for kind in mig.types if kind.count})


def describe(card: MigCard, product: str | None) -> str:
    """How a message names the card."""
    vendor = VENDORS[card.vendor].name if card.vendor in VENDORS else card.vendor
    return f"card {card.address} ({product or f'{vendor} {card.device}'})"
