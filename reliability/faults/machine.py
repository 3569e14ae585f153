"""CPU time that a run's processes had, and that they waited for, as Linux counts it.

The programs are those of the control plane and of the module, and the worker through whose proxies all requests go. A
program that ends between two looks takes up to `PERIOD` of its account with it: what is judged by it is the machine.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

PERIOD: Final = 0.5
"""Seconds between two looks."""
PROC: Final = Path("/proc")
NANO: Final = 1e-9
Account = tuple[int, int]
"""Nanoseconds that a thread ran, and that it waited for a CPU."""
Thread = tuple[int, int]
"""A process's id, and a thread's."""


@dataclass(frozen=True)
class Given:
    """CPU time of a run, in seconds: what its programs had, and what they waited for. Both 0 where Linux keeps none."""

    ran: float = 0.0
    waited: float = 0.0

    @property
    def wait(self) -> float:
        """Seconds of waiting for each second of CPU: how slow the machine was, whatever a run's programs had to do."""
        return self.waited / self.ran if self.ran else 0.0


class Meter:
    """Adds up over the threads of processes, of which some end and others come."""

    def __init__(self, pids: Callable[[], Iterable[int]], proc: Path = PROC) -> None:
        """`pids`: the processes that there are now."""
        self._pids, self._proc = pids, proc
        self._first: dict[Thread, Account] = {}
        self._last: dict[Thread, Account] = {}

    def begin(self) -> None:
        """Count from now on."""
        self._first = self._look()
        self._last = dict(self._first)

    def given(self) -> Given:
        """What there was since `begin`; a thread that came later counts from its own begin."""
        self._last |= self._look()
        ran, waited = (
            sum(now[part] - self._first.get(thread, (0, 0))[part] for thread, now in self._last.items())
            for part in (0, 1)
        )
        return Given(ran * NANO, waited * NANO)

    async def follow(self) -> None:
        """Look again and again, until cancelled: what a program had before it ended counts, too."""
        while True:
            await asyncio.sleep(PERIOD)
            self._last |= self._look()

    def _look(self) -> dict[Thread, Account]:
        return {
            (pid, int(task.name)): account
            for pid in self._pids()
            if pid
            for task in self._tasks(pid)
            if (account := _account(task / "schedstat")) is not None
        }

    def _tasks(self, pid: int) -> list[Path]:
        try:
            return list((self._proc / str(pid) / "task").iterdir())
        except OSError:  # it has ended
            return []


def _account(path: Path) -> Account | None:
    try:
        ran, waited, _ = path.read_text().split()
    except (OSError, ValueError):  # it has ended, or this Linux keeps no such account
        return None
    return int(ran), int(waited)
