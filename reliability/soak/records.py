"""Readings of the processes and of the API server, as records. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from controllers.api import names

MODULE = (names.INVENTORY, names.BOOTSTRAP, names.POOL_CONTROLLER, names.WEBHOOK)
IDLE = frozenset({"PUT", "GET"})
"""Methods of renewing a lease, and of reading: what a process that has nothing to do may send."""


@dataclass(frozen=True, slots=True)
class Own:
    """What a process of the module says of itself; counts are since its start."""

    tasks: float
    queue: float
    cached: float
    """Objects in its caches."""
    series: int
    """Lines of its metrics."""
    stall: float
    """Longest stall of its event loop since the reading before, in seconds."""
    lists: float
    writes: float
    """Of content: leases and events are not in it."""
    requests: Mapping[str, float]
    """By method and answer, such as `GET 200`."""
    expired: float
    """Reservations that it ended at their time."""

    @property
    def sent(self) -> float:
        """All requests, answered or not."""
        return sum(self.requests.values())

    @property
    def changes(self) -> float:
        """Requests that are neither reads nor renewals of a lease."""
        return sum(count for key, count in self.requests.items() if key.split()[0] not in IDLE)


@dataclass(frozen=True, slots=True)
class Reading:
    """One process at one moment. Memory in MB (10^6 bytes), CPU in seconds since its start."""

    at: float
    """Seconds of the monotonic clock."""
    pid: int
    rss: float
    anonymous: float
    """What of it is the process's own: heap and stacks, no file's pages."""
    descriptors: int
    threads: int
    cpu: float
    own: Own | None = None
    """None for what is not the module's."""


@dataclass(frozen=True, slots=True)
class Boundary:
    """The end of a cycle, at which everything is as it was before; the first is the churn's begin."""

    at: float
    """Seconds of the monotonic clock."""
    readings: Mapping[str, Reading]
    """By process."""
    stored: Mapping[str, int]
    """Objects that the API server has, by kind."""
    settled: float = 0.0
    """Seconds from the last act's begin until everything was as before."""


def process_of(name: str) -> str:
    """What a process is a replica of; itself where it is the first or only one."""
    return names.WEBHOOK if name.rpartition("-")[0] == names.WEBHOOK else name


def is_ours(process: str) -> bool:
    """Whether a process is the module's, any replica of it."""
    return process_of(process) in MODULE
