"""Commands that bring up a control plane of their own, `bench` and `soak`: how they begin, and how they end."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from sim import controlplane
from tools.errors import UserError

TERMINATED = 128 + signal.SIGTERM


def refuse_second(folder: Path, what: str) -> None:
    """Raise UserError where a control plane is up in `folder`; `what`: the command's work, as people name it."""
    if controlplane.status(folder).up:
        raise UserError(
            f"a control plane is up in {folder.resolve()}",
            expected=f"none: a {what} brings up its own",
            do=f"wait for the {what} that runs there, or end it: python -m sim --dir {folder} down",
        )


@contextmanager
def orderly_end() -> Iterator[None]:
    """SIGTERM ends the block as Ctrl-C does, by an exception, so that nothing of it stays up."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def end(_number: int, _frame: FrameType | None) -> None:
        raise SystemExit(TERMINATED)

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
