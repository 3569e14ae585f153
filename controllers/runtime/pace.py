"""When something was last done for each key, for what is done no more often than once in a while."""

from __future__ import annotations

import time


class Pace:
    """Times by key, of the monotonic clock. Who paces asks first, and marks afterwards what was done."""

    def __init__(self) -> None:
        """Know of nothing that was done."""
        self._done: dict[str, float] = {}

    def __len__(self) -> int:
        """How many keys are remembered: those that are gone are to be forgotten."""
        return len(self._done)

    def seconds_left(self, key: str, period: float) -> float:
        """How long it is until it may be done again, where that is once in `period` seconds; 0 where it may be now."""
        done = self._done.get(key)
        return 0.0 if done is None else max(0.0, done + period - time.monotonic())

    def mark_done(self, key: str) -> None:
        """It has been done now."""
        self._done[key] = time.monotonic()

    def forget(self, key: str) -> None:
        """The key is gone."""
        self._done.pop(key, None)
