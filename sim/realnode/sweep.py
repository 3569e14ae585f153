"""Ends what a container runtime leaves: monitors with their containers, network namespaces, mounts.

A monitor, containerd's shim or CRI-O's conmon, outlives its runtime on purpose, so that containers do. What belongs to
our node is told by the socket or the folder that a monitor was started for and by the folder that a mount is in;
nothing else of the machine is touched. Linux, as root.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from sim.controlplane.procfs import Identity
from tools.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sim.realnode.places import Places

SHIM: Final = "containerd-shim-runc-v2"
CGROUPS: Final = Path("/sys/fs/cgroup")
SOCKETS: Final = Path("/run/containerd/s")
"""Where shims listen, whatever containerd's folders are."""
NAMESPACE: Final = "k8s.io"
CONMON: Final = "conmon"
CRIO: Final = "crio"
COMMON: Final = (NAMESPACE, CRIO)
"""The control groups in which containers' are: containerd's and CRI-O's."""
_END_SECONDS: Final = 10.0


def sweep(places: Places) -> None:
    """End every monitor and every container of the node, take away what is mounted; the runtime must have ended."""
    monitors, groups = _monitors(places), _groups(places)
    inside = _inside(places, groups)
    networks = {_network(process.pid) for process in inside} - {_network(os.getpid()), ""}
    # The monitor first: it would only write down how its container ended.
    for process in (*monitors, *inside):
        process.signal(signal.SIGKILL)
    _wait([*monitors, *inside])
    _release(networks)
    for folder in sorted({*groups, *_in_trees(*COMMON)}, reverse=True):
        with suppress(OSError):
            folder.rmdir()  # the common one only where nothing else is in it
    for bundle in _bundles(places):
        _forget_socket(bundle)
    for mount in sorted(_mounts(places.root), reverse=True):
        subprocess.run(["umount", "--lazy", mount], check=False, capture_output=True)
    if left := _mounts(places.root):
        raise UserError(f"{left[0]} is mounted and cannot be taken away", do=f"run: umount {left[0]}")


def remove(places: Places) -> None:
    """Remove the node's folder, in which nothing is mounted any more."""
    sweep(places)
    shutil.rmtree(places.root, ignore_errors=True)
    for folder in (SOCKETS, SOCKETS.parent):
        with suppress(OSError):
            folder.rmdir()  # only where nobody else's socket is in it


def _monitors(places: Places) -> list[Identity]:
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            words = (folder / "cmdline").read_bytes().decode(errors="replace").split("\0")
            if _is_monitor(words, places) and (who := Identity.of(int(folder.name))):
                found.append(who)
    return found


def _is_monitor(words: list[str], places: Places) -> bool:
    name = Path(words[0]).name
    if name == SHIM:
        return str(places.socket) in words
    return name == CONMON and any(Path(word).is_relative_to(places.crio) for word in words)


def _groups(places: Places) -> list[Path]:
    """The control groups of the node's containers, in every hierarchy; nested ones are not made here."""
    found = _in_trees(*(f"{NAMESPACE}/{bundle.name}" for bundle in _bundles(places)))
    if not places.groups.exists():
        return found
    before = set(places.groups.read_text().splitlines())
    return [*found, *(group for group in _of_crio() if str(group) not in before)]


def _inside(places: Places, groups: Iterable[Path]) -> list[Identity]:
    """The processes of the node's containers: a control group of CRI-O's that is merely new may be another's."""
    kept = (*_bundles(places), *(places.crio / "run").glob("*-containers/*"))
    ids = {one.name for one in kept}
    ours = (group for group in groups if group.name.removeprefix(f"{CRIO}-") in ids)
    return [process for group in ours for process in _members(group)]


def note_groups(places: Places) -> None:
    """Write down which control groups of a CRI-O there are before ours starts: nothing else tells whose they are.

    Those of pods and of monitors are at the root, and CRI-O leaves monitors' there when it removes a container.
    """
    places.groups.write_text("".join(f"{group}\n" for group in _of_crio()))


def _of_crio() -> list[Path]:
    return _in_trees(f"{CRIO}-*", f"{CRIO}/{CRIO}-*")


def _in_trees(*names: str) -> list[Path]:
    return [folder for name in names for tree in ("", "*/") for folder in CGROUPS.glob(f"{tree}{name}")]


def groups() -> list[Path]:
    """The control groups of all containers on the machine, and those that they are in."""
    return [*_in_trees(*COMMON), *_of_crio()]


def _bundles(places: Places) -> list[Path]:
    """What containerd knows of each container that runs."""
    folder = places.containerd / "state" / "io.containerd.runtime.v2.task" / NAMESPACE
    return list(folder.iterdir()) if folder.is_dir() else []


def _forget_socket(bundle: Path) -> None:
    """Remove the socket of a container's shim, which has ended: containerd 2 tells it otherwise than those before."""
    told = [path.read_text() for path in (bundle / "address", bundle / "bootstrap.json") if path.exists()]
    for address in re.findall(r"unix://([^\s\"]+)", " ".join(told)):
        Path(address).unlink(missing_ok=True)


def _members(group: Path) -> list[Identity]:
    with suppress(OSError):
        pids = map(int, (group / "cgroup.procs").read_text().split())
        return [who for pid in pids if (who := Identity.of(pid)) is not None]
    return []


def _wait(processes: Iterable[Identity]) -> None:
    deadline = time.monotonic() + _END_SECONDS
    for process in processes:
        while process.alive and time.monotonic() < deadline:
            time.sleep(0.02)


def _network(pid: int) -> str:
    """A process's network namespace, as `net:[4026531840]`."""
    with suppress(OSError):
        return str(Path(f"/proc/{pid}/ns/net").readlink())
    return ""


def _release(networks: set[str]) -> None:
    """Unmount the files that hold network namespaces; their interfaces go with them."""
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        fields = line.split(" ")
        if fields[3] in networks:
            subprocess.run(["umount", fields[4]], check=False, capture_output=True)
            with suppress(OSError):
                Path(fields[4]).unlink()


def _mounts(folder: Path) -> list[str]:
    lines = Path("/proc/self/mountinfo").read_text().splitlines()
    points = [line.split(" ")[4].encode().decode("unicode_escape") for line in lines]
    return [point for point in points if Path(point).is_relative_to(folder)]
