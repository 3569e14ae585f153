"""A queue of keys with client-go's promises, without asyncio, so that its laws can be tested.

A key is in the queue at most once, is never handed to two workers at once, and one that is
added while a worker has it comes again when that worker is done. Failures of a key put it
off by 5 ms · 2^n up to `max_backoff`. Times are monotonic seconds, given by the caller.
"""

from __future__ import annotations

import heapq
from collections import deque

BASE_BACKOFF = 0.005
MAX_BACKOFF = 60.0
MAX_DOUBLINGS = 30


class WorkQueue:
    """Keys to be worked on, each by one worker at a time."""

    def __init__(self, *, base_backoff: float = BASE_BACKOFF, max_backoff: float = MAX_BACKOFF) -> None:
        """Make an empty queue."""
        self._base, self._max = base_backoff, max_backoff
        self._ready: deque[str] = deque()
        self._dirty: set[str] = set()  # to be worked on: in _ready, or when its worker is done
        self._working: set[str] = set()
        self._later: list[tuple[float, str]] = []
        self._due: dict[str, float] = {}  # the earliest time at which a key comes by itself
        self._failures: dict[str, int] = {}

    def __len__(self) -> int:
        """Count the keys that wait for a worker."""
        return len(self._ready)

    @property
    def busy(self) -> int:
        """Keys that workers have."""
        return len(self._working)

    def add(self, key: str) -> None:
        """Work on the key soon."""
        if key in self._dirty:
            return
        self._dirty.add(key)
        if key not in self._working:
            self._ready.append(key)

    def add_at(self, key: str, due: float) -> None:
        """Work on the key at a time; an earlier time that is already set stays."""
        if due < self._due.get(key, float("inf")):
            self._due[key] = due
            heapq.heappush(self._later, (due, key))

    def add_failed(self, key: str, now: float, *, at_least: float = 0.0, at_most: float = MAX_BACKOFF) -> float:
        """Put a key off after a failure; returns the delay in seconds."""
        count = self._failures.get(key, 0)
        self._failures[key] = count + 1
        delay = max(at_least, min(self._base * 2.0 ** min(count, MAX_DOUBLINGS), self._max, at_most))
        self.add_at(key, now + delay)
        return delay

    def forget(self, key: str) -> None:
        """The key succeeded: its next failure counts as the first."""
        self._failures.pop(key, None)

    def take(self, now: float) -> str | None:
        """A key to work on, until `done`; None when nothing is due."""
        while self._later and self._later[0][0] <= now:
            due, key = heapq.heappop(self._later)
            if self._due.get(key) == due:
                del self._due[key]
                self.add(key)
        if not self._ready:
            return None
        key = self._ready.popleft()
        self._dirty.discard(key)
        self._working.add(key)
        return key

    def done(self, key: str) -> None:
        """The worker has finished with the key."""
        self._working.discard(key)
        if key in self._dirty:
            self._ready.append(key)

    def next_due(self) -> float | None:
        """When the earliest delayed key comes; None when there is none."""
        while self._later and self._due.get(self._later[0][1]) != self._later[0][0]:
            heapq.heappop(self._later)
        return self._later[0][0] if self._later else None
