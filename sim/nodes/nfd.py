"""What nfd-worker publishes of a node: NodeFeature `<node>`, of the size that real ones have. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from controllers.api import names as api
from sim.nodes import gfd, names

if TYPE_CHECKING:
    from sim.hardware import Card, Catalogue, Device
    from sim.hardware.catalogue import System
    from sim.nodes.machine import Machine

_AS_MODULES = {"AIO", "EDAC", "INFINIBAND_ON_DEMAND_PAGING", "LIVEPATCH", "NVMEM", "XFS_QUOTA"}


def features(
    node: str, machine: Machine, catalogue: Catalogue, local: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """The features by their form, with the names and values that NFD's sources give them.

    `local`: the labels in files of `features.d`, where GFD writes its own.
    """
    system, host = _system(machine, catalogue), catalogue.hosts[machine.shape.host]
    kernel = machine.host.kernel or system.kernel
    version, _, _ = kernel.partition("-")
    major, minor, revision = version.split(".")
    numa = len({card.numa for card in machine.cards}) or 1
    attributes: dict[str, dict[str, str]] = {
        "cpu.model": {"vendor_id": host.vendor_id, "family": str(host.family), "id": str(host.model)},
        "cpu.topology": {"hardware_multithreading": "true", "socket_count": str(numa)},
        "cpu.cstate": {"enabled": "true"},
        "cpu.pstate": {"status": "active", "scaling_governor": "performance", "turbo": "true"},
        "kernel.config": {name: "m" if name in _AS_MODULES else "y" for name in system.config.split()},
        "kernel.selinux": {"enabled": "false"},
        "kernel.version": {"full": kernel, "major": major, "minor": minor, "revision": revision},
        "memory.numa": {"is_numa": str(numa > 1).lower(), "node_count": str(numa)},
        "system.name": {"nodename": node},
        "system.osrelease": dict(system.release),
    }
    if local:
        attributes[gfd.FEATURE] = dict(local)
    flags = {
        "cpu.cpuid": host.features.split(),
        "kernel.loadedmodule": [*system.modules.split(), *(system.driver_modules.split() if machine.driver else ())],
    }
    return {
        "attributes": {name: {"elements": values} for name, values in attributes.items()},
        "flags": {name: {"elements": {word: {} for word in words}} for name, words in flags.items()},
        "instances": {"pci.device": {"elements": [{"attributes": device} for device in _pci(machine, catalogue)]}},
    }


def _system(machine: Machine, catalogue: Catalogue) -> System:
    """The machine's system; the usual one of a machine that was made without a host."""
    return catalogue.systems.get(machine.host.system, catalogue.system)


def manifest(node: str, features: dict[str, Any]) -> dict[str, Any]:
    """The whole object.

    Without labels it has no map of labels: server-side apply makes null of a map that one empties.
    """
    local = features["attributes"].get(gfd.FEATURE)
    return {
        "metadata": {
            "name": node,
            "namespace": names.NFD_NAMESPACE,
            "labels": {api.NFD_NODE_NAME: node},
            "annotations": {"nfd.node.kubernetes.io/worker.version": "v0.17.3"},
        },
        "spec": {"features": features} | ({"labels": local["elements"]} if local else {}),
    }


def _pci(machine: Machine, catalogue: Catalogue) -> list[dict[str, str]]:
    """Elements in the order of the bus; they carry no address, which is why ours do."""
    seated: list[Card | Device] = [*machine.cards, *machine.devices]
    chipset = [
        {"class": b.class_, "vendor": b.vendor, "device": b.device, "subsystem_vendor": b.vendor}
        | {"subsystem_device": "0000"}
        for b in catalogue.hosts[machine.shape.host].bridges
        for _ in range(b.count)
    ]
    return chipset + [_element(device) for device in sorted(seated, key=lambda device: device.address)]


def _element(device: Card | Device) -> dict[str, str]:
    made = {
        "class": device.class_,
        "vendor": device.vendor,
        "device": device.device,
        "subsystem_vendor": device.subsystem_vendor,
        "subsystem_device": device.subsystem_device,
    }
    total = getattr(device, "sriov_totalvfs", 0)
    return made | ({"sriov_totalvfs": str(total)} if total else {})
