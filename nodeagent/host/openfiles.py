"""Reads who of the host's processes has device files open, in procfs; needs the host's processes and root.

A link of `/proc/<pid>/fd` is read and never followed: what lies behind it may be a file system that does not answer.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from nodeagent.host import procfs

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_POD = re.compile(r"pod([0-9a-f]{8}[-_][0-9a-f]{4}[-_][0-9a-f]{4}[-_][0-9a-f]{4}[-_][0-9a-f]{12}|[0-9a-f]{32})\b")


@dataclass(frozen=True, slots=True)
class OpenFile:
    """A process that has one of the files open."""

    pid: int
    command: str
    """Its name, cut by the kernel to 15 characters."""
    pod_uid: str = ""
    """The pod whose container it is in, by its control group; empty where it is in none."""


def processes(proc: Path, path: re.Pattern[str]) -> list[OpenFile]:
    """Processes with a file open in whose path the pattern is found, by pid."""
    return [
        OpenFile(pid, command(proc, pid), pod_of(proc, pid))
        for pid in sorted(_pids(proc))
        if _has_open(proc / str(pid) / "fd", path)
    ]


def command(proc: Path, pid: int) -> str:
    """A process's name, cut by the kernel to 15 characters; empty where it has ended."""
    return procfs.text(proc / str(pid) / "comm").strip()


def pod_of(proc: Path, pid: int) -> str:
    """The pod in whose container a process is; empty where it is in none, or has ended."""
    return pod_uid(procfs.text(proc / str(pid) / "cgroup"))


def pod_uid(cgroup: str) -> str:
    """The pod in the text of a process's control groups, however the runtime's driver spells it."""
    found = _POD.findall(cgroup)
    return found[-1].replace("_", "-") if found else ""


def _pids(proc: Path) -> Iterator[int]:
    try:
        with os.scandir(proc) as entries:
            yield from (int(entry.name) for entry in entries if entry.name.isdecimal())
    except OSError:
        return


def _has_open(folder: Path, path: re.Pattern[str]) -> bool:
    try:
        with os.scandir(folder) as entries:
            return any(path.search(_target(entry.path)) for entry in entries)
    except OSError:
        return False  # it has ended meanwhile


def _target(path: str) -> str:
    try:
        return os.readlink(path)  # noqa: PTH115 - one string, for each open file of the host
    except OSError:
        return ""
