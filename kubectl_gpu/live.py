"""`--watch`: something that is shown over and over, in one place on a terminal, and elsewhere when it changes."""

from __future__ import annotations

import asyncio
import contextlib
import io
import sys
import time
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

OK: Final = 0
LOOK_AGAIN = 2.0
"""Seconds between two looks."""
TO_THE_TOP: Final = "\x1b[H\x1b[2J"


async def live(show: Callable[[], Awaitable[int]], patience: float | None) -> int:
    """Show it until somebody interrupts, or for `patience` seconds. `show` writes to standard output."""
    deadline = float("inf") if patience is None else time.monotonic() + patience
    last = None
    while True:
        # Gathered first: what is half asked for is not shown, and what has not changed is not written again.
        written = _Gathered(sys.stdout)
        with contextlib.redirect_stdout(written):
            status = await show()
        text = written.getvalue()
        if status != OK:
            sys.stdout.write(text)
            return status
        if sys.stdout.isatty():
            sys.stdout.write(TO_THE_TOP + text)
        elif text != last:
            sys.stdout.write(text if last is None else f"\n{text}")
        sys.stdout.flush()
        last = text
        if time.monotonic() >= deadline:
            return OK
        await asyncio.sleep(LOOK_AGAIN)


class _Gathered(io.StringIO):
    """Text for a stream, of the same encoding and as coloured."""

    def __init__(self, stream: object) -> None:
        super().__init__()
        self._stream = stream

    @property
    def encoding(self) -> str | None:  # type: ignore[override]
        """What the stream writes letters in."""
        return getattr(self._stream, "encoding", None)

    def isatty(self) -> bool:
        """Whether the stream is a terminal."""
        return bool(getattr(self._stream, "isatty", lambda: False)())
