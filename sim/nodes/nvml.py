"""What NVML tells of a simulated card, to whoever can ask it there. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from uuid import NAMESPACE_OID, uuid5

from nodeagent.host.facts.records import COMPLETED, IN_PROGRESS, Driver, DriverCard, MigDevice
from sim.hardware.shape import uuid_of
from sim.nodes.bus import NVIDIA
from sim.nvml.config import link_counts

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from sim.hardware import Card, Device, Software
    from sim.nodes.machine import Machine

BRIDGE: Final = "0680"
"""The PCI class of an NVSwitch."""
TELLS_OF_FABRIC: Final = (9, 0)
"""Compute capability from which NVML tells of a card's registration with the fabric."""


def driver(node: str, machine: Machine, software: Software) -> Driver:
    """The driver with all cards."""
    return Driver(software.driver, software.cuda, {card.address: answer(node, card, machine) for card in machine.cards})


def answer(node: str, card: Card, machine: Machine) -> DriverCard:
    """Everything; nothing of a card that somebody described by hand, of which nobody knows it."""
    if not card.product:
        return DriverCard(card.address, persistence=True)
    major, _, minor = card.compute_capability.partition(".")
    compute = int(major), int(minor)
    told = has_switches(machine.devices) and compute >= TELLS_OF_FABRIC
    divided = machine.divided(card.address)
    # A card in MIG mode has no links, and is at the end of none.
    linked = {other.address for other in machine.cards if not machine.divided(other.address).enabled}
    counts = link_counts(card, sum(map(_is_switch, machine.devices))) if card.address in linked else {}
    peers = {peer: count for peer, count in counts.items() if peer in linked}
    return DriverCard(
        card.address,
        uuid_of(node, card),
        card.product,
        card.memory_mib,
        compute=compute,
        mig_capable=bool(card.mig_profiles),
        mig_enabled=divided.enabled,
        mig_profiles=card.mig_profiles,
        mig_instances=dict(sorted(divided.instances.items())),
        mig_devices=_mig_devices(uuid_of(node, card), divided.instances) if divided.enabled else (),
        nvlink_peers=tuple(peers),
        nvlink_links=tuple(peers.values()),
        persistence=True,
        fabric=(IN_PROGRESS if machine.faults.fabric else COMPLETED) if told else "",
    )


def _mig_devices(uuid: str, instances: Mapping[str, int]) -> tuple[MigDevice, ...]:
    """One MIG device for each instance; the same in every run."""
    profiles = sorted(profile for profile, count in instances.items() for _ in range(count))
    return tuple(
        MigDevice(f"MIG-{uuid5(NAMESPACE_OID, f'{uuid}/{profile}/{number}')}", profile, number, 0)
        for number, profile in enumerate(profiles, start=1)
    )


def has_switches(devices: Iterable[Device]) -> bool:
    """Whether a machine has NVSwitches among what is on its bus beside cards."""
    return any(map(_is_switch, devices))


def _is_switch(device: Device) -> bool:
    return (device.vendor, device.class_) == (NVIDIA, BRIDGE)
