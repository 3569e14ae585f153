"""Awaited work: shown while it goes on, and done for many items at once."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterable

    from tools.programs import Progress

AT_ONCE = 16
TICK = 1.0
"""Seconds between two updates of what is shown."""


@asynccontextmanager
async def show_progress(
    progress: Progress, title: str, done: Callable[[], int] = lambda: 0, total: int | None = None
) -> AsyncIterator[None]:
    """Show work that is awaited inside."""
    with progress.task(title) as task:

        async def tick() -> None:
            while True:
                task.update(done(), total)
                await asyncio.sleep(TICK)

        ticker = asyncio.create_task(tick())
        try:
            yield
        finally:
            ticker.cancel()
            with suppress(asyncio.CancelledError):
                await ticker


async def for_each(items: Iterable[Any], work: Callable[[Any], Awaitable[None]], at_once: int = AT_ONCE) -> None:
    """Do the same with all items, several at a time; the first error ends it."""
    queue = iter(items)

    async def worker() -> None:
        for item in queue:
            await work(item)

    async with asyncio.TaskGroup() as group:
        for _ in range(at_once):
            group.create_task(worker())
