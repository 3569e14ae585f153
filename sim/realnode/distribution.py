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

from tools.errors import UserError
from tools.programs.cache import Cache, default_root

if TYPE_CHECKING:
    from tools.programs import Progress

PACKAGE: Final = "containerd"
PROGRAMS: Final = ("containerd", "containerd-shim-runc-v2")
SECONDS: Final = 120.0
_VERSION: Final = re.compile(r" v?(1\.6\.\d+)\S*")


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
        key = _run(["apt-cache", "show", "--no-all-versions", PACKAGE], "no package").partition("\nVersion: ")[2]
        label = re.sub(r"[^0-9A-Za-z.]", "_", key.partition("\n")[0])
        folder = cache.find("debian", PACKAGE, label) or cache.install("debian", PACKAGE, label, _fetch)
    return {name: folder / "usr" / "bin" / name for name in PROGRAMS}


def _fetch(folder: Path) -> None:
    """What is downloaded is verified by apt, with the archive's signed lists."""
    with tempfile.TemporaryDirectory() as here:
        _run(["apt-get", "-o", "APT::Sandbox::User=root", "download", PACKAGE], "it cannot be downloaded", here)
        _run(["dpkg", "--extract", *map(str, Path(here).glob("*.deb")), str(folder)], "it cannot be unpacked")


def _run(command: list[str], what: str, folder: str | None = None) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, cwd=folder, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UserError(f"Debian's {PACKAGE}: {what}: {error}") from error
    if done.returncode:
        raise UserError(f"Debian's {PACKAGE}: {what}: {done.stderr.strip()}")
    return done.stdout
