"""The library's configuration file: a simulated machine in the driver's words, and faults put into it."""

from __future__ import annotations

import os
import tempfile
import tomllib
import uuid
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sim.hardware.shape import card_uuid
from sim.nvml.profiles import COMPUTE_PROFILES, profiles
from tools.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from sim.hardware import Card, Device, Shape

VARIABLE = "FAKE_NVML_CONFIG"
"""The environment variable by which the library finds its file."""
_BRIDGE_CLASS = "0680"


@dataclass(frozen=True, slots=True)
class Config:
    """Lines of the system, and lines of each card by its PCI address; a changed copy is another machine."""

    system: tuple[str, ...] = ()
    cards: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @classmethod
    def of(cls, shape: Shape, node: str = "node") -> Config:
        """The cards of a shape as the driver of that node tells them; a shape without software has no driver."""
        software = shape.software
        if software is None:
            return cls(("driver_not_loaded",), {})
        system = (f"driver_version {software.driver}", f"cuda_version {software.cuda}")
        switches = [d for d in shape.devices if d.vendor == "10de" and d.class_ == _BRIDGE_CLASS]
        return cls(
            system,
            {
                card.address: tuple(_card(node, minor, card, shape.cards, switches))
                for minor, card in enumerate(shape.cards)
            },
        )

    def also(self, *lines: str) -> Config:
        """With further lines of the system: `driver_not_loaded`, `hang nvmlInit 5`."""
        return replace(self, system=(*self.system, *lines))

    def card(self, address: str, *lines: str) -> Config:
        """With further lines of one card, of which a later one wins: `lost`, `xid 79`, `temperature 95`."""
        if address not in self.cards:
            raise UserError(f"no card {address!r}", expected=f"one of {', '.join(self.cards)}")
        return replace(self, cards={**self.cards, address: (*self.cards[address], *lines)})

    def without(self, address: str) -> Config:
        """With that card pulled out."""
        return replace(self, cards={key: lines for key, lines in self.cards.items() if key != address})

    def partitioned(self, address: str, *instances: tuple[str, int]) -> Config:
        """With that card in MIG mode, holding GPU instances (profile, start) with one compute instance each."""
        offered = dict(_offered(self.cards[address]))
        lines = ["mig_mode enabled"]
        for number, (name, start) in enumerate(instances, start=1):
            if name not in offered:
                raise UserError(f"no MIG profile {name!r}", expected=f"one of {', '.join(offered)}")
            compute = COMPUTE_PROFILES[int(offered[name]["slices"])]
            mig = uuid.uuid5(uuid.NAMESPACE_OID, f"{self.cards[address]}/{name}/{start}")
            lines += [
                f"gpu_instance id={number} profile={offered[name]['id']} start={start}",
                f"compute_instance gpu_instance={number} id=0 profile={compute} uuid=MIG-{mig}",
            ]
        return self.card(address, *lines)

    def text(self) -> str:
        """The file."""
        parts = [*self.system]
        for address, lines in self.cards.items():
            parts += ["", "[card]", f"address {address}", *lines]
        return "\n".join(parts) + "\n"

    def write(self, path: Path) -> Path:
        """Put the file in place by one rename: a client that reads now sees the old machine or the new, whole."""
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")
        with os.fdopen(handle, "w") as file:
            file.write(self.text())
        Path(temporary).rename(path)
        return path


def environment(library: Path, config: Path) -> dict[str, str]:
    """What a program needs in its environment to load the library and find its file."""
    return {"LD_LIBRARY_PATH": str(library.parent), VARIABLE: str(config)}


def _card(node: str, minor: int, card: Card, cards: tuple[Card, ...], switches: list[Device]) -> Iterator[str]:
    known = dict(_products().get(card.device, {}))
    links = known.pop("links", 0)
    yield f"uuid {card_uuid(node, card.address)}"
    yield f"minor {minor}"
    for key in ("vendor", "device", "class", "subsystem_vendor", "subsystem_device"):
        yield f"{key} {getattr(card, 'class_' if key == 'class' else key)}"
    if card.product:
        yield f"name {card.product}"
    if card.memory_mib:
        yield f"memory_mib {card.memory_mib}"
    if card.compute_capability:
        yield f"compute {card.compute_capability}"
    yield "ecc_mode enabled"
    for key, value in known.items():
        yield f"{key} {value}"
    if card.mig_profiles:
        yield "mig_mode disabled"
        yield from (profile.line() for profile in profiles(card))
    yield from _links(card, cards, switches, links)


def link_counts(card: Card, switches: int) -> dict[str, int]:
    """How many NVLinks of a card go to each peer, by address: over switches all of them to each."""
    peers = card.nvlink_peers
    links = max(_products().get(card.device, {}).get("links", 0), switches or len(peers))
    return (
        dict.fromkeys(peers, links)
        if switches
        else {peer: len(range(at, links, len(peers))) for at, peer in enumerate(peers)}
    )


def _links(card: Card, cards: tuple[Card, ...], switches: list[Device], count: int) -> Iterator[str]:
    """The NVLinks of a card: to switches where the machine has them, else to the peers themselves."""
    if not card.nvlink_peers:
        return
    by_address = {c.address: c for c in cards}
    ends: list[Card | Device] = [*switches] or [by_address[peer] for peer in card.nvlink_peers]
    kind = "switch" if switches else "gpu"
    for link in range(max(count, len(ends))):
        end = ends[link % len(ends)]
        yield f"nvlink link={link} state=up type={kind} address={end.address} pci_id={end.device}{end.vendor}"


def _offered(lines: tuple[str, ...]) -> Iterator[tuple[str, dict[str, str]]]:
    """The profiles of a card's lines, by name."""
    for line in lines:
        if line.startswith("mig_profile "):
            _, name, *values = line.split()
            yield name, dict(value.split("=", 1) for value in values)


@cache
def _products() -> dict[str, Any]:
    return tomllib.loads((Path(__file__).parent / "products.toml").read_text())
