"""The full list of a kind: in pages, or as a streamed watch list where there is more than a page.

A list in pages is a snapshot of etcd. As soon as etcd has been compacted after the kind's last
change (five minutes), the API server has no page but the first in its watch cache: it reads and
decodes each object anew, which costs it 0.4 to 1.5 ms for one. As events (`sendInitialEvents`,
WatchList) all of it comes from the watch cache, in a quarter of the time, as fast as we take it
and no faster, one object at a time. Kubernetes has that on by default in 1.32 and from 1.34 on.
Where it is refused, or breaks, the pages are read on; so they are while an API server that was
started a moment ago fills its watch cache, which is minutes in a large cluster.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import structlog

from controllers.api import names
from controllers.api.meta import KubeObject
from controllers.runtime import metrics
from controllers.runtime.errors import ApiError, Unreachable

if TYPE_CHECKING:
    from collections.abc import Callable

    from controllers.api.resources import Resource
    from controllers.runtime.client import Client
    from controllers.runtime.decoder import Decoder
    from controllers.runtime.list_buffer import ListBuffer

T = TypeVar("T", bound=KubeObject)
PAGE_SECONDS = 60.0
PAGE, OWN_PAGE = 50, 500
"""Objects of one list request, which is decoded in one go: NodeFeatures are 15 kB, others' objects may be a megabyte;
ours are 3 kB, and 500 of them are decoded in 15 ms."""
log = structlog.get_logger()


def page_size(resource: Resource) -> int:
    """How many objects of a kind one list request asks for."""
    return OWN_PAGE if resource.group == names.GROUP else PAGE


@dataclass(frozen=True, slots=True)
class WatchSettings:
    """How a reflector talks; times in seconds. Tests scale them down together."""

    page_size: int = PAGE
    as_events: bool = True
    """Whether more than a page is asked for as events; tests read in pages, too."""
    watch_seconds: float = 300.0
    """A watch is asked to end after about this long, so that connections spread over servers."""
    idle_seconds: float = 90.0
    """No byte for so long means a dead connection; bookmarks come about once a minute."""
    list_gap: float = 1.0
    """At least so long between two lists: after an outage everybody lists."""
    retry_min: float = 0.1
    retry_max: float = 10.0
    absent_retry: float = 15.0
    """How often a kind that does not exist is asked for again."""


@dataclass(frozen=True, slots=True)
class Scope:
    """Which objects of a kind: a namespace, selectors as the API's query spells them, and what these cannot say."""

    namespace: str | None = None
    labels: str | None = None
    fields: str | None = None
    only: Callable[[Any], object] | None = None
    """Whether an object that the API server tells of is kept. Of others nothing is; one that is no longer kept goes."""

    def query(self) -> dict[str, str]:
        """The selectors as query parameters."""
        pairs = {"labelSelector": self.labels, "fieldSelector": self.fields}
        return {key: value for key, value in pairs.items() if value}

    def keeps(self, obj: KubeObject) -> bool:
        """Whether an object is kept."""
        return self.only is None or bool(self.only(obj))


@dataclass(slots=True)
class Found(Generic[T]):
    """What a list has brought so far; whole where `Listing.read` returns it."""

    buffer: ListBuffer[T]
    version: int = 0
    unreadable: set[str] = field(default_factory=set)
    """Keys of objects that do not decode."""


class Listing(Generic[T]):
    """Reads one kind, all of it."""

    def __init__(
        self,
        client: Client,
        path: str,
        decoder: Decoder[T],
        scope: Scope,
        settings: WatchSettings,
    ) -> None:
        """Prepare; nothing is asked before `read`."""
        self._client, self._path, self._decoder, self._store = client, path, decoder, decoder.store
        self._scope, self._settings = scope, settings

    async def read(self) -> Found[T]:
        """Read everything, as it is now or later; raises ApiError and Unreachable."""
        found = Found(self._store.new_buffer())
        query = {"limit": str(self._settings.page_size), **self._scope.query()}
        more = await self._page(query, found)
        if more and self._settings.as_events:
            try:
                return await self._events()
            except (ApiError, Unreachable) as error:
                log.info("a list is read in pages", kind=self._store.kind, why=str(error))
        while more:
            more = await self._page(query | {"continue": more}, found)
        return found

    async def _page(self, query: dict[str, str], found: Found[T]) -> str:
        """Read a page; returns what asks for the next one, empty where there is none."""
        body = await self._client.request("GET", self._path, query=query, timeout=PAGE_SECONDS)
        metrics.LIST_PAGES.labels(self._store.kind).inc()
        try:
            meta, items = self._decoder.page(body, found.unreadable)
            found.version = int(meta["resourceVersion"])
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise Unreachable(f"list {self._path}: an answer that is no list: {body[:100]!r}") from error
        await asyncio.sleep(0)
        for item in filter(self._scope.keeps, items):
            found.buffer.put(item)
        await asyncio.sleep(0)
        return str(meta.get("continue") or "")

    async def _events(self) -> Found[T]:
        """Read everything as the events of one watch, which says when that is all."""
        found = Found(self._store.new_buffer())
        query = {
            "watch": "1",
            "sendInitialEvents": "true",
            "resourceVersionMatch": "NotOlderThan",  # than now, since no version is named
            "allowWatchBookmarks": "true",
            **self._scope.query(),
        }
        async with self._client.stream(self._path, query=query, idle=self._settings.idle_seconds) as batches:
            metrics.LIST_PAGES.labels(self._store.kind).inc()
            async for lines in batches:
                for line in filter(None, lines):
                    if self._is_last(line, found):
                        return found
        raise Unreachable(f"list {self._path}: it ended before all was told")

    def _is_last(self, line: bytes, found: Found[T]) -> bool:
        """Take one event; whether everything has been told with it."""
        event = self._decoder.event(line)
        if event.type == "BOOKMARK":
            found.version = int(event.version)
            return event.ends_list
        found.unreadable.discard(event.key)
        if event.obj is None:
            found.unreadable.add(event.key)
            for old in self._decoder.understood(event.key):
                found.buffer.put(old)
        elif event.type == "DELETED" or not self._scope.keeps(event.obj):
            found.buffer.drop(event.key)
        else:
            found.buffer.put(event.obj)
        return False
