"""Clears the way for a driver's container: what another one has loaded is unloaded, unless somebody uses it.

Steps that wait do so by a clock that is given; each may be repeated, and a node on which this ended anywhere is in a
state from which it goes on the next time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

from controllers.api.driver_look import Prepared
from controllers.domain.driver import files
from controllers.domain.driver.holders import process_name
from controllers.domain.wording import listed
from nodeagent.driver import looking
from nodeagent.driver.decide import Found, Wanted, held, modules_can_stay, refused
from nodeagent.driver.kernel import IN_USE, lock
from nodeagent.host import hostfiles, modules, openfiles, sysfs, system
from nodeagent.host.modules import GOING

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from nodeagent.host.modules import KernelModule
    from nodeagent.host.paths import HostPaths

LOCK_SECONDS: Final = 180.0
"""The former driver's container may take 120 s to end."""
HELD_SECONDS: Final = 60.0
"""Agents open cards for moments, and again and again."""
GOING_SECONDS: Final = 60.0
MOFED_SECONDS: Final = 120.0
"""Kubelet runs `prepare` again; a precompiled driver has 10 minutes in all."""
PAUSE: Final = 1.0
MOUNTS_MAX: Final = 32
MELLANOX: Final = "15b3"
_MOUNT_POINT: Final = 4


class Unloading(Protocol):
    """What is asked of the kernel (`nodeagent.driver.kernel.Kernel`)."""

    def unload(self, module: str) -> None:
        """Take a module out; raises OSError."""

    def unmount(self, path: Path) -> None:
        """Take a mount off; raises OSError."""


@dataclass(frozen=True, slots=True)
class Clock:
    """Time that passes, in seconds."""

    now: Callable[[], float]
    sleep: Callable[[float], None]


class Refusal(Exception):
    """It cannot be done now."""

    def __init__(self, said: Prepared) -> None:
        """`said`: why."""
        super().__init__(said.message)
        self.said = said


class Preparation:
    """One run on one node."""

    def __init__(self, where: HostPaths, run: Path, wanted: Wanted, kernel: Unloading, clock: Clock) -> None:
        """`run`: the host's /run/nvidia as it is mounted here, shared in both directions."""
        self._where, self._run, self._wanted = where, run, wanted
        self._kernel, self._clock = kernel, clock

    def __call__(self) -> Prepared:
        """Do it, and say what became of the node."""
        self._path(files.HOLD).unlink(missing_ok=True)
        try:
            return self._locked()
        except Refusal as refusal:
            return refusal.said

    def _locked(self) -> Prepared:
        """Wait until no other driver's program runs, and keep it from starting meanwhile."""
        until = self._clock.now() + LOCK_SECONDS
        while True:
            with lock(self._path(files.LOCK)) as had:
                if had:
                    return self._prepare()
            if self._clock.now() >= until:
                raise Refusal(refused("DriverLocked", self._who_has_the_lock()))
            self._clock.sleep(PAUSE)

    def _who_has_the_lock(self) -> str:
        """Its number is in the file; the file itself has to stay, or two programs would run at once."""
        who, noted = "its pod", self._text(files.LOCK)
        if noted.isdecimal() and (command := openfiles.command(self._where.proc, int(noted))):
            who = process_name(command, int(noted), openfiles.pod_of(self._where.proc, int(noted)))
        return f"another driver's program runs: it has {files.LOCK} locked; end {who}, and leave the file"

    def _prepare(self) -> Prepared:
        for name in (files.READY, files.DAEMONS):
            self._path(name).unlink(missing_ok=True)
        kernel = system.kernel(self._where.proc)
        if version := looking.host_driver(self._where, kernel):
            told = f"the host has driver {version} of its own, which is not unloaded"
            raise Refusal(refused("HostDriver", f"{told}; remove its packages, or leave the node to it"))
        if modules_can_stay(self._wanted, self._found()):
            return Prepared(result="FastPath")
        self._unload()
        self._unmount()
        self._without_nouveau()
        self._await_mofed()
        return Prepared(result="Clean")

    def _found(self) -> Found:
        loaded = {one.name: one for one in looking.loaded(self._where.sys)}
        return Found(loaded, self._text(files.STATE), self._text(files.MARK))

    def _unload(self) -> None:
        """Unload the driver's modules, each after those that need it."""
        if not any(modules.read(self._where.sys, name) for name in looking.MODULES):
            return
        self._await_idle()
        # From here on nobody may take what is left for a whole driver.
        for name in (files.STATE, files.MARK):
            self._path(name).unlink(missing_ok=True)
        for name in looking.MODULES:
            self._out(name)

    def _await_idle(self) -> None:
        """Wait for who has cards open. No driver's program runs now, so nobody ends a daemon that one has left."""
        until = self._clock.now() + HELD_SECONDS
        while holders := looking.holders(self._where.proc):
            if self._clock.now() >= until:
                raise Refusal(held(holders))
            self._clock.sleep(PAUSE)

    def _out(self, name: str) -> None:
        """Take one module out."""
        until = self._clock.now() + (HELD_SECONDS if name != looking.NOUVEAU else 0)
        while (module := modules.read(self._where.sys, name)) is not None:
            if module.state == GOING:
                self._await_gone(name)
                return
            self._try_to_unload(name)
            if modules.read(self._where.sys, name) is None:
                return
            if self._clock.now() >= until:
                raise Refusal(self._used(module))
            self._clock.sleep(PAUSE)

    def _try_to_unload(self, name: str) -> None:
        try:
            self._kernel.unload(name)
        except OSError as error:
            if error.errno not in IN_USE:
                told = f"module {name} cannot be unloaded: {error.strerror}"
                raise Refusal(refused("OldDriverStuck", f"{told}; reboot the node")) from None

    def _await_gone(self, name: str) -> None:
        """A module that is on its way out, and does not get there, modules_can_stay until the node starts anew."""
        until = self._clock.now() + GOING_SECONDS
        while modules.read(self._where.sys, name) is not None:
            if self._clock.now() >= until:
                told = f"the kernel has been taking module {name} out for {GOING_SECONDS:.0f} s and does not end"
                raise Refusal(refused("RebootRequired", f"{told}; reboot the node"))
            self._clock.sleep(PAUSE)

    def _used(self, module: KernelModule) -> Prepared:
        """By somebody, or by what is not seen: memory that is mapped, or a module that is not the driver's."""
        if holders := looking.holders(self._where.proc):
            return held(holders)
        others = [name for name in module.needed_by if name not in looking.MODULES]
        what = f"module {listed(others)} needs it" if others else "by whom cannot be seen"
        told = f"module {module.name} is in use ({module.uses}), and {what}"
        return refused("OldDriverStuck", f"{told}; end what uses it, or reboot the node")

    def _unmount(self) -> None:
        """Take off the root that a former driver's container has left mounted, once for each time that it was."""
        root = self._path(files.ROOT)
        for _ in range(MOUNTS_MAX):
            if not self._mounted(root):
                return
            try:
                self._kernel.unmount(root)
            except OSError as error:
                told = f"the former driver's root, {files.ROOT}, cannot be unmounted: {error.strerror}"
                raise Refusal(refused("OldDriverStuck", f"{told}; reboot the node")) from None

    def _mounted(self, root: Path) -> bool:
        text = hostfiles.text(self._where.proc, "self/mountinfo", looking.DEPENDENCIES_MAX)
        return any(line.split()[_MOUNT_POINT : _MOUNT_POINT + 1] == [str(root)] for line in text.splitlines())

    def _without_nouveau(self) -> None:
        try:
            self._out(looking.NOUVEAU)
        except Refusal as refusal:
            if refusal.said.reason == "RebootRequired":
                raise
            told = "the kernel's own driver, nouveau, has the cards and cannot be unloaded"
            do = "blacklist it, rebuild the initramfs and reboot the node"
            raise Refusal(refused("NouveauLoaded", f"{told}; {do}")) from None

    def _await_mofed(self) -> None:
        """NVIDIA's program cares for it only where a card of Mellanox is there."""
        if not self._wanted.mofed or not self._has_mellanox():
            return
        until = self._clock.now() + MOFED_SECONDS
        while looking.mofed(self._where).lower() != self._wanted.mofed:
            if self._clock.now() >= until:
                whose = "of its own" if self._wanted.mofed == "host" else "by a container"
                told = f"RDMA is asked for, and the node has no MOFED {whose} loaded"
                raise Refusal(refused("MofedMissing", f"{told}; install it, or turn spec.rdma off"))
            self._clock.sleep(PAUSE)

    def _has_mellanox(self) -> bool:
        try:
            return any(one.vendor == MELLANOX for one in sysfs.scan(self._where.sys).functions)
        except sysfs.ScanError:
            return False

    def _path(self, name: str) -> Path:
        return self._run / name.removeprefix(f"{files.RUN}/")

    def _text(self, name: str) -> str:
        try:
            return self._path(name).read_text("utf-8", "replace").strip()
        except OSError:
            return ""
