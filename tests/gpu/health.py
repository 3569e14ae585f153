"""Prints what NVML tells of each card's health as one line of JSON: `python -m tests.gpu.health`. Reads only."""

from __future__ import annotations

import json
import signal
import sys
from typing import TYPE_CHECKING, Any, Final

import pynvml

if TYPE_CHECKING:
    from collections.abc import Callable

ALARM: Final = 60  # seconds
VALUES: Final[dict[str, tuple[Callable[..., Any], tuple[Any, ...]]]] = {
    "temperature": (pynvml.nvmlDeviceGetTemperature, (pynvml.NVML_TEMPERATURE_GPU,)),
    "power_mw": (pynvml.nvmlDeviceGetPowerUsage, ()),
    "ecc_uncorrectable": (
        pynvml.nvmlDeviceGetTotalEccErrors,
        (pynvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, pynvml.NVML_AGGREGATE_ECC),
    ),
    "remapped_rows": (pynvml.nvmlDeviceGetRemappedRows, ()),
    "clocks_event_reasons": (pynvml.nvmlDeviceGetCurrentClocksEventReasons, ()),
}


def main() -> int:
    """Print the values by uuid; one that is not told is null."""
    signal.alarm(ALARM)
    pynvml.nvmlInit()
    found = {}
    for index in range(pynvml.nvmlDeviceGetCount()):
        handle = pynvml.nvmlDeviceGetHandleByIndex(index)
        uuid = pynvml.nvmlDeviceGetUUID(handle)
        found[uuid] = {name: _told(call, handle, *more) for name, (call, more) in VALUES.items()}
    pynvml.nvmlShutdown()
    sys.stdout.write(json.dumps(found) + "\n")
    return 0


def _told(call: Callable[..., Any], *values: Any) -> Any:
    try:
        return call(*values)
    except pynvml.NVMLError:
        return None


if __name__ == "__main__":
    sys.exit(main())
