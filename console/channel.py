"""One page as everybody with the same rights sees it: its rows now, and the last changes of them.

A reader says up to which change it has read; `since` gives what is left, or a whole snapshot where it was away for too
long, reads too slowly, or has read another channel. So no reader has a queue of its own.
"""

from __future__ import annotations

import asyncio
import re
from collections import deque
from secrets import token_hex
from typing import TYPE_CHECKING, Any, Final

import orjson

from console.patch import rows_patch

if TYPE_CHECKING:
    from collections.abc import Mapping

    from console.records import Row

NUMBER: Final = re.compile(r"[0-9]{1,18}")
PATCHES_MAX, PATCHES_BYTES = 256, 2 << 20
"""Changes that are kept for readers, and their size."""


def event(name: str, data: Any, ident: str = "") -> bytes:
    """A Server-Sent Event. JSON has no line breaks of its own."""
    head = f"id: {ident}\n" if ident else ""
    return f"{head}event: {name}\ndata: ".encode() + orjson.dumps(data) + b"\n\n"


class Channel:
    """Rows of a page, their last changes, and who waits for the next."""

    def __init__(self) -> None:
        """Make one without rows; it has some from the first `take` on."""
        self.rows: Mapping[str, Row] = {}
        self.filled = False
        self.failure = ""
        """Why rows could not be made of the last state, in words."""
        self.readers = 0
        self.left = 0.0
        """When the last reader went, by the loop's clock."""
        self._epoch, self._number = token_hex(4), 0
        self._patches: deque[bytes] = deque()
        self._bytes = 0
        self._snapshot: bytes | None = None
        self._news = asyncio.Event()

    @property
    def position(self) -> str:
        """The id of the last event."""
        return f"{self._epoch}-{self._number}"

    def take(self, rows: Mapping[str, Row], failure: str = "") -> bool:
        """Take the page's rows as they are now; whether they differ."""
        if not self.filled:
            self.rows, self.filled, self.failure = rows, True, failure
            self.notify()
            return True
        changed = rows_patch(self.rows, rows)
        if failure != self.failure:
            self.failure = failure
            changed = changed or {"rows": {}}
        if changed is None:
            return False
        self.rows = rows
        self._number += 1
        self._snapshot = None
        self._keep(event("patch", changed | self._failure(), self.position))
        self.notify()
        return True

    def fail(self, failure: str) -> bool:
        """Keep the rows, and say that they are not of the last state."""
        return self.take(self.rows, failure)

    def since(self, position: str) -> bytes:
        """The events after one, by its id; empty where that was the last."""
        epoch, _, number = position.partition("-")
        if epoch == self._epoch and NUMBER.fullmatch(number) and 0 <= self._number - int(number) <= len(self._patches):
            behind = self._number - int(number)
            return b"".join(list(self._patches)[len(self._patches) - behind :])
        return self.snapshot()

    def snapshot(self) -> bytes:
        """All rows as one event."""
        if self._snapshot is None:
            data = {"rows": self.rows, "order": list(self.rows)} | self._failure()
            self._snapshot = event("snapshot", data, self.position)
        return self._snapshot

    def _failure(self) -> dict[str, str]:
        return {"failure": self.failure} if self.failure else {}

    def _keep(self, patch: bytes) -> None:
        self._patches.append(patch)
        self._bytes += len(patch)
        while len(self._patches) > PATCHES_MAX or self._bytes > PATCHES_BYTES:
            self._bytes -= len(self._patches.popleft())

    async def wait(self, seconds: float) -> None:
        """Wait for news, or so long."""
        news = self._news
        try:
            async with asyncio.timeout(seconds):
                await news.wait()
        except TimeoutError:
            return

    def notify(self) -> None:
        """Let all readers look again."""
        self._news.set()
        self._news = asyncio.Event()
