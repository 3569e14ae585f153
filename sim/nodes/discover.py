"""What `nodeagent discover` publishes of a node: NodeFeature `gpu-<node>` (docs/design.md, The agent's report)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from controllers.api import names as api
from nodeagent.host import attributes
from sim.hardware.shape import iommu_group
from sim.nodes import nvml

if TYPE_CHECKING:
    from sim.hardware import Card
    from sim.nodes.machine import Machine

VERSION = "0.1.0-sim"
BY_PROCFS = ("uuid", "product")
"""What the driver tells of a card in /proc."""


def features(node: str, boot_id: str, machine: Machine) -> dict[str, Any]:
    """The features by their form."""
    toolkit = {"installed": "false"}
    if machine.software is not None and not machine.faults.toolkit:
        toolkit = {"installed": "true", "version": machine.software.toolkit, "runtime_handler": "nvidia"}
    maps = {
        api.FEATURE_TOOLKIT: toolkit,
        api.FEATURE_AGENT: {"boot_id": boot_id, "version": VERSION},
    }
    if machine.software is not None and machine.driver:
        cuda = {} if machine.faults.no_nvml else {"cuda_version": machine.software.cuda}
        maps[api.FEATURE_DRIVER] = {"version": machine.software.driver} | cuda
    cards = [{"attributes": _card(node, card, machine)} for card in machine.cards]
    return {
        "attributes": {name: {"elements": values} for name, values in maps.items()},
        "instances": {api.FEATURE_DEVICE: {"elements": cards}},
    }


def manifest(node: str, features: dict[str, Any]) -> dict[str, Any]:
    """The whole object."""
    return {
        "metadata": {
            "name": api.agent_feature(node),
            "namespace": api.NAMESPACE,
            "labels": {api.NFD_NODE_NAME: node},
        },
        "spec": {"features": features},
    }


def _card(node: str, card: Card, machine: Machine) -> dict[str, str]:
    """One card's attributes: from sysfs, and from NVML where the driver is loaded."""
    seen = {
        "address": card.address,
        "vendor": card.vendor,
        "device": card.device,
        "subsystem_vendor": card.subsystem_vendor,
        "subsystem_device": card.subsystem_device,
        "class": card.class_,
        "numa_node": str(card.numa) if card.numa >= 0 else "",
        "iommu_group": iommu_group(card.address),
        "sriov": "pf" if card.sriov_totalvfs else "none",
    }
    return {key: value for key, value in (seen | _by_driver(node, card, machine)).items() if value}


def _by_driver(node: str, card: Card, machine: Machine) -> dict[str, str]:
    if not machine.driver:
        return {}
    told = attributes.of(nvml.answer(node, card, machine))
    shown = {key: told[key] for key in BY_PROCFS if key in told} if machine.faults.no_nvml else told
    return {"driver": "nvidia", **shown}
