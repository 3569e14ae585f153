"""Scrapes the DCGM exporters of all nodes, each once in a period, over connections that are kept.

Every node has its own moment in the period, computed from its name, so that a thousand scrapes are spread evenly
and stay so after a restart. A node whose readiness waits for it (`eager`) is scraped at once and then quickly, with
growing pauses while it fails. A node that hangs costs a connection until the timeout and delays no other.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Final
from zlib import crc32

import aiohttp
import structlog
from prometheus_client import Counter

from controllers.bootstrap.telemetry.fetch import PIECE, fetch

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from controllers.bootstrap.telemetry.fetch import Scrape

log = structlog.get_logger()
SCRAPES: Final = Counter("gpu_scrapes_total", "Scrapes of dcgm-exporter by their end.", ["result"])
TARGETS_SECONDS: Final = 1.0
"""How old the list of targets may be, at most."""
GATHER_SECONDS: Final = 0.1
"""So long are changes of targets gathered: many pods become ready at once."""


class Scraper:
    """Calls `receive` with every scrape, in the event loop and in no order; it must be quick."""

    def __init__(
        self,
        targets: Callable[[], Mapping[str, str]],
        receive: Callable[[Scrape], None],
        *,
        period: float = 15.0,
        timeout: float = 5.0,
        eager: Callable[[str], bool] = lambda _: False,
        eager_pause: float = 0.25,
        concurrency: int = 400,
    ) -> None:
        """Prepare. `targets` maps nodes to URLs and is asked once a second; times are in seconds.

        `period` may be changed while it runs. `concurrency` bounds memory only: it is far above what healthy nodes
        need, so that a third of a thousand nodes may hang and the others are still scraped on time.
        """
        self._targets, self._receive, self._eager = targets, receive, eager
        self.period, self._timeout, self._eager_pause = period, timeout, eager_pause
        self._slots = asyncio.Semaphore(concurrency)
        self._urls: dict[str, str] = {}
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._failures: dict[str, int] = {}
        self._session: aiohttp.ClientSession | None = None
        self._changed = asyncio.Event()

    async def run(self) -> None:
        """Scrape until cancelled."""
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=2 * self.period + 5),
            timeout=aiohttp.ClientTimeout(total=self._timeout),
            cookie_jar=aiohttp.DummyCookieJar(),
            headers={"Accept": "text/plain", "Accept-Encoding": "identity"},
            auto_decompress=False,
            read_bufsize=PIECE,
        )
        try:
            while True:
                self.refresh()
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(TARGETS_SECONDS):
                        await self._changed.wait()
                        await asyncio.sleep(GATHER_SECONDS)
                self._changed.clear()
        finally:
            await self._stop(self._session)

    def targets_changed(self) -> None:
        """Ask for the targets soon."""
        self._changed.set()

    async def _stop(self, session: aiohttp.ClientSession) -> None:
        self._session, running = None, list(self._tasks.values())
        for timer in self._timers.values():
            timer.cancel()
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        await session.close()

    def refresh(self) -> None:
        """Ask for the targets now; a moved node is a new one."""
        old, self._urls = self._urls, dict(self._targets())
        for node in old.keys() - self._urls.keys():
            self._failures.pop(node, None)
            if node in self._timers:
                self._timers.pop(node).cancel()
        now = asyncio.get_running_loop().time()
        for node, url in self._urls.items():
            if old.get(node) != url and node not in self._tasks:
                self._failures.pop(node, None)
                self._plan(node, now if self._eager(node) else self._moment(node, now))

    def _plan(self, node: str, due: float) -> None:
        if node in self._timers:
            self._timers.pop(node).cancel()
        self._timers[node] = asyncio.get_running_loop().call_at(due, self._start, node)

    def _start(self, node: str) -> None:
        del self._timers[node]
        if self._session is not None:
            work = self._one(node, self._urls[node], self._session)
            self._tasks[node] = asyncio.get_running_loop().create_task(work, name=f"scrape {node}")

    def _moment(self, node: str, now: float) -> float:
        """The next of the node's own moments."""
        phase: float = crc32(node.encode()) / 2**32 * self.period
        return now + (phase - now) % self.period

    def _next(self, node: str, now: float) -> float:
        if not self._eager(node):
            return self._moment(node, now + self.period / 4)
        pause: float = self._eager_pause * 2 ** min(self._failures.get(node, 0), 16)
        return now + min(self.period, pause)

    async def _one(self, node: str, url: str, session: aiohttp.ClientSession) -> None:
        """Scrape a node and tell; then plan the next time."""
        try:
            async with self._slots:
                scrape = await fetch(node, url, session)
            SCRAPES.labels(scrape.result).inc()
            if self._urls.get(node) == url:
                self._failures[node] = 0 if scrape.fresh else self._failures.get(node, 0) + 1
                self._receive(scrape)
        except Exception:
            log.exception("a scrape could not be taken in", node=node)
        finally:
            del self._tasks[node]
            if node in self._urls and self._session is not None:
                now = asyncio.get_running_loop().time()
                self._plan(node, self._next(node, now) if self._urls[node] == url else now)
