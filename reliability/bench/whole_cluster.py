"""The cluster of `make up` for a theme: brought up, its nodes ready for pooling, and taken down whatever happens."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from reliability.bench.fleet import SHAPE
from reliability.kit.progress import show_progress
from sim import controlplane
from sim.cluster import Options, bring_up
from sim.module.processes import Timers
from sim.view import LateError, View
from tools.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from sim.controlplane import ControlPlane
    from tools.programs import Progress

READY_SECONDS: Final = 120.0


@contextmanager
def whole_cluster(folder: Path, nodes: int, progress: Progress, timers: Timers | None = None) -> Iterator[ControlPlane]:
    """A cluster of so many nodes in `folder`, inside the block; raises UserError, also for what came too late there."""
    options = Options(nodes=nodes, profile=f"{SHAPE}={nodes}", timers=timers or Timers())
    with brought_up(folder, options, progress) as plane:
        yield plane


@contextmanager
def brought_up(folder: Path, options: Options, progress: Progress) -> Iterator[ControlPlane]:
    """A cluster of these options in `folder`, inside the block; raises as above."""
    try:
        yield bring_up(folder, options, progress)
    except LateError as late:
        raise UserError(str(late)) from late
    finally:
        controlplane.down(folder)


async def ready_for_pooling(view: View, nodes: int, progress: Progress) -> None:
    """Wait until so many nodes are; raises LateError."""
    async with show_progress(progress, f"{nodes} nodes become ready for pooling"):
        await view.until(lambda: view.ready() == nodes, READY_SECONDS, view.unready)


async def slots_available(view: View, pool: str, slots: int, progress: Progress) -> None:
    """Wait until so many slots of a pool can be had, and no more; raises LateError."""
    async with show_progress(progress, f"{slots} free cards are in GPUPool {pool}"):
        await view.until(
            lambda: view.available(pool) == slots,
            READY_SECONDS,
            lambda: f"{view.available(pool)} of {slots} slots of GPUPool {pool} are available",
        )
