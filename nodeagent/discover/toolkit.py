"""The container toolkit on the host, from files alone: nothing of the host is run.

Installed: one of its programs is there. Version: from dpkg's status file, else from the name of
`libnvidia-container.so.1.17.8`, which is released with the toolkit under one version number; an
RPM database is not read (SQLite behind a library of its own), and a toolkit without that library
has no version here. Handler: the name under which containerd's or CRI-O's configuration runs
`nvidia-container-runtime`; a configuration that is made by flags or held in memory is not seen.
"""

from __future__ import annotations

import re
import tomllib
from typing import TYPE_CHECKING, Any

from nodeagent.discover.facts import Toolkit
from nodeagent.discover.hostfiles import inside, text

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

RUNTIME = "nvidia-container-runtime"
PROGRAMS = (RUNTIME, "nvidia-ctk")
FOLDERS = ("usr/bin", "usr/local/nvidia/toolkit", "usr/local/bin", "opt/nvidia/toolkit", "run/current-system/sw/bin")
LIBRARY_FOLDERS = ("usr/lib/x86_64-linux-gnu", "usr/lib/aarch64-linux-gnu", "usr/lib64", "usr/local/nvidia/toolkit")
CONFIGURATIONS = (
    "etc/containerd/config.toml",
    "var/lib/rancher/k3s/agent/etc/containerd/config.toml",
    "var/lib/rancher/rke2/agent/etc/containerd/config.toml",
    "etc/crio/crio.conf",
)
CONFIGURATION_FOLDERS = ("etc/containerd/conf.d", "etc/containerd/config.d", "etc/crio/crio.conf.d")
DPKG_STATUS = "var/lib/dpkg/status"
DPKG_MAX, CONFIGURATION_MAX = 32 * 1024 * 1024, 1024 * 1024
USUAL_HANDLER = "nvidia"
_PACKAGE = re.compile(
    r"^Package: nvidia-container-toolkit(?:-base)?$(?:\n(?!\n).*)*?\n^Status: install ok installed$"
    r"(?:\n(?!\n).*)*?\n^Version: (?:\d+:)?([0-9][0-9A-Za-z.~+]*)",
    re.MULTILINE,
)
_LIBRARY = re.compile(r"libnvidia-container\.so\.([0-9]+\.[0-9]+\.[0-9]+(?:[.~-]?rc\.?[0-9]+)?)")


def read(root: Path) -> Toolkit | None:
    """What the host has; None where its files cannot be seen, which is no claim that there is none."""
    if inside(root, "usr") is None:
        return None
    if not any(inside(root, f"{folder}/{program}") for folder in FOLDERS for program in PROGRAMS):
        return Toolkit(installed=False)
    return Toolkit(installed=True, version=_version(root), runtime_handler=_handler(root))


def _version(root: Path) -> str:
    package = _PACKAGE.search(text(root, DPKG_STATUS, DPKG_MAX))
    if package is not None:
        return package[1]
    names = [name for folder in LIBRARY_FOLDERS for name in _names(root, folder)]
    found = sorted(match[1] for name in names if (match := _LIBRARY.fullmatch(name)))
    return found[-1] if found else ""


def _handler(root: Path) -> str:
    """`nvidia` where there is one of that name, else the first by name; empty where there is none."""
    files = [*CONFIGURATIONS]
    for folder in CONFIGURATION_FOLDERS:
        files += [f"{folder}/{name}" for name in _names(root, folder) if name.endswith((".toml", ".conf"))]
    found = {name for path in files for name in _handlers(_toml(text(root, path, CONFIGURATION_MAX)))}
    return USUAL_HANDLER if USUAL_HANDLER in found else min(found, default="")


def _handlers(value: Any) -> Iterator[str]:
    """Names of runtimes that are the toolkit's, wherever the configuration's version keeps them."""
    if not isinstance(value, dict):
        return
    runtimes = value.get("runtimes")
    for name, runtime in runtimes.items() if isinstance(runtimes, dict) else ():
        if not isinstance(runtime, dict):
            continue
        options = runtime.get("options")
        program = (options.get("BinaryName") if isinstance(options, dict) else None) or runtime.get("runtime_path")
        # Beside it stand `nvidia-container-runtime.cdi` and `.legacy`, under handlers of their own.
        if isinstance(program, str) and program.rpartition("/")[2] == RUNTIME:
            yield name
    for inner in value.values():
        yield from _handlers(inner)


def _toml(content: str) -> dict[str, Any]:
    try:
        return tomllib.loads(content)
    except (tomllib.TOMLDecodeError, RecursionError):
        return {}


def _names(root: Path, folder: str) -> list[str]:
    found = inside(root, folder)
    try:
        return sorted(path.name for path in found.iterdir()) if found is not None else []
    except OSError:
        return []
