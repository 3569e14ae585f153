"""Faults of one process: no rights, another time of day, stopped, watches that fall silent."""

from __future__ import annotations

import asyncio
import math
import signal
import time
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

import orjson

from controllers.api import names
from controllers.runtime.client import MERGE
from reliability.faults.processes import FULL, MANAGER, PACE
from reliability.kit.actors import retry

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from reliability.faults.environment import Environment
    from reliability.faults.injections.injection import Injection
    from reliability.faults.process_proxy import ProcessProxy

WITHOUT_RIGHTS: Final = 4.5 * PACE
"""Seconds; longer than a lease, so that it is surely lost."""
STOPPED: Final = 5.0 * PACE
"""Longer than a lease."""
JUMP: Final = 600.0
WEBHOOK_JUMP: Final = 8.0
"""Of the webhook's clock, which dates reservations: those of a clock that was ahead end later by as much, and no more
is promised (`controllers/gpupool/queue/reservations.py`). It is still more than what ends a process."""
JUMPED: Final = 6.0 * PACE
"""Long enough to act under the wrong time: a process starts anew where its clock jumps."""
RBAC_PATHS: Final = (
    "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
    f"/apis/rbac.authorization.k8s.io/v1/namespaces/{names.NAMESPACE}/rolebindings",
)


async def rbac(environment: Environment, process: str, injection: Injection) -> None:
    """The process's rights are taken away for a while: it may do nothing at all."""
    saved = []
    for path in RBAC_PATHS:
        for item in orjson.loads(await environment.client.request("GET", path))["items"]:
            if any(subject["name"] == FULL[process] for subject in item.get("subjects") or ()):
                saved.append((f"{path}/{item['metadata']['name']}", item["subjects"]))  # noqa: PERF401 - two loops read better
    assert saved, f"no rights of {process} are found"

    async def write(path: str, subjects: list[Any]) -> None:
        query, body = {"fieldManager": MANAGER}, {"subjects": subjects}
        await retry(lambda: environment.client.request("PATCH", path, query=query, body=body, content_type=MERGE), 20)

    async def restored() -> None:
        await asyncio.sleep(WITHOUT_RIGHTS)
        for path, subjects in saved:
            await write(path, subjects)

    for path, subjects in saved:
        await write(path, [s for s in subjects if s["name"] != FULL[process]])
    began, proxy = time.monotonic(), environment.proxies[process]
    environment.suspect.add(process)
    injection.claim("it was told that it may not", lambda: proxy.forbidden(began))
    injection.spawn(restored())


def clock(by: float) -> Callable[[Environment, str, Injection], Awaitable[None]]:
    """The wall clock is so many seconds off for a while."""

    async def jump(environment: Environment, process: str, injection: Injection) -> None:
        off = by if process != "webhook" else math.copysign(WEBHOOK_JUMP, by)

        async def back() -> None:
            await asyncio.sleep(JUMPED)
            environment.clock(process).write_text("0")

        environment.clock(process).write_text(str(off))
        proxy, began = environment.proxies[process], time.monotonic()
        injection.claim("it wrote another time into its lease", lambda: _told_another_time(proxy, began, abs(off) / 2))
        injection.spawn(back())

    return jump


def _told_another_time(proxy: ProcessProxy, since: float, least: float) -> bool:
    begun = time.time() - time.monotonic()
    for sent in proxy.sent():
        if sent.resource == "leases" and sent.at > since and isinstance(sent.body, dict):
            told = sent.body.get("spec", {}).get("renewTime")
            if told and abs(datetime.fromisoformat(told).timestamp() - (begun + sent.at)) > least:
                return True
    return False


async def stopped(environment: Environment, process: str, injection: Injection) -> None:
    """SIGSTOP for longer than its lease: it comes back and no longer leads."""

    async def woken() -> None:
        await asyncio.sleep(STOPPED)
        environment.proxies[process].marks.append(time.monotonic())
        environment.signal(process, signal.SIGCONT)

    if environment.signal(process, signal.SIGSTOP):
        injection.at("it was stopped")
    injection.spawn(woken())


async def half_open(environment: Environment, process: str, injection: Injection) -> None:
    """Its watches stay open and say nothing any more."""
    proxy = environment.proxies[process]
    proxy.freeze()
    injection.claim("it missed events", lambda: proxy.lost > 0)
