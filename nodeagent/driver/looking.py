"""Looks at a node: its system, its kernel's modules, who has cards open, whose driver is there, and how much room."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Final, Literal

from controllers.api.driver_look import HOLDERS_MAX, Holder, Look, Module
from controllers.domain.driver import files
from controllers.domain.driver.systems import system_of
from nodeagent.host import library, modules, openfiles, procfs, sysfs, system
from nodeagent.host.facts import cards
from nodeagent.host.hostfiles import Reader, inside, text

if TYPE_CHECKING:
    from pathlib import Path

    from nodeagent.host.modules import KernelModule
    from nodeagent.host.openfiles import OpenFile
    from nodeagent.host.paths import HostPaths

DEVICES: Final = re.compile(r"/dev/nvidia[\w-]*(?:/[\w-]+)?(?: \(deleted\))?$")
"""How paths of the driver's device files end. A process in a root of its own has them below that."""
MODULES: Final = (
    "nvidia_drm",
    "nvidia_modeset",
    "nvidia_uvm",
    "nvidia_peermem",
    "nvidia_fs",
    "nvidia_vgpu_vfio",
    "gdrdrv",
    "nvidia",
)
"""The driver's modules, in the order in which they can be unloaded."""
NOUVEAU: Final = "nouveau"
DAEMONS: Final = frozenset(
    name[:15] for name in ("nvidia-persistenced", "nv-fabricmanager", "nvidia-gridd", "nvidia-topologyd", "nvlsm")
)
"""Programs that the driver's container ends itself, by the name that the kernel keeps of them."""
NVIDIA: Final = "10de"
UNKNOWN: Final = "unknown"
"""Version of a driver of the host that does not say it."""
DEPENDENCIES_MAX: Final = 16 << 20
PID_MAX: Final = 64
_MODULE_FILE: Final = re.compile(r"^\S*\bnvidia\.ko(?:\.\w+)?:", re.MULTILINE)
_VERSION: Final = re.compile(r"\.so\.([0-9]+\.[0-9]+(?:\.[0-9]+)?)$")
_UPPER: Final = re.compile(r"upperdir=([^,\s]+)")
_MOUNT_POINT: Final = 4
RUNTIME_DATA: Final = (
    "var/lib/rancher/k3s/agent/containerd",
    "var/lib/rancher/rke2/agent/containerd",
    "var/lib/containers/storage",
    "var/lib/docker",
    "var/lib/containerd",
)
"""Where runtimes keep images, for a container whose own mounts do not say it."""


def observe(where: HostPaths) -> Look:
    """All that is seen at this moment; what cannot be seen is left out."""
    host = Reader(where.root)
    told, kernel = system.os_release(host), system.kernel(where.proc)
    return Look(
        system=system_of(told.get("ID", ""), told.get("VERSION_ID", "")),
        kernel=kernel[:253],
        next_kernel=(system.next_kernel(host, kernel) or "")[:253],
        boot_id=procfs.boot_id(where.proc)[:63],
        secure_boot=system.secure_boot(where.sys),
        lockdown=system.lockdown(where.sys),
        modules=tuple(_module(one) for one in loaded(where.sys)),
        holders=tuple(_holder(one) for one in holders(where.proc, driver_pod(host, where.proc))[:HOLDERS_MAX]),
        host_driver=host_driver(where, kernel)[:64],
        free_mib=free_mib(where),
        mofed=mofed(where),
        gpus=gpus(where.sys),
    )


def loaded(sys: Path) -> list[KernelModule]:
    """The driver's modules that are loaded, in the order in which they can be unloaded, and nouveau."""
    return [found for name in (*MODULES, NOUVEAU) if (found := modules.read(sys, name)) is not None]


def holders(proc: Path, driver: str = "") -> list[OpenFile]:
    """Processes that have the driver's devices open, but for daemons in the driver's own pod, which ends them itself.

    `driver`: the uid of that pod; empty where no driver's container runs.
    """
    found = openfiles.processes(proc, DEVICES)
    return [one for one in found if not (driver and one.pod_uid == driver and one.command in DAEMONS)]


def driver_pod(host: Reader, proc: Path) -> str:
    """The uid of the pod in which NVIDIA's program runs, by the pid that it notes; empty where it does not run."""
    told = host.text(files.LOCK.lstrip("/"), PID_MAX).strip()
    return openfiles.pod_of(proc, int(told)) if told.isdecimal() else ""


def host_driver(where: HostPaths, kernel: str) -> str:
    """Version of the driver that the host itself has installed, by its library or its module's file; empty without."""
    found = library.first(where.root)
    if found is not None:
        version = _VERSION.search(found.name)
        return version[1] if version else UNKNOWN
    for folder in system.MODULES:
        if _MODULE_FILE.search(text(where.root, f"{folder}/{kernel}/modules.dep", DEPENDENCIES_MAX)):
            return UNKNOWN
    return ""


def mofed(where: HostPaths) -> Literal["", "Host", "Container"]:
    """Whose MOFED is loaded. Its own module for older kernels tells it from the kernel's drivers of the same name."""
    if inside(where.root, "run/mellanox/drivers/.driver-ready") is not None:
        return "Container"
    return "Host" if modules.is_there(where.sys, "mlx_compat") else ""


def gpus(sys: Path) -> int:
    """NVIDIA's cards on the bus; none where it cannot be read."""
    try:
        return sum(one.vendor == NVIDIA for one in cards.cards(sysfs.scan(sys)))
    except sysfs.ScanError:
        return 0


def free_mib(where: HostPaths) -> int | None:
    """Free space where the runtime keeps the data of this very container; None where that is not seen."""
    mounted = (line for line in text(where.proc, "self/mountinfo", DEPENDENCIES_MAX).splitlines())
    own = (_UPPER.search(line) for line in mounted if line.split()[_MOUNT_POINT : _MOUNT_POINT + 1] == ["/"])
    places = [*(found[1] for found in own if found), *RUNTIME_DATA]
    for place in places:
        if (found := inside(where.root, place)) is None:
            continue
        try:
            told = os.statvfs(found)
        except OSError:
            continue
        return told.f_bavail * told.f_frsize >> 20
    return None


def _module(one: KernelModule) -> Module:
    return Module(name=one.name, version=one.version[:64], state=one.state[:16], users=one.uses)


def _holder(one: OpenFile) -> Holder:
    return Holder(pid=one.pid, command=one.command[:64], pod_uid=one.pod_uid or None)
