"""Viewers of the console's page Fleet as a browser is one: Server-Sent Events, each over a connection of its own.

They run on the event loop of the benchmark. Of an event that came, its time is taken before it is looked at.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import aiohttp
import orjson

from tools.errors import UserError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

PAGE = "/api/events/fleet"
SNAPSHOT_SECONDS = 120.0
"""Within which a viewer must have its first snapshot."""
POLL = 0.05
OK = 200


class Expected:
    """Pools that cards are about to be in, and when each viewer has seen a card in one. Times of `time.monotonic`."""

    def __init__(self, viewers: int) -> None:
        """Nothing is expected yet."""
        self._viewers = viewers
        self._open: dict[tuple[str, str], tuple[asyncio.Future[list[float]], list[float]]] = {}

    def expect(self, card: str, pool: str) -> asyncio.Future[list[float]]:
        """When all viewers have seen it: the time at each."""
        future: asyncio.Future[list[float]] = asyncio.get_running_loop().create_future()
        self._open[card, pool] = (future, [])
        return future

    def seen(self, card: str, pool: str, at: float) -> None:
        """A viewer has seen a card in a pool."""
        future, times = self._open.get((card, pool), (None, []))
        times.append(at)
        if future is not None and len(times) == self._viewers and not future.done():
            future.set_result(times)


@dataclass
class Viewer:
    """One page that is open."""

    expected: Expected
    asked: float = field(default_factory=time.monotonic)
    received: int = 0
    """Bytes of events so far."""
    snapshots: int = 0
    snapshot: asyncio.Future[float] = field(default_factory=lambda: asyncio.get_running_loop().create_future())
    """Seconds from its request to the whole first snapshot."""
    snapshot_bytes: int = 0

    async def read(self, answer: aiohttp.ClientResponse) -> None:
        """Take events until the connection ends; raises UserError where the console ends it."""
        buffer = bytearray()
        async for piece in answer.content.iter_any():
            at = time.monotonic()
            self.received += len(piece)
            buffer += piece
            if buffer.endswith(b"\n\n"):
                for block in bytes(buffer).split(b"\n\n")[:-1]:
                    self._take(block, at)
                buffer.clear()
        raise UserError("the console has ended a viewer's events")

    def _take(self, block: bytes, at: float) -> None:
        head, _, data = block.partition(b"\ndata: ")
        if head.endswith(b"event: snapshot"):
            self.snapshots += 1
            if not self.snapshot.done():
                self.snapshot_bytes = len(block)
                self.snapshot.set_result(at - self.asked)
        elif head.endswith(b"event: patch"):
            for row in orjson.loads(data)["rows"].values():
                self._cards(row or {}, at)

    def _cards(self, row: dict[str, Any], at: float) -> None:
        for name, square in row.get("cards", {}).items():
            if square and "pool" in square:
                self.expected.seen(name, square["pool"], at)


@asynccontextmanager
async def looking(url: str, token: str, count: int, expected: Expected) -> AsyncIterator[list[Viewer]]:
    """So many viewers, each with its first snapshot, until the end of the block; raises UserError."""
    viewers = [Viewer(expected) for _ in range(count)]
    connector = aiohttp.TCPConnector(limit=0)
    headers = {"Authorization": f"Bearer {token}"}
    timeout = aiohttp.ClientTimeout(total=None)
    async with aiohttp.ClientSession(connector=connector, headers=headers, timeout=timeout) as session:
        tasks = [asyncio.create_task(_look(session, url, viewer)) for viewer in viewers]
        try:
            first: asyncio.Future[Any] = asyncio.gather(*(viewer.snapshot for viewer in viewers))
            waited: list[asyncio.Future[Any]] = [first, *tasks]
            await asyncio.wait(waited, timeout=SNAPSHOT_SECONDS, return_when=asyncio.FIRST_COMPLETED)
            if not first.done():
                first.cancel()
                await _ended(tasks)
                raise UserError(f"not every viewer has the page after {SNAPSHOT_SECONDS:.0f} s")
            yield viewers
            await _ended(tasks)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


async def _look(session: aiohttp.ClientSession, url: str, viewer: Viewer) -> None:
    viewer.asked = time.monotonic()
    async with session.get(url + PAGE) as answer:
        if answer.status != OK:
            raise UserError(f"the console answers {answer.status}: {(await answer.text())[:300]}")
        await viewer.read(answer)


async def _ended(tasks: list[asyncio.Task[None]]) -> None:
    """Raise what ended a viewer, where one has ended."""
    for task in tasks:
        if task.done():
            await task


async def until_served(url: str, token: str, within: float) -> None:
    """Wait until the console answers with rows; raises UserError."""
    limit = time.monotonic() + within
    headers = {"Authorization": f"Bearer {token}"}
    async with aiohttp.ClientSession(headers=headers) as session:
        while True:
            with suppress(aiohttp.ClientError):
                async with session.get(f"{url}/api/rows/broken") as answer:  # a small page: Fleet's is to be the first
                    if answer.status == OK:
                        return
            if time.monotonic() > limit:
                raise UserError(f"the console has not read the cluster after {within:.0f} s")
            await asyncio.sleep(POLL)
