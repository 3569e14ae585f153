"""`kubectl gpu driver … --wait`: until nodes are handed over or back, and until a driver is on all of its nodes."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Final

from controllers.api import resources
from controllers.api.conditions import find, is_true
from controllers.api.gpudriver import GPUDriver
from controllers.api.gpunodeinventory import GPUNodeInventory
from controllers.explain.words import counted
from kubectl_gpu.finding import get_or_fail
from kubectl_gpu.terminal import Progress, warn

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kubectl_gpu.cluster import Cluster

OK, FAILED = 0, 1
LOOK_AGAIN = 1.0
"""Seconds between two looks."""
NOT_WAITED_FOR: Final = ("Halted", "Failed")
"""Conditions of a driver that pass by nobody's patience."""


async def until_handed_over(cluster: Cluster, given: Sequence[str], patience: float | None, *, back: bool) -> int:
    """Look until every node is somebody's, or, with `back`, nobody's any more. `patience`: seconds; None for ever."""
    progress, deadline = Progress(), _deadline(patience)
    left, said = list(given), {}
    goal = "given back" if back else "handed over"
    while True:
        for name in list(left):
            seen: GPUNodeInventory = await get_or_fail(
                cluster, resources.GPUNODEINVENTORY, GPUNodeInventory, name, "GPU node"
            )
            work = seen.status.driver_work
            if (work is None or work.hand_over is None) if back else (work is not None and work.phase == "HandedOver"):
                left.remove(name)
            elif work is None:
                said[name] = "it has not been begun"
            else:
                said[name] = f"{work.phase}{f': {work.message}' if work.message else ''}"
        if not left or time.monotonic() >= deadline:
            break
        progress.show(f"{len(given) - len(left)} of {counted(len(given), 'node')} {goal}; {left[0]}: {said[left[0]]}")
        await asyncio.sleep(LOOK_AGAIN)
    progress.clear()
    for name in left:
        warn(f"error: after {patience:g} s node {name} is not {goal}: {said[name]}")
    if not left:
        warn(f"{counted(len(given), 'node')} {goal}.")
    return FAILED if left else OK


async def until_everywhere(cluster: Cluster, name: str, patience: float | None) -> int:
    """Look until all nodes of a driver are as asked for, or something speaks against it. `patience` as above."""
    progress, deadline = Progress(), _deadline(patience)
    while True:
        found: GPUDriver = await get_or_fail(cluster, resources.GPUDRIVER, GPUDriver, name, "GPUDriver")
        is_known = found.status.observed_generation == found.metadata.generation
        if is_known and is_true(found.status.conditions, "Ready"):
            progress.clear()
            return OK
        trouble = [one for kind in NOT_WAITED_FOR if (one := find(found.status.conditions, kind)) is not None]
        bad = next((one for one in trouble if one.status == "True"), None)
        if is_known and bad is not None:
            progress.clear()
            warn(f"error: GPUDriver {name}: {bad.type} ({bad.reason}): {bad.message}")
            return FAILED
        ready = find(found.status.conditions, "Ready")
        said = ready.message if is_known and ready is not None else "it has not been looked at"
        if time.monotonic() >= deadline:
            progress.clear()
            warn(f"error: after {patience:g} s GPUDriver {name} is not everywhere: {said}")
            return FAILED
        progress.show(f"GPUDriver {name}: {said}")
        await asyncio.sleep(LOOK_AGAIN)


def _deadline(patience: float | None) -> float:
    return float("inf") if patience is None else time.monotonic() + patience
