"""A shape as files: what the kernel, the driver and the container toolkit show of such a machine.

Below one folder, for programs that take the host's places as flags: `sys` (PCI functions, their
drivers, IOMMU groups, SR-IOV), `proc` (the driver's version and cards, the boot id) and `root` (the
toolkit with its runtime's configuration). The chipset's bridges are left out: the catalogue counts
them and gives them no addresses.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from sim.hardware.shape import Card, card_uuid, iommu_group

if TYPE_CHECKING:
    from sim.hardware import Device, Shape, Software
    from sim.hardware.catalogue import System

NVIDIA, NVIDIA_MODULE, NVSWITCH_CLASS = "10de", "nvidia", "0680"
DISPLAY_CLASS = "0300"
BOOT_ID = "c0ffee00-1111-4222-8333-444455556666"
_DRIVERS = {("15b3", "02"): "mlx5_core", ("144d", "01"): "nvme", ("1344", "01"): "nvme", ("1a03", "03"): "ast"}
"""Kernel drivers of the other devices, by vendor and base class; any other has none bound."""


@dataclass(frozen=True, slots=True)
class Tree:
    """Where the files are."""

    sys: Path
    proc: Path
    root: Path

    def pull(self, address: str) -> None:
        """Take a function out of the running machine, as the kernel does when it is unplugged or removed."""
        link = self.sys / "bus" / "pci" / "devices" / address
        real = link.resolve()
        link.unlink()
        shutil.rmtree(real)
        shutil.rmtree(self.proc / "driver" / "nvidia" / "gpus" / address, ignore_errors=True)


def write(
    folder: Path,
    shape: Shape,
    *,
    node: str = "node",
    driver: bool = True,
    toolkit: bool = True,
    lost: Collection[str] = (),
    bound: Mapping[str, str] | None = None,
    boot_id: str = BOOT_ID,
    system: System | None = None,
) -> Tree:
    """Write the files of a machine of that shape; `folder` is made and must not hold another.

    `system`: its operating system, which leaves no trace where none is given; `driver`: whether the cards' driver is
    loaded; `lost`: addresses that are not on the bus; `bound`: other drivers of cards, as `vfio-pci` (empty for none).
    """
    tree = Tree(folder / "sys", folder / "proc", folder / "root")
    software = shape.software if driver else None
    cards = [card for card in shape.cards if card.address not in lost]
    others = [device for device in shape.devices if device.address not in lost]
    functions: list[Card | Device] = [*cards, *others]
    for device in functions:
        usual = _driver(device, loaded=software is not None)
        _function(tree.sys, device, (bound or {}).get(device.address, usual))
    _text(tree.proc / "sys" / "kernel" / "random" / "boot_id", boot_id)
    if software is not None:
        _module(tree, software)
        held = [card for card in cards if (bound or {}).get(card.address, NVIDIA_MODULE) == NVIDIA_MODULE]
        for minor, card in enumerate(held):
            _information(tree.proc, node, card, minor)
    (tree.root / "usr" / "bin").mkdir(parents=True)
    if toolkit and shape.software is not None:
        _toolkit(tree.root, shape.software)
    if system is not None:
        _system(tree, system)
    return tree


def _driver(device: Card | Device, *, loaded: bool) -> str:
    if device.vendor == NVIDIA:
        return ("nvidia-nvswitch" if device.class_ == NVSWITCH_CLASS else NVIDIA_MODULE) if loaded else ""
    return _DRIVERS.get((device.vendor, device.class_[:2]), "")


def _function(sys: Path, device: Card | Device, driver: str) -> None:
    domain, bus, _ = device.address.split(":")
    real = sys / "devices" / f"pci{domain}:{bus}" / device.address
    numa = device.numa if isinstance(device, Card) else -1
    ids = {
        "vendor": device.vendor,
        "device": device.device,
        "subsystem_vendor": device.subsystem_vendor,
        "subsystem_device": device.subsystem_device,
        "class": f"{device.class_}00",
    }
    for name, value in ids.items():
        _text(real / name, f"0x{value}")
    _text(real / "modalias", _modalias(ids))
    _text(real / "numa_node", str(numa))
    if device.class_ == DISPLAY_CLASS:
        _text(real / "boot_vga", "1")
    if isinstance(device, Card) and device.sriov_totalvfs:
        _text(real / "sriov_totalvfs", str(device.sriov_totalvfs))
        _text(real / "sriov_numvfs", "0")
    _link(sys / "bus" / "pci" / "devices" / device.address, real)
    group = sys / "kernel" / "iommu_groups" / iommu_group(device.address)
    _link(group / "devices" / device.address, real)
    _link(real / "iommu_group", group)
    if driver:
        there = sys / "bus" / "pci" / "drivers" / driver
        _link(there / device.address, real)
        _link(real / "driver", there)


def _modalias(ids: Mapping[str, str]) -> str:
    """The ids in one text, as modprobe looks for a driver by them."""
    upper = {name: value.upper() for name, value in ids.items()}
    base, sub, interface = (upper["class"][at : at + 2] for at in (0, 2, 4))
    return (
        f"pci:v0000{upper['vendor']}d0000{upper['device']}"
        f"sv0000{upper['subsystem_vendor']}sd0000{upper['subsystem_device']}bc{base}sc{sub}i{interface}"
    )


def _module(tree: Tree, software: Software) -> None:
    _text(tree.sys / "module" / NVIDIA_MODULE / "version", software.driver)
    built = f"NVRM version: NVIDIA UNIX x86_64 Kernel Module  {software.driver}  Wed Jan  1 00:00:00 UTC 2025"
    _text(tree.proc / "driver" / "nvidia" / "version", f"{built}\nGCC version:  gcc version 11.4.0")


def _information(proc: Path, node: str, card: Card, minor: int) -> None:
    lines = {
        "Model": card.product,
        "IRQ": str(100 + minor),
        "GPU UUID": card_uuid(node, card.address),
        "Bus Type": "PCIe",
        "Bus Location": card.address,
        "Device Minor": str(minor),
    }
    text = "\n".join(f"{key}: \t {value}" for key, value in lines.items())
    _text(proc / "driver" / "nvidia" / "gpus" / card.address / "information", text)


def _toolkit(root: Path, software: Software) -> None:
    """The programs, their package and containerd's configuration, as apt and `nvidia-ctk` leave them."""
    for program in ("nvidia-container-runtime", "nvidia-ctk"):
        _text(root / "usr" / "bin" / program, "#!/bin/sh")
    package = ("Package: nvidia-container-toolkit", "Status: install ok installed", f"Version: {software.toolkit}-1")
    _text(root / "var" / "lib" / "dpkg" / "status", "\n".join(package))
    runtime = 'plugins."io.containerd.grpc.v1.cri".containerd.runtimes.nvidia'
    lines = (
        "version = 2",
        f"[{runtime}]",
        'runtime_type = "io.containerd.runc.v2"',
        f"[{runtime}.options]",
        'BinaryName = "/usr/bin/nvidia-container-runtime"',
    )
    _text(root / "etc" / "containerd" / "config.toml", "\n".join(lines))


def _system(tree: Tree, system: System) -> None:
    """What tells of the system on a machine without UEFI, to a container that containerd made."""
    release = "\n".join(f'{key}="{value}"' for key, value in system.release.items() if "." not in key)
    _text(tree.root / "etc" / "os-release", release)
    _text(tree.proc / "sys" / "kernel" / "osrelease", system.kernel)
    _text(tree.root / "usr" / "lib" / "modules" / system.kernel / "modules.builtin", "kernel/fs/ext4/ext4.ko")
    (tree.sys / "firmware").mkdir(parents=True)
    kept = "/var/lib/containerd/io.containerd.grpc.v1.cri/sandboxes/1/hostname"
    if not (configuration := tree.root / "etc" / "containerd" / "config.toml").exists():
        _text(configuration, "version = 2")
    _text(tree.proc / "self" / "mountinfo", f"1 2 8:1 {kept} /etc/hostname rw - ext4 /dev/sda1 rw")


def _text(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{text}\n")


def _link(path: Path, target: Path) -> None:
    """A relative link, as sysfs has them: the tree can be moved."""
    path.parent.mkdir(parents=True, exist_ok=True)
    target.mkdir(parents=True, exist_ok=True)
    path.symlink_to(os.path.relpath(target, path.parent))
