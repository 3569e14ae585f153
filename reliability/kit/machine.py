"""On what the figures were measured: facts that matter, none that name the machine."""

from __future__ import annotations

import os
import platform
from pathlib import Path
from typing import Any

from tools.programs.catalog import unit_of


def facts() -> dict[str, Any]:
    """Cores that this process may use, CPU model, memory in MiB, load before the start, versions."""
    return {
        "cores": len(os.sched_getaffinity(0)),
        "cpu": _field(Path("/proc/cpuinfo"), "model name") or platform.machine(),
        "memory_mib": int((_field(Path("/proc/meminfo"), "MemTotal") or "0").split()[0]) // 1024,
        "load": round(os.getloadavg()[0], 2),
        "system": f"{platform.system()} {platform.release().partition('-')[0]}",
        "python": platform.python_version(),
        "kubernetes": unit_of("kube-apiserver").version,
    }


def _field(path: Path, key: str) -> str:
    """The first value of a key in a file of `key: value` lines; empty where there is none."""
    try:
        lines = path.read_text().splitlines()
    except OSError:
        return ""
    return next(
        (value.strip() for name, _, value in (line.partition(":") for line in lines) if name.strip() == key), ""
    )
