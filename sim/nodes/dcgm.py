"""DCGM exporter's text of a simulated node, in the form and size of real ones. Pure.

The fields are those that the module's own list asks the exporter for (controllers/components/pods/collectors.csv). Most
of a text never changes, so it is made once as a template (8 cards: some milliseconds, 80 kB); a scrape
fills in a few numbers.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from controllers.components.pods import collectors
from sim.hardware.shape import uuid_of
from sim.nodes.faults import WELL
from sim.nodes.fields import VALUES, Shown
from sim.nodes.gfd import NVIDIA

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sim.hardware import Card
    from sim.nodes.fields import Field, Number
    from sim.nodes.machine import Machine
    from sim.nodes.podresources import User

PREFIX: Final = "DCGM_FI_"
ASKED: Final = tuple(
    (name.strip(), kind.strip(), title.strip())
    for name, kind, title in csv.reader(line for line in collectors.TEXT.splitlines() if line[:1] not in ("", "#"))
    if kind.strip() != "label"
)
"""Field, type and help of all that is asked for."""


@dataclass(frozen=True, slots=True)
class Text:
    """The text of one node, but for what wavers."""

    template: bytes
    numbers: tuple[tuple[Number, int], ...]

    def at(self, count: int) -> bytes:
        """The text of the scrape with that number."""
        return self.template % tuple(number(index, count) for number, index in self.numbers)


def text(node: str, machine: Machine, users: Mapping[str, User] = MappingProxyType({})) -> Text:
    """What the exporter says of a node's cards; nothing where no driver tells it. `users`: by the cards' addresses."""
    software = machine.software
    if software is None or not machine.driver:
        return Text(b"", ())
    seen = [card for card in machine.cards if card.vendor == NVIDIA]
    cards = [
        Shown(
            index,
            card,
            _labels(node, index, card, software.driver, users.get(card.address)),
            machine.faults.signs.get(card.address, WELL),
        )
        for index, card in enumerate(seen)
    ]
    lines: list[str] = []
    numbers: list[tuple[Number, int]] = []
    for name, kind, title in ASKED:
        field = VALUES.get(name.removeprefix(PREFIX))
        if field is not None and (having := [card for card in cards if field.has(card)]):
            lines.append(f"# HELP {name} {title}\n# TYPE {name} {kind}\n".replace("%", "%%"))
            lines += [_line(name, field, card, numbers) for card in having]
    return Text("".join(lines).encode(), tuple(numbers))


def _line(name: str, field: Field, shown: Shown, numbers: list[tuple[Number, int]]) -> str:
    """One sample; what wavers in it is added to `numbers`."""
    value = field.value(shown)
    if not isinstance(value, str):
        value, number = value
        numbers.append((number, shown.index))
    return f"{name}{{{shown.labels}}} {value}\n"


def _labels(node: str, index: int, card: Card, driver: str, user: User | None) -> str:
    """As exporter 4.x writes them: those of a pod that has the card come last, in the order of their names."""
    domain, _, rest = card.address.partition(":")
    pairs = {
        "gpu": str(index),
        "UUID": uuid_of(node, card),
        "pci_bus_id": f"{domain.rjust(8, '0')}:{rest.upper()}",
        "device": f"nvidia{index}",
        "modelName": card.product,
        "Hostname": node,
        "DCGM_FI_DRIVER_VERSION": driver,
    }
    if user is not None:
        pairs |= {"container": user.container, "namespace": user.namespace, "pod": user.pod}
    return ",".join(f'{key}="{_escaped(value)}"' for key, value in pairs.items())


def _escaped(value: str) -> str:
    """As the text format wants it, and so that the template leaves it alone."""
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("%", "%%")
