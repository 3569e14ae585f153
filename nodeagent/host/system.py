"""Reads what a node is: its system, kernels, Secure Boot and lockdown, container runtime, and whose driver it has.

From files alone, without privileges; nothing of the host is run. What cannot be seen from where this runs is left out
and not guessed, and what is there and closed to us is named in `failed`:

* The next kernel is the newest release in `/usr/lib/modules` (`/lib/modules` on hosts that keep the two apart) whose
  package is there, and not just what a build has left behind. Where the running kernel is not among them, the host
  keeps its kernels elsewhere and nothing is said. A boot loader that is told to start an older one is not asked.
* Secure Boot: the firmware's own variable. A machine without UEFI has none, and that is no Secure Boot.
* The runtime is that of this very container, as the kernel tells by the mounts which it got; outside of one, unknown.
* The driver is the host's where its library lies in the host's own root, and a container's where it lies in that of a
  driver's container.
"""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING, Final

from controllers.api import system_facts
from controllers.api.system_facts import SystemFacts
from controllers.domain.driver.systems import system_of
from nodeagent.host import driverroot, procfs
from nodeagent.host.facts.records import System
from nodeagent.host.hostfiles import Reader

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from nodeagent.host.driverroot import DriverRoot
    from nodeagent.host.paths import HostPaths

OS_RELEASE: Final = ("etc/os-release", "usr/lib/os-release")
MODULES: Final = ("lib/modules", "usr/lib/modules")
SHIPPED: Final = "modules.builtin"
"""A file of a kernel's package. What modules built beside it leave behind when the kernel goes has none."""
SECURE_BOOT: Final = "SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"
FILE_MAX: Final = 65536
_ATTRIBUTES: Final = 4
"""Bytes before a variable's value."""
_LOCKDOWN: Final = re.compile(r"\[(none|integrity|confidentiality)\]")
_PART: Final = re.compile(r"\d+|[a-z]+", re.IGNORECASE)
_ROOT, _MOUNT_POINT = 3, 4
"""Their places in a line of mountinfo."""
_MADE_BY_RUNTIME: Final = frozenset({"/etc/hostname", "/etc/resolv.conf", "/dev/shm"})  # noqa: S108 - a mount point
RUNTIMES: Final = {
    r"k3s/agent/containerd/": "k3s",
    r"rke2/agent/containerd/": "rke2",
    r"/k0s/containerd/": "k0s",
    r"/microk8s/": "microk8s",
    r"/io\.containerd\.": "containerd",
    r"/[a-z0-9]+-containers/[0-9a-f]+/userdata/": "cri-o",  # by its storage driver: overlay-containers, vfs-containers
    r"/docker/containers/": "docker",
}
"""Runtimes by a pattern of the folders in which they keep files of a container, the first that is found."""
CONFIGURATIONS: Final = {
    "containerd": ("etc/containerd/config.toml",),
    "k3s": ("var/lib/rancher/k3s/agent/etc/containerd/config.toml",),
    "rke2": ("var/lib/rancher/rke2/agent/etc/containerd/config.toml",),
    "k0s": ("etc/k0s/containerd.toml",),
    "cri-o": ("etc/crio/crio.conf", "etc/crio/crio.conf.d"),
    "docker": ("etc/docker/daemon.json",),
}
"""Where each has its configuration unless it is told otherwise, as paths of the host."""


def read(where: HostPaths, driver: DriverRoot) -> System:
    """All that can be seen of the node's system; `driver`: where its driver lies now."""
    host, failed = Reader(where.root), set[str]()
    told = os_release(host)
    failed |= {system_facts.OS_ID, system_facts.OS_VERSION, system_facts.SYSTEM} if host.closed or not told else set()
    os_id, version = told.get("ID", ""), told.get("VERSION_ID", "")
    running, kernels = kernel(where.proc), Reader(where.root)
    following = next_kernel(kernels, running)
    failed |= {system_facts.NEXT_KERNEL} if kernels.closed else set()
    runtime = container_runtime(where.proc)
    facts = SystemFacts(
        os_id=os_id,
        os_version=version,
        system=system_of(os_id, version) if os_id else "",
        kernel=running,
        next_kernel=following or "",
        secure_boot=secure_boot(where.sys),
        lockdown=lockdown(where.sys),
        runtime=runtime,
        runtime_config=configuration(Reader(where.root), runtime),
        driver_source=driver_source(driver),
    )
    return System(facts, tuple(sorted(failed)))


def os_release(host: Reader) -> Mapping[str, str]:
    """The host's os-release by key; empty where there is none."""
    text = next((text for path in OS_RELEASE if (text := host.text(path, FILE_MAX))), "")
    found = {}
    for line in text.splitlines():
        key, sign, value = line.partition("=")
        if sign and not key.startswith("#"):
            found[key.strip()] = _unquoted(value)
    return found


def kernel(proc: Path) -> str:
    """Release of the running kernel; empty where it cannot be read."""
    return procfs.text(proc / "sys" / "kernel" / "osrelease").strip()


def next_kernel(host: Reader, running: str) -> str | None:
    """Release of the newest installed kernel; empty where that runs, None where nobody can tell."""
    for folder in MODULES:
        installed = [name for name in host.names(folder) if host.has(f"{folder}/{name}/{SHIPPED}")]
        if running in installed:
            newest = max(installed, key=_by_version)
            return "" if newest == running else newest
    return None


def secure_boot(sys: Path) -> bool | None:
    """Whether the firmware checks signatures; None where that cannot be seen."""
    firmware = sys / "firmware"
    variables = firmware / "efi" / "efivars"
    try:
        if not (firmware / "efi").exists():
            return False if firmware.is_dir() else None
        there = {path.name for path in variables.iterdir()}
        if SECURE_BOOT not in there:
            return False if there else None
        value = (variables / SECURE_BOOT).read_bytes()
    except OSError:
        return None
    return value[_ATTRIBUTES] == 1 if len(value) > _ATTRIBUTES else None


def lockdown(sys: Path) -> str:
    """The kernel's lockdown mode in force; empty where it has none, or that cannot be seen."""
    told = _LOCKDOWN.search(procfs.text(sys / "kernel" / "security" / "lockdown"))
    return told[1] if told else ""


def container_runtime(proc: Path) -> str:
    """Kind of the runtime that made this container; empty where nothing tells."""
    lines = (line.split() for line in procfs.text(proc / "self" / "mountinfo").splitlines())
    kept = [line[_ROOT] for line in lines if len(line) > _MOUNT_POINT and line[_MOUNT_POINT] in _MADE_BY_RUNTIME]
    return next((kind for part, kind in RUNTIMES.items() if any(re.search(part, root) for root in kept)), "")


def configuration(host: Reader, runtime: str) -> str:
    """The file, or folder, that configures the runtime, as the host calls it; empty where none is seen."""
    return next((f"/{path}" for path in CONFIGURATIONS.get(runtime, ()) if host.has(path)), "")


def driver_source(driver: DriverRoot) -> str:
    """Whose driver is installed: `host`, `container`; empty where no library of one is found."""
    if not driver.library:
        return ""
    return "host" if driver.name == driverroot.HOST else "container"


def _by_version(release: str) -> list[tuple[int, int, str]]:
    """In the order of releases: numbers count as such, and a candidate (`-rc1`) comes before what it became."""
    parts: Iterable[str] = _PART.findall(release)
    return [_part(part) for part in parts] + [(1, 0, "")]


def _part(part: str) -> tuple[int, int, str]:
    if part.isdigit():
        return (3, int(part), "")
    return (0, 0, "") if part == "rc" else (2, 0, part)


def _unquoted(value: str) -> str:
    try:
        return " ".join(shlex.split(value))
    except ValueError:
        return ""
