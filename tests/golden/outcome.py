"""What the inventory made of a node, in the words of the golden table."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from controllers.api import names

if TYPE_CHECKING:
    from collections.abc import Iterable

LABELS = {"vendor": names.LABEL_VENDOR, "product": names.LABEL_PRODUCT, "family": names.LABEL_FAMILY}


def condition(obj: dict[str, Any], kind: str) -> dict[str, Any]:
    """A condition of an object."""
    return next(one for one in obj["status"]["conditions"] if one["type"] == kind)


def rows(devices: Iterable[dict[str, Any]], node: str) -> dict[str, dict[str, Any]]:
    """The node's cards by address."""
    found = {}
    for device in devices:
        status = device["status"]
        if status["nodeName"] != node:
            continue
        address = status["inventoryID"].removeprefix(f"{node}-")
        assert device["metadata"]["name"] == f"{node}-{address.replace(':', '-').replace('.', '-')}"
        assert device["metadata"]["labels"][names.LABEL_NODE]
        found[address] = row(device, address)
    return found


def row(device: dict[str, Any], address: str) -> dict[str, Any]:
    """One card."""
    labels = device["metadata"]["labels"]
    hardware = device["status"].get("hardware")
    found = {"labels": {key: labels[label] for key, label in LABELS.items() if label in labels}}
    found |= _lacks(device, address)
    return found if hardware is None else {**found, **_hardware(hardware, address), **_family(labels)}


def _lacks(device: dict[str, Any], address: str) -> dict[str, Any]:
    incomplete = condition(device, "InventoryIncomplete")
    if incomplete["status"] == "False":
        return {"lacks": []}
    message, node = incomplete["message"], device["status"]["nodeName"]
    # What, of which card, and from where.
    assert incomplete["status"] == "True"
    assert address in message
    assert f"NodeFeature {names.NAMESPACE}/{names.agent_feature(node)}" in message
    lacks = re.search("lacks ((?:[a-z_]+, )*[a-z_]+)", message)
    unreadable = re.findall("([a-z_]+)='", message)
    found: dict[str, Any] = {"lacks": lacks[1].split(", ") if lacks else []}
    return {**found, "unreadable": unreadable} if unreadable else found


def _hardware(hardware: dict[str, Any], address: str) -> dict[str, Any]:
    pci, mig, capability = hardware["pci"], hardware.get("mig"), hardware.get("computeCapability")
    assert pci["address"] == address
    found: dict[str, Any] = {
        "pci": f"{pci['vendor']}:{pci['device']} {pci['class']}",
        "uuid": hardware.get("uuid"),
        "product": hardware.get("product"),
        "memory_mib": hardware.get("memoryMiB"),
        "numa": hardware.get("numaNode"),
        "compute": f"{capability['major']}.{capability['minor']}" if capability else None,
        "precision": " ".join(hardware["precision"]["supported"]) if "precision" in hardware else None,
        "nvlink_peers": len(hardware["nvlink"]["peers"]) if "nvlink" in hardware else None,
    }
    if mig is not None:
        found["mig"] = "no" if not mig["capable"] else "on" if mig["enabled"] else "off"
        found["mig_strategy"] = None if mig["strategy"] == "none" else mig["strategy"]
        found["mig_types"] = {one["name"]: one["count"] for one in mig["types"]} or None
        found["mig_profiles"] = mig["profilesSupported"] or None
    return {key: value for key, value in found.items() if value is not None}


def _family(labels: dict[str, str]) -> dict[str, str]:
    return {"family": labels[names.LABEL_FAMILY]} if names.LABEL_FAMILY in labels else {}
