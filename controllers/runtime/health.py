"""Health over HTTP, for kubelet: /healthz and /readyz; and on loopback, where nobody else reads them, /metrics.

On every other address metrics have a port of their own (`scraping`).

`/healthz` answers while the event loop turns, `/readyz` names the checks that fail. A task
measures how late the loop wakes up, since a stall delays every deadline of the process.
"""

from __future__ import annotations

import asyncio
import ipaddress
import time
from typing import TYPE_CHECKING

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from controllers.runtime.errors import ConfigurationError
from controllers.runtime.metrics import LOOP_STALL, TASKS

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

STALL_INTERVAL = 0.02


def add_ports(parser: argparse.ArgumentParser) -> None:
    """The flags of the ports that every program has."""
    add = parser.add_argument
    add("--health-host", default="127.0.0.1", help="address of /healthz and /readyz, and of /metrics")
    add("--health-port", type=int, default=8080, help="port of /healthz and /readyz; 0 lets the system choose")
    about = "of /metrics over TLS, for who may read it; without one it is at the health port, on loopback alone"
    add("--metrics-port", type=int, help=f"port {about}")


class Health:
    """The health server of a process."""

    def __init__(self, host: str, port: int, *, with_metrics: bool = True) -> None:
        """Prepare; port 0 lets the system choose. `with_metrics`: to anybody, and so on loopback alone."""
        self._host, self.port = host, port
        self._with_metrics = with_metrics and _is_loopback(host)
        self._checks: dict[str, Callable[[], bool]] = {}
        self._runner: web.AppRunner | None = None
        self._worst = 0.0
        self.stall_interval = STALL_INTERVAL
        """Seconds between two measurements of the loop: each costs CPU, of which a program on every node has little."""

    def check(self, name: str, passes: Callable[[], bool]) -> None:
        """The process is ready only while every check passes."""
        self._checks[name] = passes

    @property
    def failing(self) -> list[str]:
        """Names of the checks that fail now."""
        return [name for name, passes in self._checks.items() if not passes()]

    async def start(self) -> None:
        """Serve until `stop`."""
        app = web.Application()
        app.router.add_get("/healthz", self._alive)
        app.router.add_get("/readyz", self._ready)
        if self._with_metrics:
            app.router.add_get("/metrics", self._metrics)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
        await self._runner.setup()
        try:
            await web.TCPSite(self._runner, self._host, self.port).start()
        except OSError as error:
            msg = f"cannot listen on {self._host}:{self.port}: {error.strerror}. Give --health-port another port."
            raise ConfigurationError(msg) from error
        self.port = self._runner.addresses[0][1]

    async def stop(self) -> None:
        """End the server."""
        if self._runner is not None:
            await self._runner.cleanup()

    async def watch_loop(self) -> None:
        """Measure the event loop's stalls, for ever."""
        while True:
            before = time.monotonic()
            await asyncio.sleep(interval := self.stall_interval)
            self._worst = max(self._worst, time.monotonic() - before - interval)

    async def _alive(self, _: web.Request) -> web.Response:
        return web.Response(text="ok\n")

    async def _ready(self, _: web.Request) -> web.Response:
        if failing := self.failing:
            return web.Response(status=503, text="not ready: " + ", ".join(failing) + "\n")
        return web.Response(text="ok\n")

    async def _metrics(self, _: web.Request) -> web.Response:
        return await self.exposition()

    async def exposition(self) -> web.Response:
        """All metrics of the process, for whoever may read them."""
        LOOP_STALL.set(self._worst)
        self._worst = 0.0
        TASKS.set(len(asyncio.all_tasks()))
        # In another thread: the series of 8,000 cards take a fifth of a second. Collectors look at snapshots.
        body = await asyncio.to_thread(generate_latest)
        return web.Response(body=body, headers={"Content-Type": CONTENT_TYPE_LATEST})


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
