"""Reads the PCI bus from sysfs, without privileges: `/sys/bus/pci/devices`.

Cards come and go while this reads: a file that vanishes, is empty or holds garbage costs its
field, ids that cannot be read cost the function (it is then `unclear`, unless it is gone), and
nothing but an unreadable list of functions costs the scan. The kernel keeps the ids itself, so
reading them does not wake a card or wait for a broken one.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from controllers.domain.pci import canonical
from nodeagent.host.facts.records import Bus, PciFunction

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

DEVICES = "bus/pci/devices"
"""Below the place of sysfs: a folder for each function, named by its address."""
FILE_MAX = 4096  # bytes; the kernel gives no more than a page
# Some virtual machines, and the kernel before 2.6.39, have no subsystem files; modalias names all ids.
_ALIAS = re.compile(
    r"pci:v(?P<vendor>[0-9A-F]{8})d(?P<device>[0-9A-F]{8})"
    r"sv(?P<subsystem_vendor>[0-9A-F]{8})sd(?P<subsystem_device>[0-9A-F]{8})"
    r"bc(?P<base>[0-9A-F]{2})sc(?P<sub>[0-9A-F]{2})i(?P<interface>[0-9A-F]{2})"
)
_ROOT = re.compile("/pci([0-9a-f]{4,8}:[0-9a-f]{2})(?=/)")
"""A host bridge in a function's place below `/sys/devices`; the last one is its own."""
_NO_SUBSYSTEM = {"0000", "ffff"}


class ScanError(Exception):
    """The list of functions cannot be read: nothing is known, which is no claim that there is nothing."""


def lost(sys: Path, addresses: Iterable[str]) -> frozenset[str]:
    """Those of the addresses at which there is nothing. Where the bus cannot be read, nothing is claimed to be gone."""
    folder = sys / DEVICES
    there = folder.is_dir()
    return frozenset(address for address in addresses if there and address and not (folder / address).exists())


def scan(sys: Path) -> Bus:
    """Every function on the bus, by address; raises ScanError."""
    folder = sys / DEVICES
    try:
        names = os.listdir(folder)  # noqa: PTH208 - as names, which need not be paths any more
    except OSError as error:
        raise ScanError(f"cannot list {folder}: {error.strerror}") from error
    functions: list[PciFunction] = []
    unclear: set[str] = set()
    for name in sorted(names):
        address = canonical(name)
        if address is None:
            continue
        found = _function(folder / name, address)
        if not (folder / name).exists():
            continue  # unplugged meanwhile: what was read may be half of it
        if found is None:
            unclear.add(address)
        else:
            functions.append(found)
    return Bus(tuple(functions), frozenset(unclear))


def _function(folder: Path, address: str) -> PciFunction | None:
    """One function; None where its ids cannot be read."""
    files = _Folder(folder)
    alias = _alias(files.text("modalias"))
    ids = {
        name: files.hexadecimal(name, digits) or alias.get(name, "")
        for name, digits in (
            ("vendor", 4),
            ("device", 4),
            ("class", 6),
            ("subsystem_vendor", 4),
            ("subsystem_device", 4),
        )
    }
    if not (ids["vendor"] and ids["device"] and ids["class"]):
        return None
    subsystem = ids["subsystem_vendor"] not in _NO_SUBSYSTEM
    numa = files.number("numa_node")
    return PciFunction(
        address=address,
        vendor=ids["vendor"],
        device=ids["device"],
        class_=ids["class"],
        subsystem_vendor=ids["subsystem_vendor"] if subsystem else "",
        subsystem_device=ids["subsystem_device"] if subsystem else "",
        numa_node=numa if numa is not None and numa >= 0 else None,
        root=files.root(),
        iommu_group=files.link("iommu_group"),
        driver=files.link("driver"),
        physical_function=canonical(files.link("physfn")) or "",
        virtual_functions=max(files.number("sriov_totalvfs") or 0, 0),
        unreadable=tuple(name for name in files.unread if not ids.get(name)),
    )


def _alias(text: str) -> dict[str, str]:
    found = _ALIAS.fullmatch(text)
    if found is None:
        return {}
    ids = {name: value.lower()[-4:] for name, value in found.groupdict().items()}
    return {**ids, "class": ids["base"] + ids["sub"] + ids["interface"]}


class _Folder:
    """Reads the files of one function and remembers what is there and cannot be read."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.unread: list[str] = []

    def text(self, name: str) -> str:
        """The text of a file; empty where there is none."""
        try:
            with (self._folder / name).open("rb") as file:
                return file.read(FILE_MAX).decode("ascii").strip()
        except (FileNotFoundError, NotADirectoryError):
            return ""
        except (OSError, UnicodeDecodeError):
            self.unread.append(name)
            return ""

    def hexadecimal(self, name: str, digits: int) -> str:
        """The digits behind `0x`; empty where there is no such number."""
        text = self.text(name).lower()
        if re.fullmatch(f"0x[0-9a-f]{{{digits}}}", text):
            return text[2:]
        self._garbage(name, text)
        return ""

    def number(self, name: str) -> int | None:
        """A decimal number."""
        text = self.text(name)
        if re.fullmatch("-?[0-9]{1,9}", text):
            return int(text)
        self._garbage(name, text)
        return None

    def link(self, name: str) -> str:
        """The last part of what a link points to; empty where there is no link."""
        try:
            return (self._folder / name).readlink().name
        except (FileNotFoundError, NotADirectoryError):
            return ""
        except OSError:
            self.unread.append(name)
            return ""

    def root(self) -> str:
        """The host bridge above the function; empty where its place shows none."""
        try:
            return next(reversed(_ROOT.findall(str(self._folder.readlink()))), "")
        except OSError:
            return ""

    def _garbage(self, name: str, text: str) -> None:
        if text and name not in self.unread:
            self.unread.append(name)
