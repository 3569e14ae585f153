"""Paths of the host's folders as the container mounts them, and the flags that set them."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from nodeagent.host.driver_probe import Timing
from nodeagent.host.driverroot import DriverRoot, locate

if TYPE_CHECKING:
    import argparse

_FLAGS = (
    ("--sys", "HOST_SYS", "/sys", "sysfs"),
    ("--proc", "HOST_PROC", "/proc", "procfs"),
    ("--root", "HOST_ROOT", "/", "folders of the toolkit and of the driver's library"),
    (
        "--driver-root",
        "HOST_DRIVER_ROOT",
        "/run/nvidia/driver",
        "the host's folder for a driver container's root",
    ),
)


@dataclass(frozen=True, slots=True)
class HostPaths:
    """Where the host's files are."""

    sys: Path = Path("/sys")
    proc: Path = Path("/proc")
    root: Path = Path("/")
    driver_root: Path = Path("/run/nvidia/driver")
    """Where a driver in a container has its root while it runs, as the host calls that folder."""

    def driver(self) -> DriverRoot:
        """Where the node's driver lies now."""
        return locate(self.root, self.driver_root)

    def library_roots(self) -> tuple[Path, ...]:
        """Where the driver's library is now."""
        return (self.driver().path,)


def add_path_flags(parser: argparse.ArgumentParser) -> None:
    """The flags of the host's folders; in a pod they come from the environment."""
    group = parser.add_argument_group("where the host's files are")
    for flag, variable, usual, about in _FLAGS:
        default = Path(os.environ.get(variable) or usual)
        group.add_argument(flag, type=Path, default=default, help=f"{about} (default: {variable}, else {usual})")


def host_paths(args: argparse.Namespace) -> HostPaths:
    """What `add_path_flags` was told."""
    return HostPaths(args.sys, args.proc, args.root, args.driver_root)


def add_timing(parser: argparse.ArgumentParser, flag: str, usual: float, about: str) -> None:
    """How often to look, by a flag of the role, and how often and how long to ask the driver."""
    group, timing = parser.add_argument_group("looking, in seconds"), Timing()
    group.add_argument(flag, type=seconds, default=usual, help=about)
    about = "between two questions to the driver at rest"
    group.add_argument("--driver-period", type=seconds, default=timing.period, help=about)
    about = "after which it counts as silent"
    group.add_argument("--driver-deadline", type=seconds, default=timing.deadline, help=about)


def seconds(text: str) -> float:
    """A positive number of seconds; the name stands in argparse's complaint."""
    value = float(text)
    if not 0 < value < float("inf"):
        raise ValueError(text)
    return value
