"""What nvidia-smi prints for people: -L, -q, CSV, topo -m, nvlink -s, mig -lgi, and files with many of them."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

from tests.golden.dumps.told import Card, Told, address, ids, mebibytes, mig_mode, value

if TYPE_CHECKING:
    from pathlib import Path

LISTED = re.compile(r"GPU (\d+): (.+) \(UUID: (GPU-[0-9a-f-]+)\)")
INSTANCE = re.compile(r" +MIG (\S+) +Device +\d+: \(UUID: MIG-.*\)")
NO_BUS = "PCI address, ids, class"


def listed(path: Path, name: str) -> list[Told]:
    """`-L`, or `nvlink -s`, which begins alike; each `$ k logs <pod>` in the file is a node of its own."""
    nodes: dict[str, list[str]] = {}
    node = ""
    for line in path.read_text().splitlines():
        node = line.split()[-1] if line.startswith("$ k logs ") else node
        nodes.setdefault(node, []).append(line)
    found = {node: _listed(lines) for node, lines in nodes.items()}
    return [Told(name, node, cards, lacks=(NO_BUS, "memory")) for node, cards in found.items() if cards]


def _listed(lines: list[str]) -> tuple[Card, ...]:
    cards: list[Card] = []
    for line in lines:
        if card := LISTED.fullmatch(line.strip()):
            cards.append(Card(by_driver=True, product=card[2], uuid=card[3]))
        elif (instance := INSTANCE.fullmatch(line)) and cards:
            instances = Counter(cards[-1].mig_instances) + Counter([instance[1]])
            cards[-1] = replace(cards[-1], mig_capable=True, mig_enabled=True, mig_instances=dict(instances))
    return tuple(cards)


def query(path: Path, name: str) -> list[Told]:
    """`-q`, whole or excerpts: `key : value` below `GPU <address>`."""
    top: dict[str, str] = {}
    cards: list[tuple[str, dict[str, str]]] = []
    for line in path.read_text().splitlines():
        key, colon, text = line.partition(" : ")
        if (head := re.fullmatch("GPU ([0-9A-F:.]+)", line)) is not None:
            cards.append((address(head[1]), {}))
        elif colon:
            (cards[-1][1] if cards else top).setdefault(key.strip(), value(text))
    found = tuple(
        Card(where, by_driver=True, uuid=told.get("GPU UUID", ""), product=told.get("Product Name", ""))
        for where, told in cards
    )
    lacks = ("PCI ids, class", "memory")
    return [Told(name, cards=found, driver=top.get("Driver Version"), cuda=top.get("CUDA Version", ""), lacks=lacks)]


def csv(path: Path, name: str) -> list[Told]:
    """`--query-gpu=gpu_name,gpu_bus_id,…` with lines left out."""
    lines = [line.split(", ") for line in path.read_text().splitlines() if not line.startswith(("$", "["))]
    rows = [dict(zip(lines[0], line, strict=True)) for line in lines[1:]]
    cards = tuple(Card(address(row["pci.bus_id"]), by_driver=True, product=row["name"]) for row in rows)
    return [Told(name, cards=cards, lacks=("PCI ids, class", "uuid", "memory", "driver version"))]


def instances(path: Path, name: str) -> list[Told]:
    """`mig -lgi`: GPU instances by the number of their card."""
    found: dict[str, Counter[str]] = {}
    for card, profile in re.findall(r"\| +(\d+)  MIG (\S+) ", path.read_text()):
        found.setdefault(card, Counter())[profile] += 1
    cards = tuple(Card(by_driver=True, mig_capable=True, mig_enabled=True, mig_instances=of) for of in found.values())
    return [Told(name, cards=cards, lacks=(NO_BUS, "uuid", "product", "memory"))]


def topology(path: Path, name: str) -> list[Told]:
    """`topo -m`: cards by number; links and NUMA nodes, and no address to hang them on."""
    cards = tuple(Card(by_driver=True, numa_node=numa) for numa in affinities(path.read_text()))
    return [Told(name, cards=cards, lacks=(NO_BUS, "uuid", "product", "memory"))]


def affinities(text: str) -> list[int | None]:
    """The NUMA node of each card in a `topo -m` table; columns are parted by tabs or by many spaces."""
    head = next(line for line in text.splitlines() if "NUMA Affinity" in line)
    count = len(re.findall(r"\bGPU\d+\b", head.replace("\x1b[4m", "")))
    rows = [line for line in text.splitlines() if re.match(r"GPU\d+\s", line)]
    cells = [[cell.strip() for cell in re.split("\t| {2,}", row) if cell.strip()] for row in rows]
    # A card's row: its name, one cell for each card, CPU affinity, NUMA affinity.
    return [int(row[count + 2]) if row[count + 2].isdigit() else None for row in cells]


def capture(path: Path, name: str) -> list[Told]:
    """A file of many commands, each below its own heading: -L, --query-gpu as CSV, topo -m."""
    parts = re.split(r"#{80}\n# (.*)\n(?:# \$ .*\n)?#{80}\n", path.read_text())
    sections = dict(zip(parts[1::2], parts[2::2], strict=True))
    lines = sections["idle :: query-gpu (csv, what the exporter parses)"].strip().splitlines()
    names = [column.partition(" [")[0] for column in lines[0].split(", ")]
    rows = [dict(zip(names, line.split(", "), strict=True)) for line in lines[1:]]
    by_uuid = {card.uuid: card for card in _listed(sections["capabilities :: list (-L)"].splitlines())}
    numa = affinities(sections["capabilities :: topo -m"])
    version = re.search("CUDA Version +: (.+)", sections["capabilities :: version"])
    cards = tuple(_row(row, by_uuid[row["uuid"]], numa[number]) for number, row in enumerate(rows))
    lacks = ("kernel driver bound", "MIG profiles on offer")
    return [Told(name, cards=cards, driver=rows[0]["driver_version"], cuda=version[1] if version else "", lacks=lacks)]


def _row(row: dict[str, str], listed: Card, numa: int | None) -> Card:
    vendor, device = ids(row["pci.device_id"])
    of_board, board = ids(row["pci.sub_device_id"])
    major, minor = row["compute_cap"].split(".")
    capable, enabled = mig_mode(row["mig.mode.current"])
    return replace(
        listed,
        address=address(row["pci.bus_id"]),
        vendor=vendor,
        device=device,
        class_=f"{int(row['pci.baseClass'], 16):02x}{int(row['pci.subClass'], 16):02x}",
        subsystem_vendor=of_board,
        subsystem_device=board,
        numa_node=numa,
        product=value(row["name"]),
        memory_mib=mebibytes(row["memory.total"]),
        compute=(int(major), int(minor)),
        mig_capable=capable,
        mig_enabled=enabled,
    )
