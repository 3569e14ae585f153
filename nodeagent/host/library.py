"""Finds NVIDIA's libraries (NVML, CUDA) on the host and loads one into the process.

The container's own loader is asked first: where the container runtime brings the driver, the
library lies there. Else the host's is taken by its full path. glibc takes a library that is
loaded already for one of the same SONAME, so pynvml's own `CDLL("libnvidia-ml.so.1")` then
finds it.
"""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING

from nodeagent.host.hostfiles import inside

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

NAME, CUDA = "libnvidia-ml.so.1", "libcuda.so.1"
FOLDERS = (
    "usr/lib/x86_64-linux-gnu",
    "usr/lib/aarch64-linux-gnu",
    "usr/lib64",
    "usr/lib",
    "usr/local/nvidia/lib64",
    "usr/local/glibc/usr/lib",
    "lib64",
    "home/kubernetes/bin/nvidia/lib64",
    "",
)
"""Of Debian and Ubuntu, of Red Hat and SUSE, of COS and Talos; the root itself may be a folder of libraries."""


def first(root: Path) -> Path | None:
    """The library that a root has, with every link followed inside it; None where there is none."""
    return next(iter(candidates((root,), "")), None)


def candidates(roots: Iterable[Path], version: str, name: str = NAME) -> list[Path]:
    """The host's libraries, those of the loaded module's version first: another one refuses to speak to it."""
    found = [path for root in roots for folder in FOLDERS if (path := inside(root, f"{folder}/{name}")) is not None]
    unique = list(dict.fromkeys(found))
    return sorted(unique, key=lambda path: not (version and path.name.endswith(f".{version}")))


def load(roots: Iterable[Path], version: str, name: str = NAME) -> ctypes.CDLL:
    """Load a library. Raises OSError with the reason of each that does not load."""
    reasons = []
    for place in (name, *map(str, candidates(roots, version, name))):
        try:
            return ctypes.CDLL(place)
        except OSError as error:
            reasons.append(str(error))
    raise OSError("; ".join(reasons))
