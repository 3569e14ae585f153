"""Faults of the API server: killed, its history forgotten, and a second one whose etcd falls silent."""

from __future__ import annotations

import asyncio
import signal
from typing import TYPE_CHECKING, Final

from reliability.faults.processes import PACE

if TYPE_CHECKING:
    from reliability.faults.ground import Ground
    from reliability.faults.strikes.strike import Strike

FROZEN: Final = 3.0 * PACE
MOVED: Final = 0.5
"""Seconds until a process watches at another server."""


async def killed(ground: Ground, _: str, strike: Strike) -> None:
    """Kill -9 of the API server; its supervisor starts it anew."""
    old = ground.pid("kube-apiserver")
    ground.signal("kube-apiserver", signal.SIGKILL)
    await ground.server.replaced(old)
    strike.at("the API server was started anew")


async def compacted(ground: Ground, _: str, strike: Strike) -> None:
    """Etcd forgets its history, and the API server its cache: whoever watches on is told 410."""
    await ground.server.compact()
    await killed(ground, "", strike)


async def second(ground: Ground, _: str, strike: Strike) -> None:
    """Start the second API server."""

    async def away() -> None:
        await ground.stale.stop(ground)

    strike.undo.append(away)
    await ground.stale.start(ground)


async def stale(ground: Ground, process: str, strike: Strike) -> None:
    """The process's watches are served by an API server that hears nothing for a while."""
    tap = ground.taps[process]
    tap.other = ground.stale.url
    tap.cut()
    await asyncio.sleep(MOVED)
    await _freeze(ground, process, strike)


async def stale_start(ground: Ground, process: str, strike: Strike) -> None:
    """It is started anew where every read goes to an API server that hears nothing."""
    tap = ground.taps[process]
    tap.other, tap.other_reads = ground.stale.url, True
    await _freeze(ground, process, strike)
    ground.signal(process, signal.SIGKILL)


async def _freeze(ground: Ground, process: str, strike: Strike) -> None:
    tap, known = ground.taps[process], len(ground.recorder.history)

    async def thawed() -> None:
        await asyncio.sleep(FROZEN)
        if len(ground.recorder.history) > known:
            strike.at("it missed changes for a while")
        ground.stale.freeze(hold=False)
        await asyncio.sleep(MOVED)
        tap.other, tap.other_reads = "", False
        tap.cut()

    ground.stale.freeze(hold=True)
    strike.spawn(thawed())
