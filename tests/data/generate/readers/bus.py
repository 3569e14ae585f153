"""The PCI bus without a driver's word: lspci, umockdev, a listing of sysfs files."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from tests.data.generate.readers.one import node
from tests.data.generate.values import address
from tests.data.told import Card

if TYPE_CHECKING:
    from pathlib import Path

# lspci without -n prints names (of pci.ids) where the numbers should be.
CLASSES = {
    "VGA compatible controller": "0300",
    "3D controller": "0302",
    "Bridge": "0680",
    "Ethernet controller": "0200",
}
VENDORS = {"NVIDIA Corporation": "10de", "Matrox Electronics Systems Ltd.": "102b", "Mellanox Technologies": "15b3"}
NUMBERED = re.compile(r"(\S+) .*? \[([0-9a-f]{4})\]: .*\[([0-9a-f]{4}):([0-9a-f]{4})\].*")
NAMED = re.compile(r"(\S+) ([^:]+): (.*)")


def numbers(path: Path) -> dict[str, Any]:
    """`lspci -nn` and `-nnk`: a line for each function, what belongs to it indented below."""
    return node(cards=tuple(_numbered(record) for record in _records(path)))


def words(path: Path) -> dict[str, Any]:
    """`lspci -vvv` without -n: vendors and classes as words, devices as numbers where pci.ids was too old to know."""
    return node(cards=tuple(_named(record) for record in _records(path)))


def _records(path: Path) -> list[str]:
    return re.split(r"\n+(?=[0-9a-f])", path.read_text().strip())


def _numbered(record: str) -> Card:
    head = NUMBERED.fullmatch(record.splitlines()[0])
    assert head is not None, record
    board = re.search(r"Subsystem: .*\[([0-9a-f]{4}):([0-9a-f]{4})\]", record)
    return Card(
        address=address(head[1]),
        class_=head[2],
        vendor=head[3],
        device=head[4],
        subsystem_vendor=board[1] if board else "",
        subsystem_device=board[2] if board else "",
        bound=_bound(record),
    )


def _named(record: str) -> Card:
    head = NAMED.fullmatch(record.splitlines()[0])
    assert head is not None, record
    device = re.search(" Device ([0-9a-f]{4}) ", head[3])
    board = re.search(r"Subsystem: (.*) Device ([0-9a-f]{4})", record)
    numa = re.search("NUMA node: ([0-9]+)", record)
    virtual = re.search("Total VFs: ([0-9]+)", record)
    return Card(
        address=address(head[1]),
        class_=CLASSES[head[2]],
        vendor=_vendor(head[3]),
        device=device[1] if device else "",
        subsystem_vendor=_vendor(board[1]) if board else "",
        subsystem_device=board[2] if board else "",
        numa_node=int(numa[1]) if numa else None,
        virtual_functions=int(virtual[1]) if virtual else 0,
        bound=_bound(record),
    )


def _vendor(name: str) -> str:
    return next(number for word, number in VENDORS.items() if name.startswith(word))


def _bound(record: str) -> str:
    found = re.search(r"Kernel driver in use: (\S+)", record)
    return found[1] if found else ""


def umockdev(path: Path) -> dict[str, Any]:
    """One record for each device: `P:` its path, `E:` udev's properties, `A:` sysfs files, `L:` links."""
    cards = []
    for record in re.split(r"\n\n+", path.read_text().strip()):
        place = re.search(r"^P: .*/(\S+)$", record, re.MULTILINE)
        files = dict(re.findall(r"^A: (\w+)=(.*?)\\n$", record, re.MULTILINE))
        link = re.search(r"^L: driver=.*/(\S+)$", record, re.MULTILINE)
        cards.append(_sysfs(place[1] if place else "", files, link[1] if link else ""))
    return node(cards=tuple(cards))


def listing(path: Path) -> dict[str, Any]:
    """`<address>/<file>: <content>` and `<address>/driver -> <target>`, one a line; the files are kept as well."""
    functions: dict[str, dict[str, str]] = {}
    for where, file, text in re.findall(r"^([0-9a-f:.]{12})/(\w+)(?:: | -> )(.*)$", path.read_text(), re.MULTILINE):
        functions.setdefault(where, {})[file] = text.rsplit("/", 1)[-1] if file == "driver" else text
    cards = [_sysfs(where, files, files.get("driver", "")) for where, files in functions.items()]
    return {**node(cards=tuple(cards)), "sysfs": functions}


def _sysfs(where: str, files: dict[str, str], bound: str) -> Card:
    def number(file: str) -> str:
        return files.get(file, "").removeprefix("0x")

    numa = int(files.get("numa_node", "-1"))
    return Card(
        address=address(where),
        vendor=number("vendor"),
        device=number("device"),
        class_=number("class"),
        subsystem_vendor=number("subsystem_vendor"),
        subsystem_device=number("subsystem_device"),
        numa_node=numa if numa >= 0 else None,
        bound=bound,
    )
