"""One watch of a kind, as any other program would have it: when it showed what was waited for."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any

import orjson

from sim.errors import UserError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from controllers.api.resources import Resource
    from controllers.runtime.client import Client

LIST_SECONDS, IDLE_SECONDS = 120.0, 600.0


class Sight:
    """What a watch has shown so far; made by `following`."""

    def __init__(self) -> None:
        """Nothing is expected yet."""
        self.meta: dict[str, dict[str, Any]] = {}
        """The last `metadata` of each object, by name."""
        self.events: Counter[str] = Counter()
        """Changes of each object since the last `clear`, by name."""
        self._expected: dict[str, list[tuple[Callable[[Any], bool], asyncio.Future[float]]]] = {}
        self._ended: UserError | None = None

    def expect(self, name: str, shows: Callable[[Any], bool]) -> asyncio.Future[float]:
        """When (`time.monotonic`) the watch brings an object of that name for which `shows` is true.

        The future raises UserError where the watch ends before.
        """
        future: asyncio.Future[float] = asyncio.get_running_loop().create_future()
        if self._ended is not None:
            future.set_exception(self._ended)
        else:
            self._expected.setdefault(name, []).append((shows, future))
        return future

    def saw(self, line: bytes, at: float) -> None:
        """Take a line of the watch that came at that time."""
        event = orjson.loads(line)
        obj = event["object"]
        if event["type"] == "ERROR":
            raise UserError(str(obj.get("message")))
        name = obj["metadata"]["name"]
        self.meta[name] = obj["metadata"]
        self.events[name] += 1
        for one in [one for one in self._expected.get(name, ()) if one[1].done() or one[0](obj)]:
            self._expected[name].remove(one)
            if not one[1].done():
                one[1].set_result(at)

    def end(self, why: UserError) -> None:
        """Nothing more will be seen."""
        self._ended = why
        for waiting in self._expected.values():
            for _, future in waiting:
                if not future.done():
                    future.set_exception(why)
        self._expected.clear()


@asynccontextmanager
async def following(client: Client, resource: Resource) -> AsyncIterator[Sight]:
    """A watch of all objects of a kind from here to the end of the block."""
    sight = Sight()
    listed = orjson.loads(await client.request("GET", resource.path(), timeout=LIST_SECONDS))
    sight.meta = {item["metadata"]["name"]: item["metadata"] for item in listed["items"]}
    query = {"watch": "1", "resourceVersion": listed["metadata"]["resourceVersion"]}

    async def follow() -> None:
        why = "ended"
        try:
            async with client.stream(resource.path(), query=query, idle=IDLE_SECONDS) as batches:
                async for lines in batches:
                    now = time.monotonic()
                    for line in filter(None, lines):
                        sight.saw(line, now)
        except Exception as error:  # noqa: BLE001 - whoever waits for an object is told, whatever it was
            why = f"broke: {error}"
        sight.end(UserError(f"the benchmark's watch of {resource.plural} {why}"))

    task = asyncio.create_task(follow())
    try:
        yield sight
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
