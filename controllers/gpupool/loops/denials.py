"""Pods of queues that the API server did not let go on, for how long, and with what answer.

Lives as long as the process, in its event loop. A denied pod gives its cards back and is tried again ever more seldom,
so that it keeps cards from nobody; whatever it was denied for may have been put right meanwhile.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

FIRST: Final = 15.0
LONGEST: Final = 600.0
"""Seconds until a denied pod is tried again: doubled each time."""
ANSWER_MAX: Final = 400


@dataclass(frozen=True, slots=True)
class _Denial:
    answer: str
    pause: float
    until: float


class Denials:
    """Denied requests of one process."""

    def __init__(self) -> None:
        """Begin with none."""
        self._known: dict[str, _Denial] = {}

    def add(self, request: str, answer: str) -> None:
        """The pod of a request was denied."""
        before = self._known.get(request)
        pause = min(LONGEST, before.pause * 2) if before is not None else FIRST
        self._known[request] = _Denial(answer[:ANSWER_MAX], pause, time.monotonic() + pause)

    def current(self) -> Mapping[str, str]:
        """What was said of each request that is not to be tried yet."""
        now = time.monotonic()
        return {request: denial.answer for request, denial in self._known.items() if denial.until > now}

    def next_try(self) -> float | None:
        """Seconds until the next of them may be tried; None where there is none."""
        now = time.monotonic()
        return min((denial.until - now for denial in self._known.values() if denial.until > now), default=None)

    def keep(self, requests: Iterable[str]) -> None:
        """Forget all but these: the others' pods are gone, or were let go on."""
        wanted = set(requests)
        for request in self._known.keys() - wanted:
            del self._known[request]
