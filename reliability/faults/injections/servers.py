"""Faults of the API server: killed, its history forgotten, and a second one whose etcd falls silent."""

from __future__ import annotations

import asyncio
import signal
from typing import TYPE_CHECKING, Final

from reliability.faults.processes import PACE

if TYPE_CHECKING:
    from reliability.faults.environment import Environment
    from reliability.faults.injections.injection import Injection

FROZEN: Final = 3.0 * PACE
MOVED: Final = 0.5
"""Seconds until a process watches at another server."""


async def killed(environment: Environment, _: str, injection: Injection) -> None:
    """Kill -9 of the API server; its supervisor starts it anew."""
    old = environment.pid("kube-apiserver")
    environment.signal("kube-apiserver", signal.SIGKILL)
    await environment.server.replaced(old)
    injection.at("the API server was started anew")


async def compacted(environment: Environment, _: str, injection: Injection) -> None:
    """Etcd forgets its history, and the API server its cache: whoever watches on is told 410."""
    await environment.server.compact()
    await killed(environment, "", injection)


async def second(environment: Environment, _: str, injection: Injection) -> None:
    """Start the second API server."""

    async def away() -> None:
        await environment.stale.stop(environment)

    injection.undo.append(away)
    await environment.stale.start(environment)


async def stale(environment: Environment, process: str, injection: Injection) -> None:
    """The process's watches are served by an API server that hears nothing for a while."""
    proxy = environment.proxies[process]
    proxy.other = environment.stale.url
    proxy.cut()
    await asyncio.sleep(MOVED)
    await _freeze(environment, process, injection)


async def stale_start(environment: Environment, process: str, injection: Injection) -> None:
    """It is started anew where every read goes to an API server that hears nothing."""
    proxy = environment.proxies[process]
    proxy.other, proxy.other_reads = environment.stale.url, True
    await _freeze(environment, process, injection)
    environment.signal(process, signal.SIGKILL)


async def _freeze(environment: Environment, process: str, injection: Injection) -> None:
    proxy, known = environment.proxies[process], len(environment.recorder.history)

    async def thawed() -> None:
        await asyncio.sleep(FROZEN)
        if len(environment.recorder.history) > known:
            injection.at("it missed changes for a while")
        environment.stale.freeze(hold=False)
        await asyncio.sleep(MOVED)
        proxy.other, proxy.other_reads = "", False
        proxy.cut()

    environment.stale.freeze(hold=True)
    injection.spawn(thawed())
