"""A cache of one kind: the objects of a watch, corrected by what our own writes returned.

Lives as long as its reflector; changed from the event loop only, and read from it or, by
collectors of metrics, from another thread. Objects are immutable, so readers need no copies.
Handlers are called, synchronously and in order, only when the part of an object that we read
has changed; a write of status fields that nobody here reads wakes nobody.

A full list is gathered in a `ListBuffer` beside the store, which its readers do not see, and becomes
its content in one step: nobody ever finds half a list. Gathering it, and telling handlers of
what it changed, can be done in portions, so that 80,000 objects stall no event loop.

Read your own writes: `on_own_write` lays the object that a write returned over what the watch has
told, until the watch reaches that resourceVersion. From then on only the watch counts: an
object deleted in between does not come back, and one outside the watch's selectors goes. But
an object that the watch knows is never set back: where it has passed the version of our write and
still has an older one, it lost an event, and a planner would have the same written again and again.
Versions compare as integers, which the API server has always kept and promises since 1.35
(KEP-5504).
"""

from __future__ import annotations

from itertools import islice
from threading import get_ident
from typing import TYPE_CHECKING, Generic, TypeVar

import structlog

from controllers.api.meta import KubeObject
from controllers.runtime.list_buffer import Index, ListBuffer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

T = TypeVar("T", bound=KubeObject)
log = structlog.get_logger()


def version(obj: KubeObject) -> int:
    """The resourceVersion as a number; 0 where there is none."""
    text = obj.metadata.resource_version
    return int(text) if text.isdigit() else 0


class Store(Generic[T]):
    """Objects of one kind by key (`namespace/name` or `name`), with indexes."""

    def __init__(self, kind: str) -> None:
        """Make an empty store that has not been synced."""
        self.kind = kind
        self.synced = False
        self.served = True  # whether the API server has this kind at all
        self._items: dict[str, T] = {}
        self._observed = 0
        # Our writes that the watch has not reached: their version, and whether it knows such an object.
        self._offered: dict[str, tuple[int, bool]] = {}
        self._indexes: dict[str, Index[T]] = {}
        # What `by` has answered, until an object under that value changes: a view of one key asks for many.
        self._found: dict[tuple[str, str], list[T]] = {}
        self._owner = get_ident()  # the thread that changes the store
        self.change_count = 0
        """How many objects came, went or were replaced so far."""
        self._handlers: list[Callable[[T | None, T | None], None]] = []
        # What handlers know of keys that a list changed, until they are told.
        self._untold: dict[str, T | None] = {}

    def __len__(self) -> int:
        """Count objects."""
        return len(self._items)

    def __iter__(self) -> Iterator[T]:
        """Iterate over a snapshot."""
        return iter(list(self._items.values()))

    def get(self, key: str) -> T | None:
        """The object of that key."""
        return self._items.get(key)

    def index(self, name: str, values: Callable[[T], Iterable[str]]) -> None:
        """Keep an index; `values` tells under which values an object is found."""
        self._indexes[name] = index = Index(values)
        self._found.clear()
        for key, item in self._items.items():
            index.link(key, item)

    def by(self, name: str, value: str) -> list[T]:
        """Objects under a value of an index, sorted by key."""
        if (known := self._found.get((name, value))) is None:
            keys = self._indexes[name].keys.get(value)
            if not keys:
                return []  # not remembered: anybody may ask for anything
            found = [self._items.get(key) for key in sorted(keys)]
            known = [item for item in found if item is not None]
            if get_ident() == self._owner:  # in another thread it may be out of date already
                self._found[name, value] = known
        return known.copy()

    def count(self, name: str, value: str) -> int:
        """How many objects are under a value of an index."""
        return len(self._indexes[name].keys.get(value, ()))

    def index_values(self, name: str) -> list[str]:
        """The values under which an index has objects."""
        return [value for value, keys in list(self._indexes[name].keys.items()) if keys]

    def subscribe(self, handler: Callable[[T | None, T | None], None]) -> None:
        """Call `handler(old, new)` on each change: None for what is not there."""
        self._handlers.append(handler)

    def replace(self, items: Iterable[T], observed: int) -> None:
        """Take a full list at a version in one go."""
        buffer = self.new_buffer()
        for item in items:
            buffer.put(item)
        self.take(buffer, observed)
        for _ in self.tell():
            pass

    def new_buffer(self) -> ListBuffer[T]:
        """What a full list is gathered in."""
        return ListBuffer(self._items, [(name, index.values) for name, index in self._indexes.items()])

    def take(self, buffer: ListBuffer[T], observed: int) -> None:
        """Make a full list at a version the content: what is in it, and what we wrote after it. Then `tell`.

        Lists are quorum reads, so a version below what was seen means that the server's
        history was set back (etcd restored from a backup): then only the list counts.
        """
        set_back = observed < self._observed
        ours = {} if set_back else {key: at for key, (at, _) in self._offered.items() if at > observed}
        self._offered = {key: (at, key in buffer.items) for key, at in ours.items()}
        self._observed = observed
        for key in ours:
            buffer.put(self._items[key])
        before, self._items = self._items, buffer.items
        self._indexes = buffer.indexes
        self._found.clear()
        self._owner = get_ident()
        changed = [key for key, old in before.items() if old is not buffer.items.get(key)]
        changed += buffer.items.keys() - before.keys() if before else buffer.items
        self.change_count += len(changed)
        if self._handlers:
            for key in changed:
                self._untold.setdefault(key, before.get(key))
        self.synced = True

    def tell(self, portion: int = 500) -> Iterator[None]:
        """Tell handlers what the last list has changed; yields after each portion."""
        while self._untold:
            for key in list(islice(self._untold, portion)):
                self._tell(key, self._untold.pop(key), self._items.get(key))
            yield

    def on_watch_event(self, obj: T, *, deleted: bool = False) -> None:
        """Take an event of the watch; a DELETED event carries the version of the deletion."""
        key, at = obj.key, version(obj)
        offered = self._offered.get(key)
        if offered is not None and at < offered[0]:
            self._offered[key] = (offered[0], not deleted)
        else:
            self._offered.pop(key, None)
            current = self._items.get(key)
            if current is None or at >= version(current):
                self._set(key, None if deleted else obj)
        self.advance(at)

    def advance(self, observed: int) -> None:
        """Everything up to that version has been told: what we wrote before it and the watch does not know is gone."""
        self._observed = max(self._observed, observed)
        if self._offered:
            for key, (at, is_known) in list(self._offered.items()):
                if at <= self._observed:
                    del self._offered[key]
                    if not is_known:
                        self._set(key, None)

    def on_own_write(self, obj: T) -> None:
        """Take what one of our writes returned, unless it is old, or the watch is past it and knows no such object."""
        key, at, current = obj.key, version(obj), self._items.get(obj.key)
        if current is not None and at <= version(current):
            return
        if at > self._observed:
            is_known = self._offered[key][1] if key in self._offered else current is not None
            self._offered[key] = (at, is_known)
        elif current is None:
            return
        self._set(key, obj)

    @property
    def observed(self) -> int:
        """The version up to which the watch has told everything."""
        return self._observed

    def _set(self, key: str, new: T | None) -> None:
        old = self._items.get(key)
        if old is None and new is None:
            return  # an object that is not wanted, or was not known, is no turnover
        self.change_count += 1
        self._owner = get_ident()
        if old is not None:
            for name, index in self._indexes.items():
                self._forget(name, index.unlink(key, old))
        if new is None:
            self._items.pop(key, None)
        else:
            self._items[key] = new
            for name, index in self._indexes.items():
                self._forget(name, index.link(key, new))
        self._tell(key, self._untold.pop(key, old), new)

    def _tell(self, key: str, old: T | None, new: T | None) -> None:
        if old != new:
            for handler in self._handlers:
                self._call(handler, key, old, new)

    def _call(self, handler: Callable[[T | None, T | None], None], key: str, old: T | None, new: T | None) -> None:
        try:
            handler(old, new)
        except Exception:
            # One object that a handler cannot bear must not end the watch of all the others.
            log.exception("a handler failed", kind=self.kind, object=key)

    def _forget(self, name: str, values: Iterable[str]) -> None:
        """What was found under these values is out of date."""
        for value in values:
            self._found.pop((name, value), None)
