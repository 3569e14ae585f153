"""Drivers for a card (`drivers.toml`): the least and the last that serve it, and the flavours of their modules.

The least driver and CUDA version follow from its generation, and from what the module installs.

The file is read and checked once, at import. A vendor of whom it says nothing has no requirement.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Literal, cast

from controllers.domain.catalogue.fields import ID, VERSION, Entry
from controllers.domain.catalogue.lookup import model, read, vendor_id

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

Flavours = Literal["open", "proprietary", "either"]
"""Which kernel modules serve a card."""
FLAVOURS: Final = ("open", "proprietary", "either")
VENDOR = "10de"
"""The file is about NVIDIA's cards and drivers."""
DOTTED = re.compile(r"[0-9]{1,9}(?:\.[0-9]{1,9})*")


@dataclass(frozen=True, slots=True)
class Requirement:
    """The least versions, None where there is none, each with who asks for it, in words for a message."""

    driver: str | None = None
    cuda: str | None = None
    driver_because: str = ""
    """`Blackwell (compute capability 10.0)`, `DCGM`; empty without a driver."""
    cuda_because: str = ""

    @property
    def because(self) -> str:
        """Who asks, for both."""
        return " and ".join(dict.fromkeys(filter(None, (self.driver_because, self.cuda_because))))


@dataclass(frozen=True, slots=True)
class Row:
    """One row of the file."""

    name: str
    driver: str | None
    cuda: str | None
    source: str
    modules: Flavours = "either"
    """Of a generation."""
    last_branch: int | None = None
    """Of a generation: the last branch of drivers that serves it; None for one that is served still."""

    def asks(self, because: str) -> Requirement:
        """Its requirement in the name of that."""
        return Requirement(self.driver, self.cuda, because if self.driver else "", because if self.cuda else "")


@dataclass(frozen=True, slots=True)
class Table:
    """The whole file."""

    generations: Mapping[tuple[int, int], Row]
    """By the compute capability from which on it holds."""
    components: Mapping[str, Row]
    cards: Mapping[str, Flavours]
    """By PCI device id: the modules of cards that differ from their generation in this."""


def table(file: str, tables: Mapping[str, Any]) -> Table:
    """The table from what `tomllib` made of the file; raises ValueError that names file and entry."""
    root = Entry(file, "the file", tables)
    root.only("sources", "generations", "components", "cards")
    sources = Entry(file, "sources", root.required("sources", dict))
    known = {key: sources.text(key) for key in sources.values}
    used: Counter[str] = Counter()
    generations = {}
    for key, values in root.required("generations", dict).items():
        entry = Entry(file, key, values)
        if not (version := VERSION.fullmatch(key)):
            entry.wrong("no compute capability")
        generations[int(version[1]), int(version[2])] = row = _row(entry, known, used, "modules", "last_branch")
        if row.driver is None or row.cuda is None:
            entry.wrong("a generation needs driver and cuda")
    components = {
        key: _row(Entry(file, key, values), known, used) for key, values in root.required("components", dict).items()
    }
    cards = {key: _card(Entry(file, key, values), known, used) for key, values in root.required("cards", dict).items()}
    if unused := sorted(known.keys() - used.keys()):
        sources.wrong(f"{', '.join(unused)} is named by no row")
    return Table(dict(sorted(generations.items())), components, cards)


def _row(entry: Entry, known: Mapping[str, str], used: Counter[str], *more: str) -> Row:
    entry.only("name", "driver", "cuda", "source", *more)
    source = _source(entry, known, used)
    driver, cuda = (entry.text(key, DOTTED) if key in entry.values else None for key in ("driver", "cuda"))
    if driver is None and cuda is None:
        entry.wrong("asks for neither driver nor cuda")
    last = entry.count("last_branch") if "last_branch" in entry.values else None
    return Row(entry.text("name"), driver, cuda, source, _modules(entry) if more else "either", last)


def _card(entry: Entry, known: Mapping[str, str], used: Counter[str]) -> Flavours:
    entry.only("name", "modules", "source")
    entry.text("name")
    if not ID.fullmatch(entry.name):
        entry.wrong("no PCI device id")
    _source(entry, known, used)
    return _modules(entry)


def _modules(entry: Entry) -> Flavours:
    said = entry.text("modules")
    if said not in FLAVOURS:
        entry.wrong(f"modules: {said!r} is none of {', '.join(FLAVOURS)}")
    return cast("Flavours", said)


def _source(entry: Entry, known: Mapping[str, str], used: Counter[str]) -> str:
    keys = entry.texts("source")
    if not keys:
        entry.wrong("source is empty")
    if strange := [key for key in keys if key not in known]:
        entry.wrong(f"source {', '.join(strange)} is not in [sources]")
    used.update(keys)
    return "; ".join(known[key] for key in keys)


TABLE = table(*read("drivers"))


def requirement(vendor: str, compute: tuple[int, int] | None) -> Requirement:
    """What a card of that vendor (name or PCI id) needs; without its compute capability, what every card needs."""
    if vendor_id(vendor) != VENDOR:
        return Requirement()
    asked = [row.asks(row.name) for row in TABLE.components.values()]
    if (at := _generation(compute)) is not None:
        row = TABLE.generations[at]
        asked.append(row.asks(f"{row.name} (compute capability {'.'.join(map(str, compute or at))})"))
    return strictest(asked)


def _generation(compute: tuple[int, int] | None) -> tuple[int, int] | None:
    """The row's key: a row holds for later numbers of its major too, and of an unlisted major nothing is known."""
    return max((at for at in TABLE.generations if compute and at[0] == compute[0] and at <= compute), default=None)


def generation(device: str, compute: tuple[int, int] | None) -> Row | None:
    """The generation of one of NVIDIA's cards, with the flavours that this very card takes; None for an unknown one."""
    at = _generation(compute)
    if at is None:
        return None
    row = TABLE.generations[at]
    return replace(row, modules=TABLE.cards.get(device, row.modules))


def for_card(
    vendor: str, device: str, compute: tuple[int, int] | None = None, subsystem: str | None = None
) -> Requirement:
    """The same for a card by its PCI ids: where it does not report its compute capability, its model tells it."""
    if compute is None and (found := model(vendor_id(vendor) or vendor, device, subsystem)):
        compute = found.compute
    return requirement(vendor, compute)


def strictest(requirements: Iterable[Requirement]) -> Requirement:
    """The highest driver and the highest CUDA version of all, in whatever order they come."""
    asked = tuple(requirements)
    driver, driver_because = _highest((one.driver, one.driver_because) for one in asked)
    cuda, cuda_because = _highest((one.cuda, one.cuda_because) for one in asked)
    return Requirement(driver, cuda, driver_because, cuda_because)


def _highest(asked: Iterable[tuple[str | None, str]]) -> tuple[str | None, str]:
    read = [
        (numbers, because, version)
        for version, because in asked
        if version is not None and (numbers := _numbers(version)) is not None
    ]
    if not read:
        return None, ""
    most = max(numbers for numbers, _, _ in read)
    because, version = min((because, version) for numbers, because, version in read if numbers == most)
    return version, because


def is_older(version: str, minimum: str) -> bool | None:
    """Whether a version is below the minimum, number by number; None where either text is no version.

    A number that is left out is 0: `570` is older than `570.26`, and not than `570.0`.
    """
    found, wanted = _numbers(version), _numbers(minimum)
    return None if found is None or wanted is None else found < wanted


def _numbers(text: str) -> tuple[int, ...] | None:
    """The numbers of a version without zeros at its end."""
    if not DOTTED.fullmatch(text.strip()):
        return None
    numbers = [int(part) for part in text.strip().split(".")]
    while numbers and not numbers[-1]:
        numbers.pop()
    return tuple(numbers)
