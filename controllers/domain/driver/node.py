"""What of a node decides about its driver, cut out of what its agent and kubelet say. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from controllers.api import names
from controllers.domain.catalogue import model
from controllers.domain.catalogue.drivers import VENDOR
from controllers.domain.precision import CAPABILITIES

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from controllers.api.gpudevice import GPUDevice, Hardware
    from controllers.api.system_facts import SystemFacts

OPT_OUTS: Final = {
    names.DRIVER_OPT_OUT: "true",
    "nvidia.com/gpu-driver-upgrade.skip": "true",
}
"""Labels of people that leave a node's driver as it is: ours, and NVIDIA's for the same (k8s-operator-libs)."""


@dataclass(frozen=True, slots=True)
class Card:
    """A card of NVIDIA's as far as its driver is concerned; equal cards are of one kind."""

    device: str
    """PCI device id, such as 2330."""
    compute: tuple[int, int] | None = None
    """Compute capability: what a driver told, else the catalogue's; None for a card that nobody knows."""
    products: frozenset[str] = frozenset()
    """Its product in every spelling, in lower case; without a driver the catalogue's, which may be several."""

    @property
    def family(self) -> str | None:
        """Its family, such as hopper."""
        row = CAPABILITIES.get(self.compute) if self.compute else None
        return row[0] if row else None


@dataclass(frozen=True, slots=True)
class DriverNode:
    """A node, as a choice of its driver sees it."""

    kernel: str
    """Release of the running kernel, as kubelet tells it."""
    facts: SystemFacts | None
    """What its agent says of its system; None where it has said nothing since the node started."""
    cards: tuple[Card, ...]
    """NVIDIA's cards, without those that left."""
    labels: Mapping[str, str]
    """The Node's labels, of which an opt-out is one."""
    managed_elsewhere: str = ""
    """Who else manages the node's driver, in words; empty for nobody."""
    in_mig_mode: bool = False
    """Whether a card of it was in MIG mode when a driver last told (`in_mig_mode`)."""


def opted_out(labels: Mapping[str, str]) -> str | None:
    """The label by which a person leaves the node's driver as it is; None where there is none."""
    return next((key for key, value in OPT_OUTS.items() if labels.get(key) == value), None)


def cards_of(devices: Iterable[GPUDevice], *, with_lost: bool = False) -> tuple[Card, ...]:
    """The cards of one node that a driver has to serve: NVIDIA's, recorded with their hardware, and not lost.

    Each kind stands there as often as the node has it, in a steady order. `with_lost`: while a node is at work those
    count that are lost, too: a driver under which they went is not to be nobody's for that.
    """
    served = _served(devices, with_lost=with_lost)
    found = [_card(device.metadata.labels.get(names.LABEL_PRODUCT, ""), hardware) for device, hardware in served]
    return tuple(sorted(found, key=lambda card: (card.device, card.compute or (0, 0), sorted(card.products))))


def in_mig_mode(devices: Iterable[GPUDevice], *, with_lost: bool = False) -> bool:
    """Whether a card that a driver has to serve was in MIG mode when a driver last told.

    Without a driver nobody can ask a card. What its GPUDevice remembers counts then: of a card that has never had a
    driver that is nothing, and it counts as undivided. `with_lost`: as of `cards_of`.
    """
    served = _served(devices, with_lost=with_lost)
    return any(hardware.mig is not None and hardware.mig.enabled for _, hardware in served)


def _served(devices: Iterable[GPUDevice], *, with_lost: bool) -> Iterator[tuple[GPUDevice, Hardware]]:
    """The cards that a driver has to serve, with their hardware."""
    for device in devices:
        hardware = device.status.hardware
        there = device.status.lost_since is None or with_lost
        if hardware is not None and hardware.pci.vendor == VENDOR and there:
            yield device, hardware


def _card(label: str, hardware: Hardware) -> Card:
    known = model(hardware.pci.vendor, hardware.pci.device)
    told = hardware.compute_capability
    compute = (told.major, told.minor) if told else known.compute if known else None
    product = hardware.product or (known.product if known else "")
    return Card(hardware.pci.device, compute, frozenset({*product.lower().split(" or "), label.lower()} - {""}))
