"""The state of one injected fault: whether it happened, when it was over, and what must be undone."""

from __future__ import annotations

import asyncio
import inspect
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from reliability.faults.processes import PACE

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

WITNESS: Final = 6.0 * PACE
"""Seconds after the story in which the effect of a fault must show: not all that is written is written within it."""


@dataclass
class Injection:
    """See the module's text."""

    what: str = ""
    """What it struck; empty while it has had no effect."""
    ended: float = 0.0
    """When it was over, monotonic."""
    undo: list[Callable[[], Awaitable[None]]] = field(default_factory=list)
    tasks: set[asyncio.Future[None]] = field(default_factory=set)
    error: str = ""
    every_step: Callable[[], Awaitable[None]] | None = None
    """Done before each of people's steps from then on."""
    _claim: tuple[str, Callable[[], bool | Awaitable[bool]]] | None = None

    def at(self, what: str) -> None:
        """It strikes now."""
        self.what, self.ended = self.what or what, time.monotonic()

    def claim(self, what: str, shows: Callable[[], bool | Awaitable[bool]]) -> None:
        """It is there now; that it had an effect is to show. Without one it struck nothing."""
        self._claim, self.ended = (what, shows), time.monotonic()

    def spawn(self, work: Awaitable[None]) -> None:
        """Let it go on beside the workload."""
        task = asyncio.ensure_future(work)
        task.add_done_callback(self._over)
        self.tasks.add(task)

    def _over(self, _: asyncio.Future[None]) -> None:
        self.ended = time.monotonic()

    async def heal(self) -> None:
        """End it; raises what went wrong with the fault itself."""
        if self.tasks:
            await asyncio.gather(*self.tasks)
        await self._look(WITNESS)
        for undo in reversed(self.undo):
            await undo()
            self.ended = time.monotonic()

    async def _look(self, seconds: float) -> None:
        what, shows = self._claim or ("", lambda: bool(self.what))
        deadline = time.monotonic() + seconds
        while True:
            found = shows()
            if (await found) if inspect.isawaitable(found) else found:
                self.what = self.what or what
                return
            if time.monotonic() > deadline:
                return
            await asyncio.sleep(0.2)
