"""Lets a test move the wall clock of a process of the module: the file FAULTS_CLOCK holds the seconds it is off.

Python imports this by itself where its folder is on PYTHONPATH; only tests put it there. The monotonic
clock, by which leases and timeouts are measured, is left alone, as a jump of a machine's clock leaves it alone.
"""

import os
import time

TYPE_CHECKING = False  # typing's own would load typing
if TYPE_CHECKING:
    from collections.abc import Callable

_file = os.environ.get("FAULTS_CLOCK")


def _shift(path: str, real: "Callable[[], float]", look_every: float = 0.05) -> "Callable[[], float]":
    known = [float("-inf"), 0.0]

    def now() -> float:
        moment = time.monotonic()
        if moment - known[0] > look_every:
            known[0] = moment
            try:
                with open(path) as file:  # noqa: PTH123 - imported by every process: nothing else is loaded
                    known[1] = float(file.read() or 0)
            except (OSError, ValueError):
                known[1] = 0.0
        return real() + known[1]

    return now


if _file:
    time.time = _shift(_file, time.time)
