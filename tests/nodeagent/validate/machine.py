"""A simulated machine as files, with what the validators look at beside: libraries, device nodes, CDI."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING

import yaml

from sim.hardware import load
from sim.hardware.sysfs import write
from sim.nvml import Config

if TYPE_CHECKING:
    from pathlib import Path

    from sim.hardware import Shape

SHAPE = "h100-sxm-8"
MAJORS = (
    "Character devices:\n  1 mem\n195 nvidia-frontend\n506 nvidia-caps\n508 nvidia-uvm\n\nBlock devices:\n259 blkext\n"
)
LIBRARIES = "usr/lib/x86_64-linux-gnu"
CONTAINER = "run/nvidia/driver"
"""Where a driver's container mounts its root."""


@dataclass
class Machine:
    """Folders `sys`, `proc`, `root` of the host and `own` of the validating container."""

    folder: Path
    shape: Shape
    bound: dict[str, str]
    driver: bool = True
    node: str = "node"

    def __post_init__(self) -> None:
        tree = write(self.folder / "host", self.shape, node=self.node, driver=self.driver, bound=self.bound)
        self.sys, self.proc, self.root = tree.sys, tree.proc, tree.root
        self.own, self.nvml = self.folder / "own", self.folder / "driver.conf"
        software = self.shape.software
        assert software is not None
        self.version, self.cuda = software.driver, software.cuda
        (self.proc / "devices").write_text(MAJORS)
        for root in (self.root, self.own):
            self.install(root, self.version)
        self.device("nvidiactl", "nvidia-uvm", *(f"nvidia{minor}" for minor in range(len(self.shape.cards))))
        self.config = Config.of(self.shape, self.node)
        self.config.write(self.nvml)

    @property
    def addresses(self) -> list[str]:
        return [card.address for card in self.shape.cards]

    @property
    def environment(self) -> dict[str, str]:
        return {
            "HOST_SYS": str(self.sys), "HOST_PROC": str(self.proc), "HOST_ROOT": str(self.root),
            "CONTAINER_ROOT": str(self.own), "NVIDIA_VISIBLE_DEVICES": "all",
        }  # fmt: skip

    def install(self, root: Path, version: str, *names: str) -> None:
        """The driver's libraries of one version, and none of another; the links lead to them."""
        folder = root / LIBRARIES
        folder.mkdir(parents=True, exist_ok=True)
        for name in names or ("libnvidia-ml.so", "libcuda.so"):
            for old in folder.glob(f"{name}.*"):
                old.unlink()
            (folder / f"{name}.{version}").write_text("")
            (folder / f"{name}.1").symlink_to(f"{name}.{version}")

    def contain(self, version: str) -> Path:
        """A driver's container instead of what is there, of another driver or of none."""
        self.end_container()
        self.install(self.root / CONTAINER, version)
        return self.root / CONTAINER

    def end_container(self) -> None:
        """As it ends: its mount goes, and the folder stays."""
        shutil.rmtree(self.root / CONTAINER, ignore_errors=True)
        (self.root / CONTAINER).mkdir(parents=True)

    def uninstall(self, root: Path) -> None:
        shutil.rmtree(root / LIBRARIES)

    def device(self, *names: str) -> None:
        """Files in the container's /dev; plain ones, as making device nodes needs privileges."""
        for name in names:
            (self.own / "dev" / name).parent.mkdir(parents=True, exist_ok=True)
            (self.own / "dev" / name).write_text("")

    def remove(self, *names: str) -> None:
        for name in names:
            (self.own / "dev" / name).unlink()

    def unload(self) -> None:
        """Take the kernel module out; the cards are then bound to nothing."""
        shutil.rmtree(self.proc / "driver")
        shutil.rmtree(self.sys / "module" / "nvidia")
        for address in self.addresses:
            self.bind(address, "")

    def load_anew(self) -> None:
        """The module is unloaded and loaded in the same boot: its folder in sysfs is another one."""
        module = self.sys / "module" / "nvidia"
        shutil.copytree(module, fresh := module.with_name("loaded"))
        shutil.rmtree(module)
        fresh.rename(module)

    def instance(self, number: int, *minors: int) -> None:
        """A GPU instance of the first card, and its compute instance, with the minors of their access files."""
        folder = self.proc / "driver" / "nvidia" / "capabilities" / "gpu0" / "mig" / f"gi{number}"
        for path, minor in zip((folder, folder / "ci0"), minors, strict=True):
            path.mkdir(parents=True, exist_ok=True)
            text = f"DeviceFileMinor: {minor}\nDeviceFileMode: 292\nDeviceFileModify: 1\n"
            (path / "access").write_text(text)

    def manage(self, *minors: int) -> None:
        """The specification for containers that get everything."""
        nodes = ["/dev/nvidiactl", *(f"/dev/nvidia-caps/nvidia-cap{minor}" for minor in minors)]
        devices = [{"name": "all", "containerEdits": {"deviceNodes": [{"path": path} for path in nodes]}}]
        made = {"cdiVersion": "0.5.0", "kind": "management.nvidia.com/gpu", "devices": devices}
        path = self.root / "var" / "run" / "cdi" / "management.nvidia.com-gpu.yaml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(yaml.safe_dump(made))

    def made_by_legacy_runtime(self) -> Path:
        """The /proc of a container with a copy in place of the driver's files: those of the moment when it was made."""
        proc = self.folder / "proc of a container"
        shutil.copytree(self.proc, proc)
        (proc / "self").mkdir(exist_ok=True)
        (proc / "self" / "mountinfo").write_text(
            "101 99 0:5 / /proc rw,nosuid - proc proc rw\n102 101 0:77 / /proc/driver/nvidia rw - tmpfs tmpfs rw\n"
        )
        return proc

    def bind(self, address: str, driver: str) -> None:
        link = self.sys / "bus" / "pci" / "devices" / address / "driver"
        link.unlink(missing_ok=True)
        if driver:
            there = self.sys / "bus" / "pci" / "drivers" / driver
            there.mkdir(parents=True, exist_ok=True)
            link.symlink_to(there)

    def reports_version(self, version: str, *, form: str = "Kernel Module ") -> None:
        """Another kernel module, loaded."""
        text = f"NVRM version: NVIDIA UNIX {form} {version}  Release Build\n"
        (self.proc / "driver" / "nvidia" / "version").write_text(text)
        (self.sys / "module" / "nvidia" / "version").write_text(f"{version}\n")

    def cdi(self, minors: list[int], version: str, name: str = "nvidia.yaml") -> Path:
        """A specification as `nvidia-ctk cdi generate` shapes it."""
        devices = [
            {"name": str(minor), "containerEdits": {"deviceNodes": [{"path": f"/dev/nvidia{minor}"}]}}
            for minor in minors
        ]
        mounts = [{"hostPath": f"/{LIBRARIES}/{lib}.{version}"} for lib in ("libcuda.so", "libnvidia-ml.so")]
        edits = {"env": ["NVIDIA_VISIBLE_DEVICES=void"], "deviceNodes": [{"path": "/dev/nvidiactl"}], "mounts": mounts}
        made = {"cdiVersion": "0.5.0", "kind": "nvidia.com/gpu", "devices": devices, "containerEdits": edits}
        path = self.root / "var" / "run" / "cdi" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(yaml.safe_dump(made))
        return path


def machine(
    folder: Path, bound: dict[str, str] | None = None, *, shape: str = SHAPE, driver: bool = True, node: str = "node"
) -> Machine:
    return Machine(folder, load().shape(shape), bound or {}, driver, node)
