"""GPU feature discovery's node labels, as a second source for a card's memory and compute capability. Pure.

GFD labels nodes, not cards: one product, one memory size, one compute capability, whatever
there is in the node. They fill in the memory and the compute capability that the agent could not
ask the driver, and only where they can be true of each card: all NVIDIA cards of the node are of one
model, as many as GFD counted, and of the product that it names. Under MIG strategy `single`
product and memory are those of an instance, and `gpu.count` counts instances: then they say nothing.
Labels as NVIDIA's k8s-device-plugin documents them (docs/gpu-feature-discovery).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from controllers.api.gpudevice import ComputeCapability, Precision
from controllers.api.names import GFD_PREFIX
from controllers.domain import precision
from controllers.inventory.identity import label_value
from controllers.inventory.reports.discovered_cards import NVIDIA, DiscoveredCard

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
# What GFD appends to the product: sharing by time or MPS, and the profile of the only kind of MIG instance.
SHARED = "-SHARED"
INSTANCE = re.compile(r"-MIG-[0-9]+g\.[0-9]+gb.*")


@dataclass(frozen=True, slots=True)
class Labels:
    """GFD's labels of a node, as far as they tell of whole cards."""

    count: int | None = None
    product: str | None = None
    memory_mib: int | None = None
    capability: ComputeCapability | None = None


def read(labels: Mapping[str, str]) -> Labels:
    """Read a node's labels; what is absent, odd, or speaks of MIG instances is None."""

    def number(name: str, digits: int) -> int | None:
        text = labels.get(f"{GFD_PREFIX}gpu.{name}", "")
        return int(text) if re.fullmatch(f"[0-9]{{1,{digits}}}", text) else None

    product = labels.get(f"{GFD_PREFIX}gpu.product", "").removesuffix(SHARED)
    major, minor = number("compute.major", 2), number("compute.minor", 2)
    capability = None if major is None or minor is None else ComputeCapability(major=major, minor=minor)
    if INSTANCE.search(product):
        return Labels()
    return Labels(number("count", 3), product or None, number("memory", 7) or None, capability)


def complete(cards: Sequence[DiscoveredCard], labels: Mapping[str, str]) -> tuple[DiscoveredCard, ...]:
    """The cards of a report, with what GFD knows where the report is silent.

    Its features file outlives a reboot and an exchange of cards: the product that the driver
    told the agent must be the one that GFD speaks of.
    """
    found = read(labels)
    hardware = [card.hardware for card in cards if card.hardware is not None and card.hardware.pci.vendor == NVIDIA]
    alike = len({one.pci.device for one in hardware}) == 1 and all(card.hardware is not None for card in cards)
    products = {label_value(one.product or "") for one in hardware}
    if not alike or products != {found.product} or found.count != len(hardware):
        return tuple(cards)
    return tuple(_filled(card, found) for card in cards)


def _filled(card: DiscoveredCard, found: Labels) -> DiscoveredCard:
    hardware = card.hardware
    if hardware is None or hardware.pci.vendor != NVIDIA:
        return card
    capability = hardware.compute_capability or found.capability
    formats = precision.formats(capability)
    filled = replace(
        hardware,
        memory_mib=hardware.memory_mib or found.memory_mib,
        compute_capability=capability,
        precision=Precision(supported=formats) if formats else None,
    )
    return replace(card, hardware=filled).without_filled_gaps()
