"""How much of the machine others took while something was measured: other processes, and the hypervisor.

A wall time on a machine that others use measures them too. It is told apart here, by what the
kernel counts: busy time of all cores, less that of the benchmark and of its control plane.
"""

from __future__ import annotations

import asyncio
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from reliability.kit.process import cpu_seconds
from sim import controlplane

if TYPE_CHECKING:
    from collections.abc import Mapping

LIMIT = 0.1
"""Cores that others may take, on the average, of something that counts as undisturbed: an idle machine has 0.01."""
LOOK = 1.0  # seconds
_IDLE, _IOWAIT, _GUEST = 3, 4, 8  # fields of the line `cpu` of /proc/stat, after its name


@dataclass(frozen=True, slots=True)
class Moment:
    """What the kernel has counted up to now; seconds."""

    at: float
    busy: float
    """Of all cores together; time that the hypervisor gave to others is in it."""
    own: Mapping[int, float]
    """CPU of the benchmark and of its control plane, by pid."""

    @classmethod
    def now(cls, folder: Path) -> Moment:
        """Read it; `folder`: the control plane's."""
        processes = controlplane.status(folder).processes.values()
        pids = {process.pid for process in processes if process.pid}
        own = {pid: cpu_seconds(pid) for pid in (*pids, os.getpid())}
        return cls(time.monotonic(), _busy(Path("/proc/stat").read_text()), own)


def others(before: Moment, after: Moment) -> float:
    """Cores that were busy for others between two moments, on the average."""
    own = sum(cpu - before.own.get(pid, 0.0) for pid, cpu in after.own.items())
    return max(0.0, (after.busy - before.busy - own) / (after.at - before.at))


async def wait_for_quiet(folder: Path, seconds: float) -> None:
    """Wait until others leave the machine alone, but no longer than that."""
    limit = time.monotonic() + seconds
    while time.monotonic() < limit:
        before = Moment.now(folder)
        await asyncio.sleep(LOOK)
        if others(before, Moment.now(folder)) <= LIMIT:
            return


def _busy(stat: str) -> float:
    """Seconds that all cores were busy, of the text of /proc/stat; guests are counted in user time already."""
    fields = [int(field) for field in stat.partition("\n")[0].split()[1 : 1 + _GUEST]]
    return (sum(fields) - fields[_IDLE] - fields[_IOWAIT]) / os.sysconf("SC_CLK_TCK")
