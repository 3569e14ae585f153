"""A limit to the AdmissionReviews that choose and write at once; the others wait, in the order of their arrival.

A thousand pods at once would else choose a thousand cards on caches of one moment and queue with their writes at the
API server: what each has chosen is old when its write is sent, and who runs out of time has a write on its way that
must be taken back. Who waits here has chosen nothing, and is told to come again while there is time to say so.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

IN_FLIGHT_MAX: Final = 8
"""At 15 ms for a write that is 500 pods a second and replica. More at once only helps an API server that is slow, and
there everybody's writes would end too late together."""
WAIT_MAX: Final = 2.0
"""Seconds; what is left of a review's time then is needed for its write."""


class ConcurrencyLimiter:
    """Lets so many reviews through at once; used from one event loop."""

    def __init__(self, in_flight_max: int = IN_FLIGHT_MAX, wait_max: float = WAIT_MAX) -> None:
        """Prepare; times in seconds."""
        self._free, self._wait_max = asyncio.Semaphore(in_flight_max), wait_max
        self.in_use = 0
        """Reviews that choose and write now."""

    @asynccontextmanager
    async def acquire(self) -> AsyncIterator[None]:
        """Wait to be let in, and stay until the end of the block; raises TimeoutError after `wait_max` seconds."""
        async with asyncio.timeout(self._wait_max):
            await self._free.acquire()
        try:
            with self.counted():
                yield
        finally:
            self._free.release()

    @contextmanager
    def counted(self) -> Iterator[None]:
        """Count in `in_use` until the end of the block, without waiting."""
        self.in_use += 1
        try:
            yield
        finally:
            self.in_use -= 1
