"""What a dump tells of a node, no more: the form into which every reader of a dump brings it.

A field that a dump does not contain stays empty here; nothing is filled in from elsewhere. Where
sysfs or NVML would always tell what an old tool did not print (`pci.class`), the table of
expectations may give it by hand, in sight of the reader: see `given`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

# What NVIDIA's tools, and those who publish their output, write where a value should be.
NO_VALUES = frozenset(
    {
        "",
        "n/a",
        "[n/a]",
        "[redacted]",
        "none",
        "unknown error",
        "insufficient permissions",
        "gpu is lost",
        "requested functionality has been deprecated",
    }
)


@dataclass(frozen=True, slots=True)
class Card:
    """One PCI function, or one card that only a driver's tool lists."""

    address: str = ""
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

    dump: str
    """The file, from the data's root."""
    name: str = ""
    """Which node of the file; empty where it speaks of one."""
    cards: tuple[Card, ...] | None = None
    """Functions and cards, in the dump's order; None where the dump does not speak of single cards."""
    driver: str | None = None
    """The driver's version; None where the dump names none."""
    cuda: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    """The Node's labels."""
    node: Mapping[str, Any] | None = None
    """The Node itself, where the dump is one."""
    reports: tuple[Mapping[str, Any], ...] = ()
    """NodeFeatures of others."""
    lacks: tuple[str, ...] = ()
    """What the dump does not contain, in words."""

    @property
    def node_name(self) -> str:
        """A name for the node in a cluster of all dumps; NFD puts it into a label's value, hence 63 characters."""
        if self.node is not None:
            return str(self.node["metadata"]["name"])
        stem = self.dump.rsplit("/", 1)[-1].rsplit(".", 1)[0]
        return re.sub("[^a-z0-9]+", "-", f"{stem} {self.name}".lower()).strip("-")[:63].rstrip("-")


def given(told: Told, facts: Mapping[str, Any]) -> Told:
    """The dump with what the table gives by hand; a fact that the dump itself contains is refused."""
    unknown = facts.keys() - {"class", "driver"}
    assert not unknown, f"{told.dump}: {unknown} cannot be given"
    if "class" in facts:
        assert not any(card.class_ for card in told.cards or ()), f"{told.dump} tells the class itself"
        cards = tuple(replace(card, class_=facts["class"]) for card in told.cards or ())
        told = replace(told, cards=cards)
    if "driver" in facts:
        assert told.driver is None, f"{told.dump} tells the driver's version itself"
        told = replace(told, driver=facts["driver"])
    return told


def value(text: str | None) -> str:
    """A value as printed, or nothing where the tool says that there is none."""
    text = (text or "").strip()
    return "" if text.lower() in NO_VALUES else text


def address(text: str) -> str:
    """`00000000:1A:00.0` of NVML, `1a:00.0` of lspci: as sysfs spells it; empty where it is none."""
    found = re.fullmatch(r"(?:([0-9a-f]{4,8}):)?([0-9a-f]{2}:[0-9a-f]{2}\.[0-7])", value(text).lower())
    return f"{int(found[1] or '0', 16):04x}:{found[2]}" if found else ""


def mebibytes(text: str | None) -> int | None:
    """`81559 MiB`."""
    found = re.fullmatch("([0-9]+) MiB", value(text))
    return int(found[1]) if found else None


def ids(text: str | None) -> tuple[str, str]:
    """`20B010DE`, device and vendor as one number: vendor and device."""
    found = re.fullmatch("(?:0x)?([0-9a-f]{4})([0-9a-f]{4})", value(text).lower())
    return (found[2], found[1]) if found else ("", "")


def mig_mode(text: str | None) -> tuple[bool | None, bool | None]:
    """Capable and enabled, from `Enabled`, `Disabled`, or `N/A` of a card that cannot; None where it is not printed."""
    if text is None:
        return None, None
    word = value(text).strip("[]").lower()
    return (True, word == "enabled") if word in ("enabled", "disabled") else (False, None)
