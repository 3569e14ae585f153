"""How tests wait: for a condition, with an end that only something broken reaches.

The end says nothing about how long a thing takes: on a machine that does other work everything may take ten times as
long, and a wait that ends well is as short as ever. A condition may be asked of a coroutine, too.
"""

from __future__ import annotations

import asyncio
import inspect
import time
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

PATIENCE: Final = 180.0
"""Seconds until a test no longer believes in what it waits for."""


async def until(
    check: Callable[[], Any | Awaitable[Any]],
    what: str | Callable[[], object],
    seconds: float = PATIENCE,
    every: float = 0.03,
) -> Any:
    """Wait until a check gives something true; returns that. `what`: what was waited for, or what says it then."""
    deadline = time.monotonic() + seconds
    while True:
        found = check()
        if inspect.isawaitable(found):
            found = await found
        if found:
            return found
        assert time.monotonic() < deadline, _late(what, seconds)
        await asyncio.sleep(every)


def eventually(
    check: Callable[[], Any], what: str | Callable[[], object], seconds: float = PATIENCE, every: float = 0.03
) -> Any:
    """Wait outside an event loop; otherwise as `until`."""
    deadline = time.monotonic() + seconds
    while not (found := check()):
        assert time.monotonic() < deadline, _late(what, seconds)
        time.sleep(every)
    return found


async def at_rest(read: Callable[[], Awaitable[Any]], what: str, seconds: float = 3.0) -> Any:
    """Wait until a value has stayed the same for so many seconds; returns it. One that changes for ever fails."""
    last, since = await read(), time.monotonic()

    async def rests() -> bool:
        nonlocal last, since
        if (now := await read()) != last:
            last, since = now, time.monotonic()
        return time.monotonic() - since >= seconds

    await until(rests, lambda: f"{what} to rest, which is {last}", PATIENCE, every=0.2)
    return last


def _late(what: str | Callable[[], object], seconds: float) -> str:
    return f"waited {seconds:g} s for {what() if callable(what) else what}"
