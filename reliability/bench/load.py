"""An open loop: each piece of work, such as a request, begins at its time, however long others take.

A latency of requests counts from the time at which the request was due, so that a server that stalls
is not spared by a client that waits for it. Runs on the event loop of the benchmark, which
does nothing else meanwhile.
"""

from __future__ import annotations

import asyncio
import gc
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    import aiohttp

T = TypeVar("T")
OK = 200


@dataclass(frozen=True, slots=True)
class Answer:
    """One request and its answer; times in seconds."""

    latency: float
    """From when it was due to the last byte of its answer."""
    late: float
    """How much of that the client itself took to send it: the generator's own share."""
    body: bytes
    """Empty where the status was not 200."""


async def open_loop(session: aiohttp.ClientSession, url: str, bodies: Sequence[bytes], a_second: float) -> list[Answer]:
    """Send every body, `a_second` of them in a second; returns the answers in the order of the bodies."""
    loop = asyncio.get_running_loop()

    async def one(number: int, due: float) -> Answer:
        sent = loop.time()
        async with session.post(url, data=bodies[number], headers={"Content-Type": "application/json"}) as answer:
            content = await answer.read()
            status = answer.status
        return Answer(loop.time() - due, sent - due, content if status == OK else b"")

    return await at_pace(len(bodies), a_second, one)


async def at_pace(count: int, a_second: float, one: Callable[[int, float], Awaitable[T]]) -> list[T]:
    """Begin `one(number, due)` for each number at its time; returns what they return, in order.

    `due` is of the event loop's clock. The first error cancels the others.
    """
    loop = asyncio.get_running_loop()
    gc.collect()
    gc.freeze()  # a collection over the benchmark's own objects would show as the server's stall
    start = loop.time() + 0.1

    async def begin(number: int, due: float) -> T:
        return await one(number, due)

    tasks: list[asyncio.Task[T]] = []
    try:
        for number in range(count):
            due = start + number / a_second
            await asyncio.sleep(max(0.0, due - loop.time()))
            tasks.append(loop.create_task(begin(number, due)))
        return list(await asyncio.gather(*tasks))
    finally:
        for task in tasks:
            task.cancel()
        gc.unfreeze()
