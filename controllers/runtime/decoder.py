"""Bytes of the API server to records of one kind, and what becomes of those that do not decode.

Objects are decoded from bytes, straight into the records of `controllers.api`. One that does not
decode is reported (log, metric, and an event about it) and left out, or left as it was; the
others go on.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

import orjson
import structlog
from pydantic import TypeAdapter, ValidationError
from typing_extensions import TypedDict  # pydantic refuses typing's before Python 3.12

from controllers.api.meta import KubeObject
from controllers.api.record import adapter
from controllers.runtime import metrics
from controllers.runtime.errors import ApiError, Unreachable, from_answer
from controllers.runtime.plan import EmitEvent, Ref

if TYPE_CHECKING:
    from controllers.api.resources import Resource
    from controllers.runtime.events import Recorder
    from controllers.runtime.store import Store

T = TypeVar("T", bound=KubeObject)
INITIAL_EVENTS_END = "k8s.io/initial-events-end"
"""The annotation of the bookmark that ends a list which comes as events."""
log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Event(Generic[T]):
    """One line of a watch: ADDED, MODIFIED, DELETED or BOOKMARK."""

    type: str
    key: str
    version: str
    obj: T | None
    """None for a bookmark, and for what does not decode; of what is deleted then, its metadata."""
    ends_list: bool = False
    """A bookmark that says that everything there was has been told."""


class Decoder(Generic[T]):
    """Decodes one kind; knows which of its objects cannot be read, and tells people of each once."""

    def __init__(self, resource: Resource, record: type[T], store: Store[T], recorder: Recorder | None) -> None:
        """Prepare. `store` has what was last understood of an object."""
        self._resource, self.store, self._recorder = resource, store, recorder
        page = TypedDict("page", {"metadata": dict[str, Any], "items": list[record]})  # type: ignore[valid-type]
        event = TypedDict("event", {"type": str, "object": record})  # type: ignore[valid-type]
        self._one: TypeAdapter[T] = TypeAdapter(record)
        self._page: TypeAdapter[dict[str, Any]] = TypeAdapter(page)  # type: ignore[arg-type]
        self._event: TypeAdapter[dict[str, Any]] = TypeAdapter(event)  # type: ignore[arg-type]
        self.unreadable: set[str] = set()
        """Keys of objects that cannot be read now."""
        self._told: set[str] = set()  # of those, and of what a list under way has met

    def page(self, body: bytes, unreadable: set[str]) -> tuple[dict[str, Any], list[T]]:
        """A page's metadata and the objects that decode; adds the keys of the others to `unreadable`.

        Raises ValueError, KeyError, TypeError or AttributeError where it is no page.
        """
        try:
            page = self._page.validate_json(body)
        except ValidationError:
            return self._one_by_one(body, unreadable)
        return page["metadata"], page["items"]

    def _one_by_one(self, body: bytes, unreadable: set[str]) -> tuple[dict[str, Any], list[T]]:
        raw = orjson.loads(body)
        items: list[T] = []
        for entry in raw.get("items") or ():
            try:
                items.append(self._one.validate_python(entry))
            except ValidationError:
                key = adapter(KubeObject).validate_python({"metadata": entry["metadata"]}).key
                items += self.understood(key)
                unreadable.add(key)
                self.report(key, entry)
        return raw["metadata"], items

    def understood(self, key: str) -> tuple[T, ...]:
        """What of an object was last understood, rather than "gone"."""
        old = self.store.get(key)
        return () if old is None else (old,)

    def event(self, line: bytes) -> Event[T]:
        """A line of a watch; raises the error that it carries, and Unreachable where it is no event."""
        try:
            event = self._event.validate_json(line)
        except ValidationError:
            return self._odd_event(line)
        kind, obj = event["type"], event["object"]
        if kind == "ERROR":
            raise _error_of(line)
        if kind == "BOOKMARK":
            return self._odd_event(line)
        return Event(kind, obj.key, obj.metadata.resource_version, obj)

    def _odd_event(self, line: bytes) -> Event[T]:
        """An event whose object does not decode, or a bookmark.

        Bookmarks lack fields that a record may demand, and carry an annotation that it may not keep.
        """
        try:
            raw = orjson.loads(line)
            kind, obj = raw["type"], raw["object"]
            if kind == "ERROR":
                raise _error_of(line)
            bare = adapter(KubeObject).validate_python({"metadata": obj["metadata"]})
            version = str(int(bare.metadata.resource_version))
        except (ValueError, KeyError, TypeError) as error:
            # Not an event at all: the stream is broken, and continuing could lose one.
            raise Unreachable(f"watch: a line that is no event: {line[:100]!r}") from error
        if kind == "BOOKMARK":
            ends = bare.metadata.annotations.get(INITIAL_EVENTS_END) == "true"
            return Event(kind, "", version, None, ends_list=ends)
        if kind == "DELETED":
            return Event(kind, bare.key, version, cast("T", bare))
        self.report(bare.key, obj)
        return Event(kind, bare.key, version, None)

    def report(self, key: str, entry: dict[str, Any]) -> None:
        """Tell people, once, which object cannot be read and why."""
        if key in self._told:
            return
        self._told.add(key)
        try:
            self._one.validate_python(entry)
            why = "its page could not be read"
        except ValidationError as error:
            why = "; ".join(f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors()[:3])
        meta, kind = entry["metadata"], self._resource.kind
        log.error("an object cannot be read and is left out", kind=kind, object=meta.get("name"), why=why)
        if self._recorder is not None:
            about = Ref(self._resource, meta.get("name", ""), meta.get("namespace"), meta.get("uid"))
            message = f"This {kind} cannot be read and is left out, or counts as it was before: {why}. Mend the object."
            self._recorder.enqueue(EmitEvent(about, "Warning", "Unreadable", message))

    def mark(self, key: str, *, readable: bool) -> None:
        """Remember whether an object can be read now."""
        if readable == (key in self.unreadable):
            (self.unreadable.discard if readable else self.unreadable.add)(key)
            self.listed(self.unreadable)

    def listed(self, unreadable: set[str]) -> None:
        """Remember which objects cannot be read, of all that there are."""
        self.unreadable, self._told = unreadable, set(unreadable)
        metrics.UNREADABLE.labels(self.store.kind).set(len(unreadable))


def _error_of(line: bytes) -> ApiError:
    """The error that an event of type ERROR carries, a Status."""
    status = orjson.loads(line).get("object") or {}
    code = 410 if status.get("reason") in ("Expired", "Gone") else int(status.get("code") or 500)
    return from_answer(code, orjson.dumps(status))
