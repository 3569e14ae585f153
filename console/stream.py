"""Server-Sent Events of one page to one reader.

`snapshot` {rows, order} comes first, unless the reader names by `Last-Event-ID` what it has read and that is not long
ago; then `patch` {rows, order?}. How old all is comes at first and whenever that changes: `stale` {since, reason} or
`fresh` {}. `end` {status, reason} is the last one, where the viewer is nobody any more. A quiet cluster costs no byte.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Final

from aiohttp import web

from console.channel import event
from console.feed import Stale
from console.viewers import NotAskedError, UnknownViewerError
from controllers.domain.clock import stamp

if TYPE_CHECKING:
    from console.access import Access
    from console.budgets import Budget
    from console.channel import Channel
    from console.feed import Feed
    from console.hub import Hub, Params
    from console.rights import Rights

AGAIN: Final = 30.0
"""Seconds after which it is asked again who the viewer is and what they may see."""
AGAIN_SOON: Final = 5.0
"""The same where namespaces have come since, or where nobody could be asked."""
SLOW: Final = 60.0
"""Seconds for which a reader may take nothing; then the connection ends, and it comes again."""
UNAUTHORIZED: Final = 401


class Reader:
    """The reader of one page, at the end of a connection."""

    def __init__(self, response: web.StreamResponse, feed: Feed, position: str) -> None:
        """`position`: the id of the last event that the reader has."""
        self._response, self._feed, self._position = response, feed, position
        self._stale: Stale | None = None
        self._began = False

    async def send(self, data: bytes) -> None:
        """Write; raises TimeoutError where the reader takes nothing."""
        async with asyncio.timeout(SLOW):
            await self._response.write(data)

    async def age(self, stale: Stale | None) -> None:
        """Say how old all is, at first and if that has changed."""
        if self._began and stale == self._stale:
            return
        self._began, self._stale = True, stale
        if stale is None:
            await self.send(event("fresh", {}))
        else:
            await self.send(event("stale", aged(stale)))

    async def unknown(self, why: str) -> None:
        """Say that nothing new is shown, since nobody can say what the viewer may see."""
        since = self._stale.since if self._stale is not None else time.time()
        await self.age(self._feed.stale or Stale(since, why))

    async def follow(self, channel: Channel, seconds: float) -> None:
        """Send what comes for so long, or until namespaces change."""
        clock = asyncio.get_running_loop().time
        began, known = clock(), self._feed.namespaces
        while True:
            data = channel.since(self._position)
            if data:
                self._position = channel.position
                await self.send(data)
            await self.age(self._feed.stale)
            passed = clock() - began
            left = (AGAIN_SOON if self._feed.namespaces != known else seconds) - passed
            if left <= 0:
                return
            if not channel.since(self._position):
                await channel.wait(left)


def aged(stale: Stale) -> dict[str, str]:
    """How old all is, as the page gets it."""
    return {"since": stamp(stale.since), "reason": stale.reason}


async def serve(
    request: web.Request,
    access: Access,
    hub: Hub,
    feed: Feed,
    *,
    rights: Rights,
    page: tuple[str, Params],
    budget: Budget,
) -> web.StreamResponse:
    """Answer with events until the reader goes; raises nothing but a cancellation."""
    response = web.StreamResponse(
        headers={"Content-Type": "text/event-stream", "Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    )
    await response.prepare(request)
    reader = Reader(response, feed, request.headers.get("Last-Event-ID", ""))
    try:
        while True:
            async with hub.reading(rights, *page, budget) as channel:
                await reader.follow(channel, AGAIN)
            rights = await _again(request, access, reader)
    except UnknownViewerError as error:
        await reader.send(event("end", {"status": UNAUTHORIZED, "reason": str(error)}))
    except ConnectionError:
        pass  # it went
    except TimeoutError:
        # It takes nothing, so that even an orderly end would wait for it. It comes again by itself.
        if request.transport is not None:
            request.transport.abort()
    return response


async def _again(request: web.Request, access: Access, reader: Reader) -> Rights:
    """What the viewer may see by now, as soon as that can be asked; nothing is shown until then."""
    while True:
        try:
            viewer = await access.viewer(request)
            return await access.rights(viewer)
        except NotAskedError as error:
            await reader.unknown(str(error))
            await asyncio.sleep(AGAIN_SOON)
