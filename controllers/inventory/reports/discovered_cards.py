"""Cards in the node agent's NodeFeature: their hardware, or what is missing or unreadable. Pure.

Attributes are strings that a program on a node wrote. Nothing in them is trusted to be there,
to be short, or to be what its name says; what cannot be read is told, never guessed, and
one bad card does not keep its neighbours out.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Literal

from controllers.api.gpudevice import ComputeCapability, Hardware, Mig, Pci, Precision
from controllers.api.names import CARDS_MAX
from controllers.api.validation import BOOT_ID, LOAD
from controllers.domain import precision
from controllers.domain.catalogue import VENDORS, model
from controllers.domain.pci import canonical
from controllers.inventory.reports import attributes, merged
from controllers.inventory.reports.attributes import SHOWN, AttributeReader

if TYPE_CHECKING:
    from collections.abc import Mapping

    from controllers.api.gpudevice import NvLink
    from controllers.api.nodefeature import NodeFeature

NVIDIA, OF_NVIDIA = "10de", "nvidia"


@dataclass(frozen=True, slots=True)
class DiscoveredCard:
    """One card of the agent's NodeFeature."""

    address: str
    hardware: Hardware | None
    """What can be read of it; None where not even its identifiers can."""
    missing: tuple[str, ...] = ()
    """Attributes that it should have and has not."""
    unreadable: tuple[str, ...] = ()
    """Attributes whose values cannot be read, as `key='value'`."""
    cause: str = ""
    """Why something is missing, where that can be told."""
    ambiguous: str = ""
    """Why the report is ambiguous about the card; empty where it is not."""

    def without_filled_gaps(self) -> DiscoveredCard:
        """The card without those `missing` attributes that another source has filled since."""
        hardware = self.hardware
        return replace(self, missing=tuple(key for key in self.missing if getattr(hardware, key, None) is None))

    @property
    def is_vendor_served(self) -> bool:
        """Whether a driver of ours can supply what is missing: for other vendors' cards none does."""
        return self.hardware is None or not self.missing or self.hardware.pci.vendor == NVIDIA

    @property
    def problem(self) -> str:
        """One sentence for people; empty for a complete card."""
        parts = [f"lacks {', '.join(self.missing)}"] if self.missing else []
        parts += [f"has {', '.join(self.unreadable)}, which cannot be read"] if self.unreadable else []
        if not parts:
            return self.ambiguous
        why = f", since {self.cause}" if self.missing and self.cause else ""
        return f"{self.address} {' and '.join(parts)}{why}"


@dataclass(frozen=True, slots=True)
class DiscoveredCards:
    """All cards of the agent's NodeFeature, read."""

    cards: tuple[DiscoveredCard, ...] = ()
    """Cards whose address is known, by address."""
    problems: tuple[str, ...] = ()
    """What is wrong and belongs to no card with an address."""
    is_complete: bool = True
    """Whether every card that was reported is in `cards`: only then a card that is not has vanished."""


def read(report: NodeFeature | None) -> DiscoveredCards | None:
    """Read an agent's report; None where it does not speak of cards, which is no claim that there are none."""
    instances = report.spec.features.instances.cards if report else None
    if report is None or instances is None:
        return None
    driver = report.spec.features.attributes.driver
    has_driver = bool(driver and driver.elements.get("version"))
    elements = [(canonical(e.attributes.get("address", "")), e.attributes) for e in instances.elements]
    # A virtual function is a part of a card, not a card.
    elements = [(address, a) for address, a in elements if a.get("sriov", "").strip().lower() != "vf"]
    times = Counter(address for address, _ in elements)
    named = sorted(address for address in times if address is not None)
    problems = [_nameless(times[None])] if times[None] else []
    if len(named) > CARDS_MAX:
        problems.append(f"{len(named)} cards are reported; the first {CARDS_MAX} by address are taken")
    asked, loading = merged.validator_attributes(report), merged.loading_attributes(report)
    first = {
        address: loading | merged.merge_attributes(a, asked.get(address))
        for address, a in reversed(elements)
        if address is not None
    }
    cards = tuple(_card(address, times[address], first[address], has_driver) for address in named[:CARDS_MAX])
    return DiscoveredCards(cards, tuple(problems), is_complete=not problems)


def _nameless(count: int) -> str:
    return (
        f"{count} reported card{'s have' if count > 1 else ' has'} no address that could be read, such as 0000:17:00.0"
    )


def _card(address: str, times: int, attributes: Mapping[str, str], has_driver: bool) -> DiscoveredCard:
    if times > 1:
        return DiscoveredCard(address, None, ambiguous=f"{address} is reported {times} times")
    reader = AttributeReader(attributes)
    pci = _pci(reader, address)
    bound = attributes.get("driver", "").strip()
    # Without a driver nobody can know more, and the node is not ready; other vendors' drivers are never asked.
    asked = has_driver or bound == OF_NVIDIA or (pci is not None and pci.vendor != NVIDIA)
    hardware = _hardware(reader, pci, asked) if pci else None
    because = _because(pci, bound) if pci else ""
    return DiscoveredCard(address, hardware, tuple(reader.missing), tuple(reader.unreadable), because)


def _because(pci: Pci, bound: str) -> str:
    vendor = VENDORS.get(pci.vendor)
    if vendor is not None and bound and bound not in vendor.modules:
        return f"it is bound to {bound[:SHOWN]}"
    return "" if pci.vendor == NVIDIA else "only NVIDIA's driver is asked"


def _pci(reader: AttributeReader, address: str) -> Pci | None:
    vendor = reader.get("vendor", attributes.hex4, required=True)
    device = reader.get("device", attributes.hex4, required=True)
    class_ = reader.get("class", attributes.display_class, required=True)
    if vendor is None or device is None or class_ is None:
        return None
    root = reader.get("pci_root", attributes.pci_root, strict=False)
    return Pci(vendor=vendor, device=device, class_=class_, address=address, root=root)


def _hardware(reader: AttributeReader, pci: Pci, asked: bool) -> Hardware:
    capability = _capability(reader)
    known = precision.formats(capability)
    return Hardware(
        uuid=reader.get("uuid", attributes.uuid, required=asked),
        product=reader.get("product", attributes.product, required=asked),
        memory_mib=reader.get("memory_mib", attributes.memory_mib, required=asked and not _shares_memory(pci)),
        numa_node=reader.get("numa_node", attributes.small_number, strict=False),
        pci=pci,
        compute_capability=capability,
        precision=Precision(supported=known) if known else None,
        mig=_mig(reader),
        nvlink=_nvlink(reader),
    )


def _nvlink(reader: AttributeReader) -> NvLink | None:
    counts = reader.get("nvlink_links", attributes.link_counts, strict=False) or ()
    return reader.get("nvlink_peers", partial(attributes.nvlink_peers, counts=counts), strict=False)


def _shares_memory(pci: Pci) -> bool:
    """Whether the card has no memory of its own: its driver then tells none."""
    known = model(pci.vendor, pci.device)
    return known is not None and known.shares_memory


def _capability(reader: AttributeReader) -> ComputeCapability | None:
    major = reader.get("compute_major", attributes.small_number)
    minor = reader.get("compute_minor", attributes.small_number, required=major is not None)
    return None if major is None or minor is None else ComputeCapability(major=major, minor=minor)


def _mig(reader: AttributeReader) -> Mig | None:
    capable = reader.get("mig_capable", attributes.boolean)
    if not capable:
        return None if capable is None else Mig()
    enabled = bool(reader.get("mig_mode", attributes.boolean, required=True))
    types = (reader.get("mig_instances", attributes.mig_instances) or ()) if enabled else ()
    strategy: Literal["none", "single", "mixed"] = "none" if not types else "single" if len(types) == 1 else "mixed"
    profiles = reader.get("mig_profiles", attributes.mig_profiles) or ()
    return Mig(
        capable=True,
        enabled=enabled,
        strategy=strategy,
        profiles_supported=profiles,
        types=types,
        boot_id=reader.get(BOOT_ID, attributes.word, strict=False),
        driver_load=reader.get(LOAD, attributes.word, strict=False),
    )
