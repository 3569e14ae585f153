"""What nvidia-smi prints for people: -L, -q, CSV, topo -m, nvlink -s, mig -lgi, and files with many of them."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tests.data.generate.readers.one import node, nodes
from tests.data.generate.values import address, ids, mebibytes, mig_mode, value
from tests.data.told import Card, Told

if TYPE_CHECKING:
    from pathlib import Path

LISTED = re.compile(r"GPU (\d+): (.+) \(UUID: (GPU-[0-9a-f-]+)\)")
INSTANCE = re.compile(r" +MIG (\S+) +Device +\d+: \(UUID: MIG-.*\)")


def listed(path: Path) -> dict[str, Any]:
    """`-L`, or `nvlink -s`, which begins alike; each `$ k logs <pod>` in the file is a node of its own."""
    parts: list[list[str]] = [[]]
    for line in path.read_text().splitlines():
        if line.startswith("$ k logs "):
            parts.append([])
        parts[-1].append(line)
    if len(parts) == 1:
        return node(cards=_listed(parts[0]))
    return nodes(Told(name=f"pod-{number}", cards=_listed(lines)) for number, lines in enumerate(parts) if number)


def _listed(lines: list[str]) -> tuple[Card, ...]:
    cards: list[Card] = []
    for line in lines:
        if card := LISTED.fullmatch(line.strip()):
            cards.append(Card(by_driver=True, product=card[2], uuid=card[3]))
        elif (instance := INSTANCE.fullmatch(line)) and cards:
            instances = Counter(cards[-1].mig_instances) + Counter([instance[1]])
            cards[-1] = replace(cards[-1], mig_capable=True, mig_enabled=True, mig_instances=dict(instances))
    return tuple(cards)


def query(path: Path) -> dict[str, Any]:
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
    return node(cards=found, driver=top.get("Driver Version"), cuda=top.get("CUDA Version", ""))


def csv(path: Path) -> dict[str, Any]:
    """`--query-gpu=gpu_name,gpu_bus_id,…` with lines left out."""
    lines = [line.split(", ") for line in path.read_text().splitlines() if not line.startswith(("$", "["))]
    rows = [dict(zip(lines[0], line, strict=True)) for line in lines[1:]]
    cards = tuple(Card(address(row["pci.bus_id"]), by_driver=True, product=row["name"]) for row in rows)
    return node(cards=cards)


def instances(path: Path) -> dict[str, Any]:
    """`mig -lgi`: GPU instances by the number of their card, with the memory slices on which they lie."""
    rows = re.findall(r"\| +(\d+)  MIG (\S+) +\d+ +(\d+) +(\d+):(\d+) ", path.read_text())
    found: dict[str, Counter[str]] = {}
    for card, profile, *_ in rows:
        found.setdefault(card, Counter())[profile] += 1
    cards = tuple(
        Card(by_driver=True, mig_capable=True, mig_enabled=True, mig_instances=dict(of)) for of in found.values()
    )
    placed = [
        {"card": int(card), "id": int(number), "profile": profile, "size": int(size), "start": int(start)}
        for card, profile, number, start, size in rows
    ]
    return {**node(cards=cards), "instances": placed}


def topology(path: Path) -> dict[str, Any]:
    """`topo -m`: cards by number; links and NUMA nodes, and no address to hang them on."""
    cards = tuple(Card(by_driver=True, numa_node=numa) for numa in affinities(path.read_text()))
    return node(cards=cards)


def affinities(text: str) -> list[int | None]:
    """The NUMA node of each card in a `topo -m` table; columns are parted by tabs or by many spaces."""
    head = next(line for line in text.splitlines() if "NUMA Affinity" in line)
    count = len(re.findall(r"\bGPU\d+\b", head.replace("\x1b[4m", "")))
    rows = [line for line in text.splitlines() if re.match(r"GPU\d+\s", line)]
    cells = [[cell.strip() for cell in re.split("\t| {2,}", row) if cell.strip()] for row in rows]
    # A card's row: its name, one cell for each card, CPU affinity, NUMA affinity.
    return [int(row[count + 2]) if row[count + 2].isdigit() else None for row in cells]


def capture(path: Path) -> dict[str, Any]:
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
    return node(cards=cards, driver=rows[0]["driver_version"], cuda=version[1] if version else "")


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
