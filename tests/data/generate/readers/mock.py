"""Profiles of a mock NVML library: YAML with one board's defaults and a list of devices."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import yaml

from tests.data.generate.readers.one import node
from tests.data.generate.values import address, ids
from tests.data.told import Card

if TYPE_CHECKING:
    from pathlib import Path


def read(path: Path) -> dict[str, Any]:
    """One node with the cards that the library would show, and its NVSwitches."""
    profile = yaml.safe_load(path.read_text())
    numa = {
        address(where): root["numa_node"]
        for root in profile.get("pcie_topology", {}).get("root_complexes", ())
        for where in root["devices"]
    }
    places = [address(device["pci"]["bus_id"]) for device in profile["devices"]]
    # Every card has all its links to the switches: it reaches all others.
    switches = [address(switch["bdf"]) for switch in profile.get("nvlink", {}).get("switches") or ()]
    cards = tuple(
        _card(profile["device_defaults"], device, numa.get(where), tuple(p for p in places if switches and p != where))
        for where, device in zip(places, profile["devices"], strict=True)
    )
    system = profile["system"]
    return {
        **node(cards=cards, driver=system["driver_version"], cuda=system["cuda_version"]),
        "switches": switches,
    }


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
