"""What a running process tells: its CPU time by /proc, and its Prometheus metrics."""

from __future__ import annotations

import os
from pathlib import Path

_UTIME, _STIME = 11, 12  # fields 14 and 15 of /proc/<pid>/stat, after "(comm)"


def cpu_seconds(pid: int) -> float:
    """User and system time of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[_UTIME]) + int(fields[_STIME])) / os.sysconf("SC_CLK_TCK")


def memory_mb(pid: int, kind: str) -> float:
    """Resident memory of a process, in millions of bytes: `VmHWM`, the most at once so far, or `VmRSS`, now."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    kib = next(int(line.split()[1]) for line in lines if line.startswith(f"{kind}:"))
    return kib * 1024 / 1e6


def parse_metrics(text: str) -> dict[str, float]:
    """Metrics by name with labels, of what a process answers."""
    pairs = (line.rsplit(" ", 1) for line in text.splitlines() if line and not line.startswith("#"))
    return {name: float(value) for name, value in pairs}


def total(metrics: dict[str, float], name: str) -> float:
    """The sum of a metric over its labels."""
    return sum(value for key, value in metrics.items() if key == name or key.startswith(name + "{"))


def by_kind(metrics: dict[str, float], name: str) -> dict[str, int]:
    """A metric whose only label is `kind`."""
    head = f'{name}{{kind="'
    return {key[len(head) : -2]: int(value) for key, value in metrics.items() if key.startswith(head)}
