"""The container toolkit on the host, from files alone: nothing of the host is run.

Installed: one of its programs is there. Version: from dpkg's status file, else from the name of
`libnvidia-container.so.1.17.8`, which is released with the toolkit under one version number; an
RPM database is not read (SQLite behind a library of its own), and a toolkit without that library
has no version here. Its runtime: what role `toolkit` left in a file of the module's own.
Handler: the name under which containerd's or CRI-O's configuration runs
`nvidia-container-runtime`; a configuration that is made by flags or held in memory is not seen.
A file that is closed to us is no missing file: what it would tell is then named in `failed`.
"""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from controllers.api.runtime_state import MESSAGE_MAX
from nodeagent.host.facts.records import Toolkit
from nodeagent.host.hostfiles import Reader, inside
from nodeagent.host.runtimes import configurations

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

RUNTIME = "nvidia-container-runtime"
PROGRAMS = (RUNTIME, "nvidia-ctk")
FOLDERS = ("usr/bin", "usr/local/nvidia/toolkit", "usr/local/bin", "opt/nvidia/toolkit", "run/current-system/sw/bin")
LIBRARY_FOLDERS = ("usr/lib/x86_64-linux-gnu", "usr/lib/aarch64-linux-gnu", "usr/lib64", "usr/local/nvidia/toolkit")
RUNTIME_STATE = "run/gpu-control-plane/runtime.json"
"""Where role `toolkit` tells what it found of the container runtime."""
RUNTIME_MAX = 16 * 1024
DPKG_STATUS = "var/lib/dpkg/status"
DPKG_MAX = 32 * 1024 * 1024
USUAL_HANDLER = "nvidia"
_PACKAGE = re.compile(
    r"^Package: nvidia-container-toolkit(?:-base)?$(?:\n(?!\n).*)*?\n^Status: install ok installed$"
    r"(?:\n(?!\n).*)*?\n^Version: (?:\d+:)?([0-9][0-9A-Za-z.~+]*)",
    re.MULTILINE,
)
_LIBRARY = re.compile(r"libnvidia-container\.so\.([0-9]+\.[0-9]+\.[0-9]+(?:[.~-]?rc\.?[0-9]+)?)")


def read(root: Path) -> Toolkit | None:
    """What the host has; None where its files cannot be seen, which is no claim that there is none."""
    found = _installed(root)
    return None if found is None else replace(found, runtime=_runtime(root))


def _runtime(root: Path) -> dict[str, str]:
    """What role `toolkit` found; nothing where it has not spoken since the node started, or not in these words."""
    try:
        told = json.loads(Reader(root).text(RUNTIME_STATE, RUNTIME_MAX) or "{}")
    except ValueError:
        return {}
    values = {"kind": "kind", "state": "state", "message": "reason"}
    known = told if isinstance(told, dict) else {}
    return {f"runtime_{name}": str(known[key])[:MESSAGE_MAX] for name, key in values.items() if known.get(key)}


def _installed(root: Path) -> Toolkit | None:
    host = Reader(root)
    if inside(root, "usr") is None:
        return None
    if not any(host.has(f"{folder}/{program}") for folder in FOLDERS for program in PROGRAMS):
        return None if host.closed else Toolkit(installed=False)
    version, by_all = _version(root)
    handler, of_all = _handler(root)
    failed = (*(() if by_all else ("version",)), *(() if of_all else ("runtime_handler",)))
    return Toolkit(installed=True, version=version, runtime_handler=handler, failed=failed)


def _version(root: Path) -> tuple[str, bool]:
    """The version, and whether everything that tells it could be read."""
    host = Reader(root)
    package = _PACKAGE.search(host.text(DPKG_STATUS, DPKG_MAX))
    if package is not None:
        return package[1], True
    names = [name for folder in LIBRARY_FOLDERS for name in host.names(folder)]
    found = sorted(match[1] for name in names if (match := _LIBRARY.fullmatch(name)))
    return (found[-1] if found else ""), not host.closed


def _handler(root: Path) -> tuple[str, bool]:
    """`nvidia` where there is one of that name, else the first by name; and whether all that tells it could be read."""
    host = Reader(root)
    found = {name for told in configurations(host).values() for name in _handlers(told)}
    if USUAL_HANDLER in found:
        return USUAL_HANDLER, True
    return min(found, default=""), not host.closed


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
