"""What NVML tells of a simulated card, to whoever can ask it there. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nodeagent.host.facts import DriverCard
from sim.hardware.shape import uuid_of

if TYPE_CHECKING:
    from sim.hardware import Card
    from sim.nodes.machine import Machine


def answer(node: str, card: Card, machine: Machine) -> DriverCard:
    """Everything; nothing of a card that somebody described by hand, of which nobody knows it."""
    if not card.product:
        return DriverCard(card.address, persistence=True)
    major, _, minor = card.compute_capability.partition(".")
    divided = machine.divided(card.address)
    # A card in MIG mode has no links, and is at the end of none.
    linked = {other.address for other in machine.cards if not machine.divided(other.address).enabled}
    return DriverCard(
        card.address,
        uuid_of(node, card),
        card.product,
        card.memory_mib,
        compute=(int(major), int(minor)),
        mig_capable=bool(card.mig_profiles),
        mig_enabled=divided.enabled,
        mig_profiles=card.mig_profiles,
        mig_instances=dict(sorted(divided.instances.items())),
        nvlink_peers=tuple(peer for peer in card.nvlink_peers if {peer, card.address} <= linked),
        persistence=True,
    )
