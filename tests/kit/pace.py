"""Times that a test must judge: too long only where nothing had to wait for the machine meanwhile.

Linux counts for how long some process was ready and got no processor, no memory or no disk (/proc/pressure). That much
of a time that is longer than allowed may be the machine's; what is too long without it is a fault whatever else runs.
In between a test is skipped, "not judged: the machine is busy", with the figures; so it is where the kernel counts
nothing. A time that is short enough passes on any machine.

Most tests need none of this: they wait for a condition, count requests, or judge the processor's time.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Self

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

PRESSURE = Path("/proc/pressure")
SOURCES = ("cpu", "memory", "io")


def waited() -> float | None:
    """Seconds since the machine started for which something waited for it; None where nobody counts."""
    try:
        lines = [(PRESSURE / source).read_text().partition("\n")[0] for source in SOURCES]
    except OSError:
        return None
    return sum(float(line.rpartition("total=")[2]) for line in lines) / 1e6


class Stretch:
    """A stretch of a test, from entering to leaving, in which times are taken that are judged after it."""

    def __init__(self, waited: Callable[[], float | None] = waited) -> None:
        """`waited`: how the machine's own delay is read."""
        self._waited = waited
        self.seconds, self.delay = 0.0, 0.0
        """How long it lasted, and for how much of that something waited; all of it where nobody counts."""

    def __enter__(self) -> Self:
        self._began, self._before = time.monotonic(), self._waited()
        return self

    def __exit__(self, *_: object) -> None:
        self.seconds, after = time.monotonic() - self._began, self._waited()
        counted = None if after is None or self._before is None else after - self._before
        self.delay = self.seconds if counted is None else min(counted, self.seconds)

    def judge(self, what: str, took: float, limit: float) -> None:
        """Fail where this time of the stretch was too long, skip where the machine may have made it so; in seconds.

        Called last of all: what a test says otherwise is right or wrong on any machine.
        """
        if took <= limit:
            return
        figures = f"{what} took {took:.3g} s, and {limit:.3g} s are allowed"
        machine = f"for {self.delay:.3g} of {self.seconds:.3g} s something waited for it"
        if took - self.delay > limit:
            raise AssertionError(f"{figures}; the machine is no excuse: {machine}")
        pytest.skip(f"not judged: the machine is busy: {figures}; {machine}")
