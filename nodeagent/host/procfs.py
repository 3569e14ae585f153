"""Reads NVIDIA's kernel module in /proc and /sys, without a device node and without its library.

`/sys/module/nvidia` is the kernel's own word on whether the module is loaded, and in which version (the
proprietary module and the open one both have it).

`/proc/driver/nvidia` (the driver's documentation, chapter "Using the /proc File System Interface") has
product and uuid beside. It is the host's in a plain container. Where NVIDIA's legacy runtime has started
the container it is a copy in memory, made when the container was: it outlives the module, and keeps the old
version after an upgrade. So sysfs decides, and a copy of another version is not believed at all; procfs alone
is asked only where `/sys/module` cannot be seen.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from controllers.domain.pci import canonical
from nodeagent.host.facts.records import Driver, DriverCard

if TYPE_CHECKING:
    from pathlib import Path

FILE_MAX = 65536
# `NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.129.03  Thu Oct 19 …`, and of the open module:
# `NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.65.06  Release Build  (dvs-builder@…)`
_VERSION = re.compile(r"NVRM version:.*?Kernel Module\b.*?\s([0-9]+\.[0-9]+(?:\.[0-9]+)?)(?:\s|$)")
_PLAIN_VERSION = re.compile(r"[0-9]+\.[0-9]+(?:\.[0-9]+)?")
_NO_MODEL = {"", "unknown"}
_FORM = re.compile(r"NVRM version: NVIDIA UNIX (Open )?.*?Kernel Module")
_MINOR = re.compile(r"^DeviceFileMinor:\s*([0-9]{1,7})\s*$", re.MULTILINE)
_MOUNT_POINT = 4
"""Its place in a line of mountinfo."""
_MAJOR = re.compile(r"^ *([0-9]{1,4}) (\S+)$", re.MULTILINE)


def read(proc: Path, sys: Path) -> Driver | None:
    """The loaded driver and its cards; None where it is not loaded."""
    if not is_loaded(proc, sys):
        return None
    version = _by_sysfs(sys) or _by_procfs(proc)
    cards = information(proc) if believed(proc, sys) else {}
    return Driver(
        version=version,
        cards={address: _card(address, told) for address, told in cards.items()},
        source="procfs",
        load=load(sys),
        failed=() if version else ("version",),
    )


def believed(proc: Path, sys: Path) -> bool:
    """Whether `/proc/driver/nvidia` is of the module that is loaded, and not a copy from before."""
    by_sysfs, by_procfs = _by_sysfs(sys), _by_procfs(proc)
    return is_loaded(proc, sys) and not (by_sysfs and by_procfs and by_sysfs != by_procfs)


def is_loaded(proc: Path, sys: Path) -> bool:
    """Whether NVIDIA's module is loaded."""
    modules = sys / "module"
    return (modules / "nvidia" if modules.is_dir() else proc / "driver" / "nvidia" / "version").exists()


def _by_sysfs(sys: Path) -> str:
    plain = _PLAIN_VERSION.fullmatch(text(sys / "module" / "nvidia" / "version").strip())
    return plain[0] if plain else ""


def _by_procfs(proc: Path) -> str:
    told = _VERSION.search(text(proc / "driver" / "nvidia" / "version"))
    return told[1] if told else ""


def layout(proc: Path) -> tuple[str, ...]:
    """What changes when cards are split: the MIG instances that have a file of their own."""
    folder = proc / "driver" / "nvidia" / "capabilities"
    try:
        return tuple(sorted(str(path.relative_to(folder)) for path in folder.glob("gpu*/mig/gi*")))
    except OSError:
        return ()


def access(proc: Path) -> frozenset[int] | None:
    """Minors of the device nodes (`/dev/nvidia-caps/nvidia-cap<N>`) that give access to the MIG instances that exist.

    None where NVIDIA's legacy runtime has put a copy in place: that has the files of the moment when it was made.
    """
    mounts = (line.split() for line in text(proc / "self" / "mountinfo").splitlines())
    if any(len(mount) > _MOUNT_POINT and mount[_MOUNT_POINT] == "/proc/driver/nvidia" for mount in mounts):
        return None
    folder = proc / "driver" / "nvidia" / "capabilities"
    try:
        files = [*folder.glob("gpu*/mig/gi*/access"), *folder.glob("gpu*/mig/gi*/ci*/access")]
    except OSError:
        return frozenset()
    return frozenset(int(told[1]) for file in files if (told := _MINOR.search(text(file))))


def boot_id(proc: Path) -> str:
    """The id of this boot of the machine, as kubelet reports it; empty where it cannot be read."""
    found = text(proc / "sys" / "kernel" / "random" / "boot_id").strip()
    return found if re.fullmatch("[0-9a-f-]{8,64}", found) else ""


def load(sys: Path) -> str:
    """A word for this loading of the module, that no other one of the same boot has; empty where none is seen.

    The number of its folder: the kernel gives each new entry of sysfs the next one, and an entry keeps its own. Times
    of that folder say when somebody first looked, and another time when memory was short meanwhile.
    """
    try:
        return str((sys / "module" / "nvidia").stat().st_ino)
    except OSError:
        return ""


def information(proc: Path) -> dict[str, dict[str, str]]:
    """What the driver says of each card that it has taken (`gpus/<address>/information`), by address."""
    try:
        paths = sorted((proc / "driver" / "nvidia" / "gpus").iterdir())
    except OSError:
        return {}
    found = {}
    for path in paths:
        lines = (line.partition(":") for line in text(path / "information").splitlines())
        told = {key.strip(): value.strip() for key, _, value in lines}
        address = canonical(path.name) or canonical(told.get("Bus Location", ""))
        if address is not None:
            found[address] = told
    return found


def form(proc: Path) -> str:
    """Which of the two modules is loaded: `open`, `proprietary`; empty where it does not say."""
    told = _FORM.search(text(proc / "driver" / "nvidia" / "version"))
    return "" if told is None else "open" if told[1] else "proprietary"


def majors(proc: Path) -> dict[str, int] | None:
    """Numbers of character devices by name (`nvidia-uvm`), from `/proc/devices`; None where it cannot be read."""
    head, _, _ = text(proc / "devices").partition("Block devices:")
    return {name: int(number) for number, name in _MAJOR.findall(head)} or None


def _card(address: str, told: dict[str, str]) -> DriverCard:
    product, uuid = told.get("Model", ""), told.get("GPU UUID", "")
    return DriverCard(
        address,
        # Question marks: nobody has used the card yet, so that its uuid has not been read.
        uuid=uuid if re.fullmatch("GPU-[0-9a-f-]{36}", uuid) else "",
        product="" if product.lower() in _NO_MODEL else product,
    )


def text(path: Path) -> str:
    """A file of the kernel's, up to `FILE_MAX` bytes; empty where it cannot be read."""
    try:
        with path.open("rb") as file:
            return file.read(FILE_MAX).decode("utf-8", "replace")
    except OSError:
        return ""
