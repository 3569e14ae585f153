"""A node made of files, on which modules are loaded and processes have devices open, and a kernel that obeys."""

from __future__ import annotations

import errno
import os
import shutil
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from controllers.domain.driver import files
from nodeagent.driver.prepare import Clock
from nodeagent.host.paths import HostPaths
from tests.nodeagent.discover.machine import Machine

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

KERNEL: Final = "6.8.0-71-generic"
VERSION: Final = "580.178.04"
DIGEST: Final = "0123456789"
DRIVER: Final = ("nvidia", "nvidia_modeset", "nvidia_uvm")
POD: Final = "0f3f0a7e-1111-4222-8333-444455556666"
OS_RELEASE: Final = 'ID=ubuntu\nVERSION_ID="24.04"\n'


class Node:
    """The node's folders, and what happens on it."""

    def __init__(self, folder: Path, tree: str = "t4") -> None:
        self.machine = Machine(folder, tree)
        self.sys, self.proc, self.root = self.machine.sys, self.machine.proc, self.machine.root
        self.run = self.root / "run" / "nvidia"
        self.run.mkdir(parents=True)
        kernel = self.proc / "sys" / "kernel" / "osrelease"
        kernel.write_text(f"{KERNEL}\n")
        self.machine.write("etc/os-release", OS_RELEASE)
        self.machine.write(f"lib/modules/{KERNEL}/modules.builtin")
        self.mounts()

    @property
    def where(self) -> HostPaths:
        """Where the programs find it."""
        return HostPaths(self.sys, self.proc, self.root)

    def load(self, *names: str, version: str = VERSION) -> None:
        """Load modules, all but the first of which need that one."""
        first, *others = names
        for name in names:
            folder = self.sys / "module" / name
            (folder / "holders").mkdir(parents=True)
            (folder / "refcnt").write_text("0\n")
            (folder / "initstate").write_text("live\n")
            if name != "nouveau":
                (folder / "version").write_text(f"{version}\n")
        for name in others:
            (self.sys / "module" / first / "holders" / name).mkdir()
            self.use(first, 1)

    def needs(self, module: str, by: str) -> None:
        """One module needs another one."""
        (self.sys / "module" / module / "holders" / by).mkdir()
        self.use(module, 1)

    def use(self, module: str, more: int) -> None:
        """Somebody begins to use a module, or ends."""
        file = self.sys / "module" / module / "refcnt"
        file.write_text(f"{int(file.read_text()) + more}\n")

    def loaded(self) -> set[str]:
        """Modules that are there."""
        return {path.name for path in (self.sys / "module").iterdir()}

    def process(self, pid: int, command: str, *devices: str, pod: str | None = None) -> None:
        """A process with files open."""
        folder = self.proc / str(pid)
        (folder / "fd").mkdir(parents=True)
        (folder / "comm").write_text(f"{command[:15]}\n")
        group = (
            f"kubepods-burstable-pod{pod.replace('-', '_')}.slice/cri-containerd-abc.scope" if pod else "ssh.service"
        )
        (folder / "cgroup").write_text(f"0::/kubepods.slice/{group}\n")
        for number, device in enumerate(devices):
            (folder / "fd" / str(number)).symlink_to(device)

    def ends(self, pid: int) -> None:
        """It ends."""
        shutil.rmtree(self.proc / str(pid))

    def note(self, name: str, text: str = "") -> Path:
        """A file below /run/nvidia."""
        path = self.run / name.removeprefix(f"{files.RUN}/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{text}\n")
        return path

    def has(self, name: str) -> bool:
        """Whether one is there."""
        return (self.run / name.removeprefix(f"{files.RUN}/")).exists()

    def mounts(self, *points: Path | str, upper: str = "") -> None:
        """What is mounted, as the process itself sees it."""
        file = self.proc / "self" / "mountinfo"
        file.parent.mkdir(exist_ok=True)
        options = f"rw,lowerdir=/l,upperdir={upper},workdir=/w" if upper else "rw"
        lines = [f"1 0 0:1 / / rw - overlay overlay {options}"]
        lines += [
            f"{number} 1 0:2 / {point} rw shared:1 - overlay overlay rw" for number, point in enumerate(points, 2)
        ]
        file.write_text("\n".join(lines) + "\n")


@dataclass
class Kernel:
    """Unloads what nobody uses, as the real one does, and says what it was told."""

    node: Node
    told: list[str] = field(default_factory=list)
    wedged: Sequence[str] = ()
    """Modules that begin to go and stay."""
    refuses: int = 0
    """The error that it answers whatever it is told."""

    def unload(self, module: str) -> None:
        self.told.append(module)
        folder = self.node.sys / "module" / module
        if self.refuses:
            raise OSError(self.refuses, os.strerror(self.refuses))
        if int((folder / "refcnt").read_text()) > 0:
            raise OSError(errno.EWOULDBLOCK, "busy")
        if module in self.wedged:
            (folder / "initstate").write_text("going\n")
            raise OSError(errno.EBUSY, "busy")
        shutil.rmtree(folder)
        for other in (self.node.sys / "module").iterdir():
            if (other / "holders" / module).exists():
                (other / "holders" / module).rmdir()
                self.node.use(other.name, -1)

    def unmount(self, path: Path) -> None:
        self.told.append(f"umount {path.name}")
        file = self.node.proc / "self" / "mountinfo"
        lines = file.read_text().splitlines()
        mine = [line for line in lines if line.split()[4] == str(path)]
        lines.remove(mine[-1])
        file.write_text("\n".join(lines) + "\n")


@dataclass
class Time:
    """A clock that is set by who waits, and what happens when."""

    now: float = 0.0
    later: list[tuple[float, Callable[[], None]]] = field(default_factory=list)

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        for entry in [each for each in self.later if each[0] <= self.now]:
            self.later.remove(entry)
            entry[1]()

    @property
    def clock(self) -> Clock:
        """For who asks."""
        return Clock(lambda: self.now, self.sleep)
