"""Typed values of a card's attributes in a NodeFeature, which are untrusted strings. Pure."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, TypeVar

from controllers.api.gpudevice import MigType, NvLink
from controllers.api.nodefeature import DISPLAYS
from controllers.domain.catalogue import canonical_profile
from controllers.domain.pci import canonical

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

T = TypeVar("T")
SHOWN = 32
TEXT_MAX = 128
# What the driver's tools say where a value should be.
NO_VALUES = frozenset({"n/a", "[n/a]", "err!", "unknown", "unknown error", "[unknown error]", "gpu is lost"})


class AttributeReader:
    """Takes attributes one by one and remembers what was wrong."""

    def __init__(self, attributes: Mapping[str, str]) -> None:
        self._attributes = attributes
        self.missing: list[str] = []
        self.unreadable: list[str] = []

    def get(
        self, key: str, parse: Callable[[str], T | None], *, required: bool = False, strict: bool = True
    ) -> T | None:
        """The attribute's value; `strict`: one that is there and cannot be read is a problem."""
        text = self._attributes.get(key, "").strip()
        if not text:
            if required:
                self.missing.append(key)
            return None
        value = None if text.lower() in NO_VALUES else parse(text)
        if value is None and strict:
            self.unreadable.append(f"{key}={text[:SHOWN]!r}")
        return value


def _matching(pattern: str, text: str) -> str | None:
    return text if re.fullmatch(pattern, text) else None


def hex4(text: str) -> str | None:
    """A PCI id: four hexadecimal digits."""
    return _matching("[0-9a-f]{4}", text.lower().removeprefix("0x"))


def display_class(text: str) -> str | None:
    """Class and subclass; sysfs adds two digits for the programming interface."""
    code = _matching("[0-9a-f]{4}([0-9a-f]{2})?", text.lower().removeprefix("0x"))
    return code[:4] if code and code.startswith(DISPLAYS) else None


def uuid(text: str) -> str | None:
    """A card's uuid as drivers spell it."""
    return _matching("[0-9A-Za-z][0-9A-Za-z._-]{7,79}", text)


def product(text: str) -> str | None:
    """A product's name: printable and short."""
    return text if len(text) <= TEXT_MAX and text.isprintable() else None


def memory_mib(text: str) -> int | None:
    """A size in MiB; 0 is no size."""
    number = int(text) if _matching("[0-9]{1,8}", text) else 0
    return number or None


def small_number(text: str) -> int | None:
    """A number of at most three digits."""
    return int(text) if _matching("[0-9]{1,3}", text) else None


def boolean(text: str) -> bool | None:
    """Yes or no in the spellings of drivers and agents."""
    words = {"true": True, "enabled": True, "1": True, "false": False, "disabled": False, "0": False}
    return words.get(text.lower())


def word(text: str) -> str | None:
    """A word that is compared, and means nothing by itself."""
    return _matching("[0-9A-Za-z._-]{1,64}", text)


def _profile(text: str) -> str | None:
    """In the one spelling: `1g.10gb.me` and `1g.10gb+me` are the same profile."""
    return canonical_profile(text.strip().lower())


def mig_profiles(text: str) -> tuple[str, ...] | None:
    """A list of MIG profiles; None where one of them cannot be read."""
    profiles = tuple(_profile(part) for part in text[:4096].split(","))
    return None if None in profiles else tuple(sorted(set(filter(None, profiles))))


def mig_instances(text: str) -> tuple[MigType, ...] | None:
    """A list of `profile=count`; None where one of them cannot be read, or is there twice."""
    types: dict[str, MigType] = {}
    for part in text[:4096].split(","):
        name, _, number = part.partition("=")
        profile, count = _profile(name), small_number(number.strip())
        if profile is None or count is None or profile in types:
            return None
        types[profile] = MigType(name=profile, count=count)
    return tuple(types[profile] for profile in sorted(types) if types[profile].count)


def pci_root(text: str) -> str | None:
    """A host bridge: domain and bus."""
    return _matching("[0-9a-f]{4,8}:[0-9a-f]{2}", text)


def link_counts(text: str) -> tuple[int, ...] | None:
    """A list of numbers of links; None where one of them cannot be read."""
    counts = tuple(small_number(part) for part in text[:4096].split(","))
    return None if None in counts else tuple(count for count in counts if count is not None)


def nvlink_peers(text: str, counts: tuple[int, ...] = ()) -> NvLink | None:
    """A list of PCI addresses; what is none is left out. `counts`: links to each, if there are as many of them."""
    parts = text[:4096].split(",")
    told = len(counts) == len(parts)
    found = dict(zip(map(canonical, parts), counts if told else (0,) * len(parts), strict=True))
    peers = sorted(address for address in found if address)
    return NvLink(peers=tuple(peers), links=tuple(found[address] for address in peers) if told else ())
