"""Profiles of a mock NVML library: YAML with one board's defaults and a list of devices."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import yaml

from tests.golden.dumps.told import Card, Told, address, ids

if TYPE_CHECKING:
    from pathlib import Path


def read(path: Path, name: str) -> list[Told]:
    """One node with the cards that the library would show."""
    profile = yaml.safe_load(path.read_text())
    numa = {
        address(where): root["numa_node"]
        for root in profile.get("pcie_topology", {}).get("root_complexes", ())
        for where in root["devices"]
    }
    places = [address(device["pci"]["bus_id"]) for device in profile["devices"]]
    # Every card has all its links to the switches: it reaches all others.
    switched = bool(profile.get("nvlink", {}).get("switches"))
    cards = tuple(
        _card(profile["device_defaults"], device, numa.get(where), tuple(p for p in places if switched and p != where))
        for where, device in zip(places, profile["devices"], strict=True)
    )
    system = profile["system"]
    lacks = ("PCI class", "kernel driver bound", "names of MIG profiles")
    return [Told(name, cards=cards, driver=system["driver_version"], cuda=system["cuda_version"], lacks=lacks)]


def _card(board: dict[str, Any], device: dict[str, Any], numa: int | None, peers: tuple[str, ...]) -> Card:
    vendor, number = ids(f"{board['pci']['device_id']:08x}")
    of_board, board_number = ids(f"{board['pci']['subsystem_id']:08x}")
    mig = board["mig"]
    capable = mig["max_gpu_instances"] > 0
    return Card(
        address=address(device["pci"]["bus_id"]),
        vendor=vendor,
        device=number,
        subsystem_vendor=of_board,
        subsystem_device=board_number,
        numa_node=numa,
        by_driver=True,
        uuid=device["uuid"],
        product=board["name"],
        memory_mib=board["memory"]["total_bytes"] // 2**20,
        compute=(board["compute_capability"]["major"], board["compute_capability"]["minor"]),
        mig_capable=capable,
        mig_enabled=mig["mode_current"] == "enabled" if capable else None,
        nvlink_peers=peers,
    )
