"""What the kernel shows of a simulated machine, as the node agent's facts: the PCI bus and the driver's /proc. Pure.

Programs of a node decide by these, and are not told which of the functions are cards.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from nodeagent.host.facts.records import Bus, Driver, DriverCard, PciFunction
from sim.hardware.shape import iommu_group, uuid_of

if TYPE_CHECKING:
    from sim.hardware import Card, Software
    from sim.hardware.shape import Identity
    from sim.nodes.machine import Machine

NVIDIA: Final = "10de"
MODULE: Final = "nvidia"
"""The kernel driver to which cards are bound once it is loaded."""


def bus(machine: Machine) -> Bus:
    """Everything that is on it."""
    driver = MODULE if machine.driver else ""
    others = (_function(device, device.address) for device in machine.devices)
    return Bus((*(_card(card, driver) for card in machine.cards), *others))


def by_procfs(node: str, machine: Machine, software: Software) -> Driver:
    """The loaded driver as /proc tells of it."""
    cards = {card.address: DriverCard(card.address, uuid_of(node, card), card.product) for card in machine.cards}
    return Driver(software.driver, cards=cards, source="procfs")


def _card(card: Card, driver: str) -> PciFunction:
    return _function(
        card,
        card.address,
        driver=driver if card.vendor == NVIDIA else "",
        numa=card.numa if card.numa >= 0 else None,
        virtual=card.sriov_totalvfs,
    )


def _function(
    found: Identity, address: str, *, driver: str = "", numa: int | None = None, virtual: int = 0
) -> PciFunction:
    return PciFunction(
        address,
        found.vendor,
        found.device,
        f"{found.class_}00",
        found.subsystem_vendor,
        found.subsystem_device,
        numa,
        iommu_group=iommu_group(address),
        driver=driver,
        root=address.rpartition(":")[0],
        virtual_functions=virtual,
    )
