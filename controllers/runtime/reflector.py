"""Keeps a store equal to the API server's objects of one kind.

Three lifetimes, one function each: `run` lasts as long as the process; inside it a list and
the watches that continue it last until the server has forgotten our version (410), after
which everything is listed again and compared; inside that, one watch request lasts minutes.

Objects are decoded from bytes, straight into the records of `controllers.api`. One that
does not decode is reported (log, metric, and an event about it) and left out, or left as it
was; the others go on.
"""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

import orjson
import structlog
from pydantic import TypeAdapter, ValidationError
from typing_extensions import TypedDict  # pydantic refuses typing's before Python 3.12

from controllers.api.meta import KubeObject
from controllers.api.record import adapter
from controllers.runtime import metrics
from controllers.runtime.errors import ApiError, Gone, NotFound, RuntimeFault, Unreachable, from_answer
from controllers.runtime.plan import Note, Ref

if TYPE_CHECKING:
    from collections.abc import Callable

    from controllers.api.resources import Resource
    from controllers.runtime.client import Client
    from controllers.runtime.events import Recorder
    from controllers.runtime.store import Store

T = TypeVar("T", bound=KubeObject)
USUAL_ENDS = ("ended", "gone", Unreachable.__name__)
"""Why watches end, as their metric names it, where nothing is refused."""
log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class WatchSettings:
    """How a reflector talks; times in seconds. Tests scale them down together."""

    page_size: int = 50
    """Objects of one list request: NodeFeatures are 15 kB, and a page is decoded in one go."""
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
        self._recorder = recorder
        self._scope, self._settings = scope or Scope(), settings or WatchSettings()
        self._path = resource.path(self._scope.namespace)
        page = TypedDict("page", {"metadata": dict[str, Any], "items": list[record]})  # type: ignore[valid-type]
        event = TypedDict("event", {"type": str, "object": record})  # type: ignore[valid-type]
        self._one: TypeAdapter[T] = TypeAdapter(record)
        self._page: TypeAdapter[dict[str, Any]] = TypeAdapter(page)  # type: ignore[arg-type]
        self._event: TypeAdapter[dict[str, Any]] = TypeAdapter(event)  # type: ignore[arg-type]
        self._unreadable: set[str] = set()
        self.synced = asyncio.Event()

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
                await self._follow(version)
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
            self._take([], 0)
            await asyncio.sleep(_jitter(self._settings.absent_retry))
            return delay
        log.warning("the API server does not serve a kind", kind=self.resource.kind, error=str(error))
        return await self._pause(delay, error)

    async def _pause(self, delay: float, error: RuntimeFault) -> float:
        """Wait before trying again; returns how long the next wait should be."""
        asked = (error.retry_after if isinstance(error, ApiError) else None) or 0.0
        await asyncio.sleep(max(_jitter(delay), asked))
        return min(delay * 2, self._settings.retry_max)

    async def _list(self) -> str:
        """Read everything in pages into the store; returns the list's version."""
        metrics.LISTS.labels(self.store.kind).inc()
        items: list[T] = []
        unreadable: set[str] = set()
        query = {"limit": str(self._settings.page_size), **self._scope.query()}
        while True:
            body = await self._client.request("GET", self._path, query=query, timeout=60)
            metrics.LIST_PAGES.labels(self.store.kind).inc()
            try:
                meta, page = self._decode_page(body, unreadable)
                version = int(meta["resourceVersion"])
            except (ValueError, KeyError, TypeError, AttributeError) as error:
                raise Unreachable(f"list {self._path}: an answer that is no list: {body[:100]!r}") from error
            items += page
            if not (token := meta.get("continue")):
                break
            query["continue"] = token
            await asyncio.sleep(0)
        self.store.served = True
        self._unreadable = unreadable
        self._count_unreadable()
        self._take(items, version)
        return str(version)

    def _take(self, items: list[T], version: int) -> None:
        self.store.replace(items, version)
        metrics.OBJECTS.labels(self.store.kind).set(len(self.store))
        self.synced.set()

    async def _follow(self, version: str) -> None:
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
            async for lines in batches:
                for line in lines:
                    if line:
                        version = self._event_seen(line, version)
                metrics.OBJECTS.labels(self.store.kind).set(len(self.store))
        return version

    def _event_seen(self, line: bytes, version: str) -> str:
        """Put one watch event into the store; returns its version."""
        try:
            event = self._event.validate_json(line)
            kind, obj = event["type"], event["object"]
        except ValidationError:
            return self._unreadable_event(line)
        if kind == "ERROR":
            raise _error_of(line)
        version = obj.metadata.resource_version or version
        if kind == "BOOKMARK":
            self.store.progressed(int(version))
            return version
        self._readable(obj.key)
        self.store.saw(obj, deleted=kind == "DELETED" or not self._is_kept(obj))
        return version

    def _unreadable_event(self, line: bytes) -> str:
        try:
            event = orjson.loads(line)
            kind, obj = event["type"], event["object"]
            if kind == "ERROR":
                raise _error_of(line)
            meta = obj["metadata"]
            bare = adapter(KubeObject).validate_python({"metadata": meta})
            at = int(meta["resourceVersion"])
        except (ValueError, KeyError, TypeError) as error:
            # Not an event at all: the stream is broken, and continuing could lose one.
            raise Unreachable(f"watch {self._path}: a line that is no event: {line[:100]!r}") from error
        if kind == "DELETED":
            self._readable(bare.key)
            self.store.saw(cast("T", bare), deleted=True)
        elif kind != "BOOKMARK" and bare.key not in self._unreadable:
            self._unreadable.add(bare.key)
            self._count_unreadable()
            self._report(obj)
        self.store.progressed(at)
        return str(at)

    def _decode_page(self, body: bytes, unreadable: set[str]) -> tuple[dict[str, Any], list[T]]:
        """A page's metadata and the objects that decode; adds the keys of the others to `unreadable`."""
        try:
            page = self._page.validate_json(body)
        except ValidationError:
            return self._decode_one_by_one(body, unreadable)
        return page["metadata"], [obj for obj in page["items"] if self._is_kept(obj)]

    def _decode_one_by_one(self, body: bytes, unreadable: set[str]) -> tuple[dict[str, Any], list[T]]:
        raw = orjson.loads(body)
        items: list[T] = []
        for entry in raw.get("items") or ():
            try:
                if self._is_kept(obj := self._one.validate_python(entry)):
                    items.append(obj)
            except ValidationError:
                key = adapter(KubeObject).validate_python({"metadata": entry["metadata"]}).key
                unreadable.add(key)
                if key not in self._unreadable:
                    self._report(entry)
                if (old := self.store.get(key)) is not None:
                    items.append(old)  # what we last understood, rather than "gone"
        return raw["metadata"], items

    def _report(self, entry: dict[str, Any]) -> None:
        """Tell people, once, which object cannot be read and why."""
        try:
            self._one.validate_python(entry)
            why = "its page could not be read"
        except ValidationError as error:
            why = "; ".join(f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors()[:3])
        meta, kind = entry["metadata"], self.resource.kind
        log.error("an object cannot be read and is left out", kind=kind, object=meta.get("name"), why=why)
        if self._recorder is not None:
            about = Ref(self.resource, meta.get("name", ""), meta.get("namespace"), meta.get("uid"))
            message = f"This {kind} cannot be read and is left out, or counts as it was before: {why}. Mend the object."
            self._recorder.note(Note(about, "Warning", "Unreadable", message))

    def _is_kept(self, obj: T) -> bool:
        return self._scope.only is None or bool(self._scope.only(obj))

    def _readable(self, key: str) -> None:
        if key in self._unreadable:
            self._unreadable.discard(key)
            self._count_unreadable()

    def _count_unreadable(self) -> None:
        metrics.UNREADABLE.labels(self.store.kind).set(len(self._unreadable))


def _error_of(line: bytes) -> ApiError:
    """The error that an event of type ERROR carries, a Status."""
    status = orjson.loads(line).get("object") or {}
    code = 410 if status.get("reason") in ("Expired", "Gone") else int(status.get("code") or 500)
    return from_answer(code, orjson.dumps(status))


def _jitter(delay: float) -> float:
    return delay * random.uniform(0.5, 1.5)  # noqa: S311 - spreads reconnects, no secret
