"""A machine as files: sysfs and procfs trees, and a host's folders, that tests change while the agent reads them."""

from __future__ import annotations

import shutil
from pathlib import Path

from controllers.domain.pci import canonical

TREES = Path(__file__).resolve().parents[1] / "trees"
BOOT = "11111111-2222-3333-4444-555555555555"
PROPRIETARY = (
    "NVRM version: NVIDIA UNIX x86_64 Kernel Module  {}  Thu Oct 19 18:56:32 UTC 2023\nGCC version:  gcc version 12\n"
)
OPEN = (
    "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  {}  Release Build  (dvs-builder@U22)  Tue Jul 22\n"
    "GCC version:  gcc version 13\n"
)


class Machine:
    """Folders `sys`, `proc` and `root` below one of the test's."""

    def __init__(self, folder: Path, tree: str = "none") -> None:
        self.sys, self.proc, self.root = folder / "sys", folder / "proc", folder / "root"
        self.devices = self.sys / "bus" / "pci" / "devices"
        self.real = self.sys / "devices" / "pci0000:00"
        self._nvidia = self.proc / "driver" / "nvidia"
        self.module = self.sys / "module" / "nvidia"
        for made in (
            self.module.parent,
            self.devices,
            self.real,
            self.root / "usr" / "bin",
            self.proc / "sys" / "kernel" / "random",
        ):
            made.mkdir(parents=True)
        (self.proc / "sys" / "kernel" / "random" / "boot_id").write_text(f"{BOOT}\n")
        self.plug(tree)

    @property
    def environment(self) -> dict[str, str]:
        """Where a program finds this machine."""
        return {"HOST_SYS": str(self.sys), "HOST_PROC": str(self.proc), "HOST_ROOT": str(self.root)}

    def plug(self, tree: str, *addresses: str) -> None:
        """Put in what a recorded tree has, or some of it; each function appears whole."""
        by_folder: dict[str, list[str]] = {}
        for line in (TREES / f"{tree}.txt").read_text().splitlines():
            if line and not line.startswith("#"):
                by_folder.setdefault(line.partition("/")[0], []).append(line.partition("/")[2])
        for name in sorted(by_folder):
            if not addresses or name in addresses:
                self._make(name, by_folder[name])

    def _make(self, name: str, lines: list[str]) -> None:
        folder = self.real / f".{name}"
        folder.mkdir()
        for line in lines:
            key, arrow, target = line.partition(" -> ")
            if arrow:
                (folder / key).symlink_to(target)
            else:
                key, _, value = line.partition(": ")
                (folder / key).write_text(f"{value}\n")
        folder.rename(self.real / name)
        (self.devices / name).symlink_to(f"../../../devices/pci0000:00/{name}")

    def unplug(self, name: str) -> None:
        """Take a function out."""
        (self.devices / name).unlink()
        shutil.rmtree(self.real / name)

    def file(self, name: str, file: str) -> Path:
        """A file of a function."""
        return self.real / name / file

    def bind(self, name: str, driver: str) -> None:
        """Bind a function to a kernel driver, or to none."""
        link = self.file(name, "driver")
        link.unlink(missing_ok=True)
        if driver:
            link.symlink_to(f"../../../../bus/pci/drivers/{driver}")

    def load(self, version: str, *cards: tuple[str, str, str], form: str = OPEN) -> None:
        """Load NVIDIA's driver, with cards as (address, model, uuid)."""
        self.unload()
        self._nvidia.mkdir(parents=True)
        (self._nvidia / "version").write_text(form.format(version))
        self.module.mkdir()
        (self.module / "version").write_text(f"{version}\n")
        for address, model, uuid in cards:
            folder = self._nvidia / "gpus" / address
            folder.mkdir(parents=True)
            lines = (f"Model: \t\t {model}", "IRQ:   \t\t 77", f"GPU UUID: \t {uuid}", "Bus Type: \t PCIe")
            (folder / "information").write_text(
                "\n".join([*lines, f"Bus Location: \t {address}", "Device Minor: \t 0"])
            )

    def unload(self) -> None:
        """Unload it."""
        shutil.rmtree(self._nvidia, ignore_errors=True)
        self.unload_behind_a_copy()

    def unload_behind_a_copy(self) -> None:
        """Unload it where the container's `/proc/driver/nvidia` is a copy, which stays."""
        shutil.rmtree(self.module, ignore_errors=True)

    def write(self, path: str, text: str = "") -> Path:
        """A file of the host."""
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        return file


def spelled(addresses: list[str]) -> list[str]:
    """Addresses in the one spelling."""
    return [found for address in addresses if (found := canonical(address))]
