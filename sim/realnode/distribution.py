"""Debian's own containerd, 1.6 in bookworm: the runtime of many clusters, and one without CDI.

Taken from the machine where its package is installed, else its package is unpacked into the cache of programs, so that
nothing is installed. Which version it is says the package.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

from sim.realnode.command import output
from sim.realnode.sweep import SHIM
from tools.errors import UserError
from tools.programs.cache import Cache, default_root

if TYPE_CHECKING:
    from tools.programs import Progress

PACKAGE: Final = "containerd"
PROGRAMS: Final = ("containerd", SHIM)
SECONDS: Final = 120.0
_VERSION: Final = re.compile(r" v?(1\.6\.\d+)\S*")


def lacking() -> str:
    """Why no containerd 1.6 can be had here; empty where one can."""
    installed = shutil.which("containerd")
    if installed and version(Path(installed)):
        return ""
    try:
        offered = _offered()
    except UserError as error:
        return f"{error}: containerd 1.6 is Debian 12's"
    return "" if offered.startswith("1.6.") else f"this distribution has containerd {offered}; 1.6 is Debian 12's"


def containerd(progress: Progress) -> dict[str, Path]:
    """Where containerd 1.6 and its shim are; raises UserError where the distribution has another or none."""
    found = {name: Path(path) for name in PROGRAMS if (path := shutil.which(name))}
    if len(found) < len(PROGRAMS) or not version(found["containerd"]):
        found = _unpacked(progress)
    if not version(found["containerd"]):
        raise UserError(f"{found['containerd']} is no containerd 1.6", expected="Debian 12, which has it")
    return found


def version(program: Path) -> str:
    """Which 1.6 a containerd is; empty where it is another, or does not start here."""
    try:
        told = subprocess.run([program, "--version"], capture_output=True, text=True, timeout=10, check=False).stdout
    except OSError:
        return ""
    match = _VERSION.search(told)
    return match[1] if match else ""


def _unpacked(progress: Progress) -> dict[str, Path]:
    cache = Cache(default_root())
    with cache.lock(f"debian-{PACKAGE}", lambda: progress.note(f"another process is fetching Debian's {PACKAGE}")):
        label = re.sub(r"[^0-9A-Za-z.]", "_", _offered())
        folder = cache.find("debian", PACKAGE, label) or cache.install("debian", PACKAGE, label, _fetch)
    return {name: folder / "usr" / "bin" / name for name in PROGRAMS}


def _offered() -> str:
    """The version of the package that apt would install."""
    told = output(["apt-cache", "show", "--no-all-versions", PACKAGE], f"no package {PACKAGE}", seconds=SECONDS)
    return told.partition("\nVersion: ")[2].partition("\n")[0]


def _fetch(folder: Path) -> None:
    """What is downloaded is verified by apt, with the archive's signed lists."""
    with tempfile.TemporaryDirectory() as here:
        download = ["apt-get", "-o", "APT::Sandbox::User=root", "download", PACKAGE]
        output(download, f"Debian's {PACKAGE} cannot be downloaded", seconds=SECONDS, folder=Path(here))
        debs = map(str, Path(here).glob("*.deb"))
        output(["dpkg", "--extract", *debs, str(folder)], f"Debian's {PACKAGE} cannot be unpacked", seconds=SECONDS)
