"""An open loop of HTTP requests: each is sent at its time, however long others take.

A latency counts from the time at which the request was due, so that a server that stalls
is not spared by a client that waits for it. Runs on the event loop of the benchmark, which
does nothing else meanwhile.
"""

from __future__ import annotations

import asyncio
import gc
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    import aiohttp

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
    gc.collect()
    gc.freeze()  # a collection over the benchmark's own objects would show as the server's stall
    start = loop.time() + 0.1

    async def one(due: float, body: bytes) -> Answer:
        sent = loop.time()
        async with session.post(url, data=body, headers={"Content-Type": "application/json"}) as answer:
            content = await answer.read()
            status = answer.status
        return Answer(loop.time() - due, sent - due, content if status == OK else b"")

    tasks = []
    for number, body in enumerate(bodies):
        due = start + number / a_second
        await asyncio.sleep(max(0.0, due - loop.time()))
        tasks.append(loop.create_task(one(due, body)))
    try:
        return list(await asyncio.gather(*tasks))
    finally:
        gc.unfreeze()
