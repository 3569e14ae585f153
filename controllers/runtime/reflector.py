"""Keeps a store equal to the API server's objects of one kind.

Three lifetimes, one function each: `run` lasts as long as the process; inside it a list and
the watches that continue it last until the server has forgotten our version (410), after
which everything is listed again and compared; inside that, one watch request lasts minutes.
"""

from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING, Generic, TypeVar

import structlog

from controllers.api.meta import KubeObject
from controllers.runtime import metrics
from controllers.runtime.decoder import Decoder
from controllers.runtime.errors import ApiError, Gone, NotFound, RuntimeFault, Unreachable
from controllers.runtime.listing import Listing, Scope, WatchSettings

if TYPE_CHECKING:
    from controllers.api.resources import Resource
    from controllers.runtime.client import Client
    from controllers.runtime.events import Recorder
    from controllers.runtime.list_buffer import ListBuffer
    from controllers.runtime.store import Store

T = TypeVar("T", bound=KubeObject)
USUAL_ENDS = ("ended", "gone", Unreachable.__name__)
"""Why watches end, as their metric names it, where nothing is refused."""
__all__ = ["Reflector", "Scope", "WatchSettings"]
log = structlog.get_logger()


class Reflector(Generic[T]):
    """List and watch of one kind into one store."""

    def __init__(
        self,
        client: Client,
        resource: Resource,
        record: type[T],
        store: Store[T],
        *,
        scope: Scope | None = None,
        settings: WatchSettings | None = None,
        optional: bool = False,
        recorder: Recorder | None = None,
    ) -> None:
        """Prepare; nothing is read before `run`. `optional`: the kind may not exist (yet)."""
        self._client, self.resource, self.store, self._optional = client, resource, store, optional
        self._scope, self._settings = scope or Scope(), settings or WatchSettings()
        self._path = resource.path(self._scope.namespace)
        self._decoder: Decoder[T] = Decoder(resource, record, store, recorder)
        self._listing = Listing(client, self._path, self._decoder, self._scope, self._settings)
        self.synced = asyncio.Event()
        self.fault: RuntimeFault | None = None
        """What keeps the store from being what the API server has; None while it is followed."""

    async def run(self) -> None:
        """List, watch, and begin again, for ever."""
        settings, loop = self._settings, asyncio.get_running_loop()
        for reason in USUAL_ENDS:  # from 0 on: a series that begins with 1 has not risen, for Prometheus
            metrics.WATCH_ENDS.labels(self.store.kind, reason)
        delay, listed_at = settings.retry_min, float("-inf")
        while True:
            await asyncio.sleep(max(0.0, listed_at + _jitter(settings.list_gap) - loop.time()))
            listed_at = loop.time()
            try:
                version = await self._list()
                delay = settings.retry_min
                await self.follow(version)
            except Gone as error:
                metrics.WATCH_ENDS.labels(self.store.kind, "gone").inc()
                log.info("listing again", kind=self.resource.kind, why=str(error))
            except NotFound as error:
                delay = await self._absent(error, delay)
            except RuntimeFault as error:
                log.warning("cannot list", kind=self.resource.kind, error=str(error), retry_in=round(delay, 2))
                delay = await self._pause(delay, error)

    async def _absent(self, error: NotFound, delay: float) -> float:
        """The kind is not served. Where it must be, that says nothing about the objects."""
        self.store.served = False
        if self._optional:
            await self._take(self.store.new_buffer(), 0)
            await asyncio.sleep(_jitter(self._settings.absent_retry))
            return delay
        log.warning("the API server does not serve a kind", kind=self.resource.kind, error=str(error))
        return await self._pause(delay, error)

    async def _pause(self, delay: float, error: RuntimeFault) -> float:
        """Wait before trying again; returns how long the next wait should be."""
        self.fault = error
        asked = (error.retry_after if isinstance(error, ApiError) else None) or 0.0
        await asyncio.sleep(max(_jitter(delay), asked))
        return min(delay * 2, self._settings.retry_max)

    async def _list(self) -> str:
        """Read everything into the store; returns the list's version."""
        metrics.LISTS.labels(self.store.kind).inc()
        found = await self._listing.read()
        self.store.served, self.fault = True, None
        self._decoder.listed(found.unreadable)
        await self._take(found.buffer, found.version)
        return str(found.version)

    async def _take(self, buffer: ListBuffer[T], version: int) -> None:
        self.store.take(buffer, version)
        for _ in self.store.tell():
            await asyncio.sleep(0)
        metrics.OBJECTS.labels(self.store.kind).set(len(self.store))
        self.synced.set()

    async def follow(self, version: str) -> None:
        """Watch from a version on, over as many connections as it takes; raises Gone."""
        delay, loop = self._settings.retry_min, asyncio.get_running_loop()
        while True:
            started = loop.time()
            try:
                version = await self._watch(version)
                error: RuntimeFault | None = None
            except (Gone, NotFound):
                raise
            except (Unreachable, ApiError) as broken:
                version = str(max(int(version), self.store.observed))
                error = broken
            metrics.WATCH_ENDS.labels(self.store.kind, type(error).__name__ if error else "ended").inc()
            if loop.time() - started > self._settings.list_gap:
                delay = self._settings.retry_min  # it worked for a while
                if error is None:
                    continue
            log.info("watch broke", kind=self.resource.kind, error=str(error or "ended at once"))
            delay = await self._pause(delay, error or Unreachable("ended at once"))

    async def _watch(self, version: str) -> str:
        """One watch request; returns the version that the next one continues from."""
        query = {
            "watch": "1",
            "allowWatchBookmarks": "true",
            "resourceVersion": version,
            "timeoutSeconds": str(max(1, round(self._settings.watch_seconds * random.uniform(0.8, 1.2)))),  # noqa: S311
            **self._scope.query(),
        }
        async with self._client.stream(self._path, query=query, idle=self._settings.idle_seconds) as batches:
            self.fault = None
            async for lines in batches:
                for line in lines:
                    if line:
                        version = self._event_seen(line, version)
                metrics.OBJECTS.labels(self.store.kind).set(len(self.store))
        return version

    def _event_seen(self, line: bytes, version: str) -> str:
        """Put one watch event into the store; returns its version."""
        event = self._decoder.event(line)
        if event.obj is not None:
            self._decoder.mark(event.key, readable=True)
            self.store.on_watch_event(event.obj, deleted=event.type == "DELETED" or not self._scope.keeps(event.obj))
        else:
            if event.type != "BOOKMARK":
                self._decoder.mark(event.key, readable=False)
            self.store.advance(int(event.version or version))
        return event.version or version


def _jitter(delay: float) -> float:
    return delay * random.uniform(0.5, 1.5)  # noqa: S311 - spreads reconnects, no secret
