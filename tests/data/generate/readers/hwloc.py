"""hwloc's XML: functions with their NUMA node, and what NVML told of them: model, uuid, NVLink bandwidths."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree as ET

from tests.data.generate.readers.one import node
from tests.data.generate.values import address
from tests.data.told import Card

if TYPE_CHECKING:
    from pathlib import Path

TYPE = re.compile(r"([0-9a-f]{4}) \[([0-9a-f]{4}):([0-9a-f]{4})\] \[([0-9a-f]{4}):([0-9a-f]{4})\].*")


def read(path: Path) -> dict[str, Any]:
    """One node, or none where the dump was made without I/O objects; bridges are left out."""
    root = ET.fromstring(re.sub("<!DOCTYPE[^>]*>", "", path.read_text()))  # noqa: S314 - known files
    peers = _peers(root)
    cards = tuple(_card(device, numa, peers) for device, numa in _devices(root, None))
    return node(cards=cards) if cards else {"nodes": []}


def _devices(parent: ET.Element, numa: int | None) -> list[tuple[ET.Element, int | None]]:
    """PCI devices below an object, with the NUMA node that is the nearest object's own."""
    children = parent.findall("object")
    own = [int(child.get("os_index", "0")) for child in children if child.get("type") == "NUMANode"]
    numa = own[0] if own else numa
    found = [(child, numa) for child in children if child.get("type") == "PCIDev"]
    for child in children:
        found += _devices(child, numa)
    return found


def _card(device: ET.Element, numa: int | None, peers: dict[str, tuple[str, ...]]) -> Card:
    kind = TYPE.fullmatch(device.get("pci_type", ""))
    assert kind is not None
    infos = {info.get("name"): info.get("value", "") for info in device.iterfind("object/info")}
    where = address(device.get("pci_busid", ""))
    return Card(
        address=where,
        class_=kind[1],
        vendor=kind[2],
        device=kind[3],
        subsystem_vendor=kind[4],
        subsystem_device=kind[5],
        numa_node=numa,
        by_driver=infos.get("Backend") == "NVML",
        uuid=infos.get("NVIDIAUUID", ""),
        product=infos.get("GPUModel", ""),
        nvlink_peers=peers.get(where, ()),
    )


def _peers(root: ET.Element) -> dict[str, tuple[str, ...]]:
    """Who reaches whom in the matrix of NVLink bandwidths, directly or by one switch."""
    place: dict[str, str] = {}
    cards: set[str] = set()
    for device in root.iter("object"):
        if device.get("type") == "PCIDev":
            place[f"PCIDev:{device.get('gp_index')}"] = address(device.get("pci_busid", ""))
            for system in device.findall("object"):
                place[f"OSDev:{system.get('gp_index')}"] = address(device.get("pci_busid", ""))
                cards.add(address(device.get("pci_busid", "")))
    matrix = next((m for m in root.iter("distances2hetero") if m.get("name") == "NVLinkBandwidth"), None)
    if matrix is None:
        return {}
    names = " ".join(part.text or "" for part in matrix.iter("indexes")).split()
    values = " ".join(part.text or "" for part in matrix.iter("u64values")).split()
    linked: dict[str, set[str]] = {}
    for number, bandwidth in enumerate(values):
        one, other = names[number // len(names)], names[number % len(names)]
        if one != other and int(bandwidth):
            linked.setdefault(place[one], set()).add(place[other])
    reached = {card: {further for near in linked.get(card, ()) for further in {near, *linked[near]}} for card in cards}
    return {card: tuple(sorted((others & cards) - {card})) for card, others in reached.items()}
