"""What a dump tells of a node, no more: the form into which every reader of a dump brings it, and its JSON.

A field that a dump does not contain stays empty here; nothing is filled in from elsewhere. Where
sysfs or NVML would always tell what an old tool did not print (`pci.class`), the golden table may
give it by hand, in sight of the reader: see `tests.golden.given`.
"""

from __future__ import annotations

import re
from dataclasses import MISSING, dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class Card:
    """One PCI function, or one card that only a driver's tool lists."""

    address: str = ""
    """As sysfs spells it."""
    vendor: str = ""
    device: str = ""
    class_: str = ""
    """Four digits or six."""
    subsystem_vendor: str = ""
    subsystem_device: str = ""
    numa_node: int | None = None
    bound: str = ""
    """Kernel driver."""
    virtual_functions: int = 0
    by_driver: bool = False
    """Whether the driver knows the card; without it, what follows is empty."""
    uuid: str = ""
    product: str = ""
    memory_mib: int | None = None
    compute: tuple[int, int] | None = None
    mig_capable: bool | None = None
    mig_enabled: bool | None = None
    mig_instances: Mapping[str, int] = field(default_factory=dict)
    nvlink_peers: tuple[str, ...] = ()

    @property
    def on_the_bus(self) -> bool:
        """Whether the dump tells enough for sysfs to be played."""
        return bool(self.address and self.vendor and self.class_)


@dataclass(frozen=True, slots=True)
class Told:
    """One node as a dump tells it."""

    dump: str = ""
    """The dump's path; the data's files do not repeat it."""
    name: str = ""
    """Which node of the dump; empty where it speaks of one."""
    times: int = 1
    """How many nodes of the dump are alike."""
    cards: tuple[Card, ...] | None = None
    """Functions and cards, in the dump's order; None where the dump does not speak of single cards."""
    driver: str | None = None
    """The driver's version; None where the dump names none."""
    cuda: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    """The Node's labels."""
    status: Mapping[str, Any] | None = None
    """The Node's conditions and nodeInfo, where the dump is a Node."""
    reports: tuple[Mapping[str, Any], ...] = ()
    """NodeFeatures of others."""

    @property
    def node_name(self) -> str:
        """A name for the node in a cluster of all dumps; NFD puts it into a label's value, hence 63 characters."""
        stem = self.dump.rsplit("/", 1)[-1].rsplit(".", 1)[0]
        return re.sub("[^a-z0-9]+", "-", f"{stem} {self.name}".lower()).strip("-")[:63].rstrip("-")


def to_json(one: Card | Told) -> dict[str, Any]:
    """The fields that are told."""
    found = {}
    for each in fields(one):
        value = getattr(one, each.name)
        default = each.default_factory() if each.default_factory is not MISSING else each.default
        if value != default:
            found[each.name.rstrip("_")] = [to_json(card) for card in value] if each.name == "cards" else value
    return found


def from_json(told: Mapping[str, Any], dump: str) -> list[Told]:
    """The nodes of a dump that one entry stands for: one, or as many as are alike, each with a number."""
    values = {**told, "dump": dump}
    if "cards" in told:
        values["cards"] = tuple(_card(card) for card in told["cards"])
    node = Told(**{**values, "reports": tuple(told.get("reports", ()))})
    if node.times == 1:
        return [node]
    return [replace(node, name=f"{node.name}-{number}", times=1) for number in range(node.times)]


def _card(told: Mapping[str, Any]) -> Card:
    values: dict[str, Any] = {key: tuple(text) if isinstance(text, list) else text for key, text in told.items()}
    if "class" in values:
        values["class_"] = values.pop("class")
    return Card(**values)
