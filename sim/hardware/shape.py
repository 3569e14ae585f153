"""Records of the catalogue: strict, so that a slip in a file is told and not simulated.

Ids and addresses are lower-case hexadecimal strings, as sysfs spells them.
"""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Iterator
from functools import cached_property
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

Hex4 = Annotated[str, Field(pattern="^[0-9a-f]{4}$")]
Address = Annotated[str, Field(pattern="^[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\\.[0-7]$")]
Profile = Annotated[str, Field(pattern=r"^[0-9]+g\.[0-9]+gb(\+me)?$")]
Quantity = Annotated[str, Field(pattern="^[0-9]+(Ki|Mi|Gi|Ti)?$")]

_UUIDS = uuid.UUID("6f1c9a3e-5b0d-4f57-9d0e-7c1b8a2f4d60")


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Identity(_Strict):
    """The ids by which PCI knows a device."""

    vendor: Hex4
    device: Hex4
    class_: Hex4 = Field(alias="class")
    subsystem_vendor: Hex4
    subsystem_device: Hex4


class Device(Identity):
    """One device that is no card: NVSwitch, network, storage, the host's display."""

    address: Address


class Card(Identity):
    """One GPU card of a node; `address` tells it from its neighbours.

    What only the driver knows may be absent: a card that somebody described by hand.
    """

    address: Address
    numa: int = 0
    product: str = ""
    memory_mib: int | None = Field(default=None, gt=0)
    compute_capability: str = ""
    mig_profiles: tuple[str, ...] = ()
    nvlink_peers: tuple[str, ...] = ()
    sriov_totalvfs: int = 0
    uuid: str = ""
    """The driver's name for it where somebody gave it one by hand; see `uuid_of`."""


class Numa(_Strict):
    """Cards at one NUMA node."""

    node: int = Field(ge=-1)
    addresses: tuple[Address, ...] = Field(min_length=1)


class CardGroup(Identity):
    """Equal cards."""

    product: str = Field(min_length=1)
    memory_mib: int = Field(gt=0)
    compute_capability: str = Field(pattern="^[0-9]+\\.[0-9]$")
    mig_profiles: tuple[Profile, ...] = ()
    nvlink: Literal["none", "all"] = "none"
    sriov_totalvfs: int = Field(default=0, ge=0)
    numa: tuple[Numa, ...] = Field(min_length=1)

    def cards(self) -> Iterator[Card]:
        """The single cards, by address."""
        everywhere = sorted((address, place.node) for place in self.numa for address in place.addresses)
        same = self.model_dump(by_alias=True, exclude={"numa", "nvlink"})
        for address, node in everywhere:
            peers = tuple(other for other, _ in everywhere if other != address) if self.nvlink == "all" else ()
            yield Card(**same, address=address, numa=node, nvlink_peers=peers)


class DeviceGroup(Identity):
    """Equal devices."""

    addresses: tuple[Address, ...] = Field(min_length=1)


class Software(_Strict):
    """What the administrator installed for the cards."""

    driver: str = Field(pattern="^[0-9]+(\\.[0-9]+)+$")
    cuda: str = Field(pattern="^[0-9]+\\.[0-9]+$")
    toolkit: str = Field(pattern="^[0-9]+\\.[0-9]+\\.[0-9]+$")


class Shape(_Strict):
    """A machine of the catalogue."""

    name: str
    description: str = Field(min_length=1)
    cpu: int = Field(gt=0)
    memory: Quantity
    host: str
    software: Software | None = None
    groups: tuple[CardGroup, ...] = Field(default=(), alias="cards")
    other: tuple[DeviceGroup, ...] = Field(default=(), alias="devices")

    @model_validator(mode="after")
    def _consistent(self) -> Shape:
        seats = Counter([c.address for c in self.cards] + [d.address for d in self.devices])
        if twice := sorted(address for address, count in seats.items() if count > 1):
            raise ValueError(f"two devices have the PCI address {', '.join(twice)}")
        if self.groups and self.software is None:
            raise ValueError("a machine with cards needs [software]: driver, cuda and toolkit")
        return self

    @cached_property
    def cards(self) -> tuple[Card, ...]:
        """All cards, by address."""
        return tuple(sorted((c for group in self.groups for c in group.cards()), key=lambda c: c.address))

    @cached_property
    def devices(self) -> tuple[Device, ...]:
        """All other devices, by address."""
        made = (
            Device(**group.model_dump(by_alias=True, exclude={"addresses"}), address=address)
            for group in self.other
            for address in group.addresses
        )
        return tuple(sorted(made, key=lambda d: d.address))


def card_uuid(node: str, address: str) -> str:
    """The driver's name for the card in that slot of that node; the same in every run."""
    return f"GPU-{uuid.uuid5(_UUIDS, f'{node}/{address}')}"


def uuid_of(node: str, card: Card) -> str:
    """The driver's name for a card of a node."""
    return card.uuid or card_uuid(node, card.address)


def iommu_group(address: str) -> str:
    """The IOMMU group of a function: one for each bus, so that a card can be passed on alone."""
    return str(int(address.split(":")[-2], 16))
