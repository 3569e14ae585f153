"""All pages that are open: computed once for all viewers of the same rights, when something has changed.

Lives as long as its program, in its event loop. The first change after a rest is shown at once, the next ones together
`GAP` seconds later, or more where pages take long to compute. What only time changes is looked for every `TURN`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from operator import itemgetter
from typing import TYPE_CHECKING, Final

import structlog

from console.channel import Channel
from console.redactions import Redactions
from console.sight import Sight

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from console.budgets import Budget
    from console.feed import Feed
    from console.records import Row, Rows, Seen, View
    from console.rights import Rights

log = structlog.get_logger()
GAP: Final = 0.25
"""Seconds from the start of a computation to that of the next, at least."""
SHARE: Final = 0.5
"""Of the time, that computing pages may take."""
TURN: Final = 30.0
"""Seconds after which pages are computed though nothing has changed: some of what they show ends by itself."""
KEPT: Final = 30.0
"""Seconds for which a channel outlives its last reader, who may come back."""
KEPT_MAX: Final = 64
"""Channels that outlive their last readers; the one that was left first goes first."""
Params = tuple[tuple[str, str], ...]
Key = tuple["Rights", str, Params]


def failure(error: Exception) -> str:
    """What is said of a page that failed; what it failed of is in the log."""
    return f"This page cannot be made of what is there: {type(error).__name__}."


def rest(took: float) -> float:
    """Seconds between two computations, the first of which took so many."""
    return max(GAP, took / SHARE) - took


class Hub:
    """Channels by rights, page and parameters."""

    def __init__(
        self,
        feed: Feed,
        views: Mapping[str, View],
        *,
        wall: Callable[[], float] = time.time,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Prepare; `views` by the name in the URL."""
        self._feed, self.views, self._wall, self._clock = feed, views, wall, clock
        self._channels: dict[Key, Channel] = {}
        self._makers: dict[Key, Rows] = {}  # of each channel
        self._sights: dict[Rights, Sight] = {}
        self._redactions = Redactions(feed)
        self._dirty = asyncio.Event()
        feed.subscribe(self._dirty.set)
        self.turns = 0
        """How often all pages have been computed so far."""
        self.sent = 0
        """Changes that were made known so far."""

    @asynccontextmanager
    async def reading(self, rights: Rights, view: str, params: Params, budget: Budget) -> AsyncIterator[Channel]:
        """The channel of a page, filled, for as long as somebody reads it; the first who does pays with `budget`."""
        key = (self._needed(rights, view), view, params)
        sight = self._sight(key[0])
        await sight.prepare()
        channel = self._channels.get(key)
        if channel is None:
            channel = self._channels[key] = Channel()
            self._makers[key] = self.views[view].open()
        if not channel.readers:
            budget.pay(lambda: self._fill(key, channel, sight.seen()))
        channel.readers += 1
        try:
            yield channel
        finally:
            channel.readers -= 1
            channel.left = self._clock()
            self._bound()

    async def rows(self, rights: Rights, view: str, params: Params, budget: Budget) -> Mapping[str, Row]:
        """The rows of a page, once, for what they cost; raises BudgetSpentError and what the page raises."""
        sight = self._sight(self._needed(rights, view))
        await sight.prepare()
        budget.check()  # here, since of many requests at once each has come this far
        return budget.pay(lambda: self.views[view].rows(sight.seen(), dict(params), self._wall()))

    async def run(self) -> None:
        """Compute what is read, for ever."""
        while True:
            try:
                async with asyncio.timeout(TURN):
                    await self._dirty.wait()
            except TimeoutError:
                pass
            self._dirty.clear()
            began = self._clock()
            await self._turn()
            self.turns += 1
            took = self._clock() - began
            await asyncio.sleep(rest(took))

    async def _turn(self) -> None:
        self._forget()
        sights: dict[Rights, Seen] = {}
        for key, channel in list(self._channels.items()):
            if channel.readers:
                rights = key[0]
                if rights not in sights:
                    sight = self._sight(rights)
                    try:
                        await sight.prepare()
                        sights[rights] = sight.seen()
                    except Exception as error:  # an object that nobody thought of must not end the program
                        log.exception("the cluster cannot be shown")
                        self.sent += channel.fail(failure(error))
                        channel.notify()
                        continue
                    await asyncio.sleep(0)
                self._fill(key, channel, sights[rights])
                channel.notify()  # readers look at the age of all, too
                await asyncio.sleep(0)

    def _fill(self, key: Key, channel: Channel, seen: Seen) -> None:
        _, view, params = key
        try:
            changed = channel.take(self._makers[key](seen, dict(params), self._wall()))
        except Exception as error:  # a page that fails must not end the others
            log.exception("a page failed", view=view, params=dict(params))
            changed = channel.fail(failure(error))
        self.sent += changed

    def _needed(self, rights: Rights, view: str) -> Rights:
        """Of a viewer's rights those that a page can make use of."""
        if self.views[view].pods or rights.namespaces is None:
            return rights
        return replace(rights, namespaces=frozenset())

    def _sight(self, rights: Rights) -> Sight:
        found = self._sights.get(rights)
        if found is None:
            found = self._sights[rights] = Sight(self._feed, rights, self._redactions)
        return found

    def _bound(self) -> None:
        left = [(channel.left, key) for key, channel in self._channels.items() if not channel.readers]
        for _, key in sorted(left, key=itemgetter(0))[:-KEPT_MAX]:
            self._drop(key)

    def _drop(self, key: Key) -> None:
        del self._channels[key], self._makers[key]

    def _forget(self) -> None:
        now = self._clock()
        for key, channel in list(self._channels.items()):
            if not channel.readers and now - channel.left > KEPT:
                self._drop(key)
        wanted = {rights for rights, _, _ in self._channels}
        for rights in self._sights.keys() - wanted:
            del self._sights[rights]
