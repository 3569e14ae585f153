"""What a simulated node is made of now: its shape, or what somebody described, less its faults. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from string import hexdigits
from types import MappingProxyType
from typing import TYPE_CHECKING

from controllers.domain.mig import DISABLED, CardLayout
from controllers.domain.pci import canonical
from sim.hardware import Card, Catalogue, Device, Shape, Software
from sim.nodes import faults, mig, names
from sim.nodes.driver import registry
from sim.nodes.faults import Faults
from sim.nodes.host import Host, host
from sim.nodes.modules import Loaded, loaded

if TYPE_CHECKING:
    from collections.abc import Mapping

    from controllers.api.kube import Node
    from sim.nodes.report import Report


OLD = {"driver": "390.157", "cuda": "9.1"}
"""What fault old-driver makes of the driver."""
XID = 79
"""The error of fault xid-after-10-s: the card has fallen off the bus."""
_UNKNOWN = {
    "vendor": "ffff",
    "device": "ffff",
    "class": "0302",
    "subsystem_vendor": "0000",
    "subsystem_device": "0000",
}


@dataclass(frozen=True, slots=True)
class Machine:
    """One node's hardware and software."""

    shape: Shape
    cards: tuple[Card, ...]
    software: Software | None
    """The driver and toolkit in use; None without cards or driver."""
    faults: Faults
    mig: Mapping[str, CardLayout] = field(default_factory=lambda: MappingProxyType({}))
    """How cards in MIG mode are divided, by address."""
    host: Host = field(default_factory=Host)
    modules: Loaded | None = None
    """The driver's modules that a container loaded, where the host is bare."""
    brought_toolkit: bool = False
    """Whether the module's own toolkit runs there."""

    def divided(self, address: str) -> CardLayout:
        """How a card is divided."""
        return self.mig.get(address, DISABLED)

    @property
    def devices(self) -> tuple[Device, ...]:
        """What is on the bus beside cards."""
        return self.shape.devices

    @property
    def driver(self) -> bool:
        """Whether the cards' driver is loaded."""
        there = not self.host.bare or self.modules is not None
        return self.software is not None and there and not self.faults.driver

    @property
    def toolkit(self) -> bool:
        """Whether the container toolkit is installed."""
        return self.software is not None and not self.faults.toolkit and (not self.host.bare or self.brought_toolkit)

    @property
    def source(self) -> str:
        """Whose driver is loaded or installed: host, container, or nobody's."""
        if self.modules is not None:
            return "container"
        return "" if self.host.bare or self.software is None else "host"

    @property
    def befalls(self) -> frozenset[str]:
        """What is wrong with the driver that a container loaded."""
        return self.faults.of_driver(self.modules.version) if self.modules is not None else frozenset()


def machine(node: Node, by_hand: Report | None, catalogue: Catalogue, *, toolkit: bool = False) -> Machine:
    """The machine under a node; a `gpu-<node>` made by hand replaces the shape's cards.

    `toolkit`: whether the module's own toolkit runs there. Raises UserError where the node names a shape or a system
    that the catalogue does not have.
    """
    annotations = node.metadata.annotations
    shape = catalogue.shape(annotations.get(names.SHAPE) or names.NO_GPU)
    wrong = faults.of(annotations)
    cards, software = shape.cards, shape.software
    if by_hand is not None:
        cards, software = described(by_hand), _told(by_hand.spec.driver)
    if software is not None and wrong.old_driver:
        software = software.model_copy(update=OLD)
    there = tuple(card for card in cards if card.address not in wrong.lost)
    ground = host(node, catalogue)
    found = loaded(node) if ground.bare else None
    if found is not None and software is not None:
        software = software.model_copy(update={"driver": found.version, "cuda": registry.cuda(found.version)})
        wrong = _with_driver(wrong, found, [card.address for card in there])
    return Machine(
        shape, there, software, wrong, MappingProxyType(mig.held(annotations)), ground, found, brought_toolkit=toolkit
    )


def _with_driver(wrong: Faults, modules: Loaded, cards: list[str]) -> Faults:
    """The faults of a node whose driver has some of its own."""
    kinds = wrong.of_driver(modules.version)
    if "card-lost" in kinds:
        wrong = replace(wrong, not_started=wrong.not_started | frozenset(cards[-1:]))
    if modules.xid and "xid-after-10-s" in kinds:
        first = cards[0]
        signs = {**wrong.signs, first: replace(wrong.signs.get(first, faults.WELL), xid=XID)}
        wrong = replace(wrong, signs=MappingProxyType(signs))
    return replace(wrong, fabric=True) if "fabric-mismatch" in kinds else wrong


def _told(version: str) -> Software | None:
    """The software of a report made by hand, by the version of the driver that it tells."""
    if not version:
        return None
    readable = all(part.isascii() and part.isdigit() for part in version.split(".")) and "." in version
    return Software(driver=version if readable else "0.0", cuda="0.0", toolkit="0.0.0")


def described(report: Report) -> tuple[Card, ...]:
    """The cards of a report, as far as they can be told apart: what NFD sees of them, and uuids.

    Spelled as people and tools spell them (capitals, 8-digit domains, `0x`), as the inventory reads them.
    """
    found: dict[str, Card] = {}
    for pairs in report.spec.cards:
        attributes = dict(pairs)
        address = canonical(attributes.get("address", ""))
        if address is None or attributes.get("sriov") == "vf":
            continue
        values = {key: _hex4(attributes.get(key, ""), unknown) for key, unknown in _UNKNOWN.items()}
        uuid = attributes.get("uuid", "")
        found[address] = Card.model_validate({**values, "uuid": uuid, "address": address})
    return tuple(found[address] for address in sorted(found))


def _hex4(text: str, unknown: str) -> str:
    digits = text.strip().lower().removeprefix("0x")[:4]
    return digits if len(digits) == len(unknown) and all(c in hexdigits for c in digits) else unknown
