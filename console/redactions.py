"""Objects without the names of pods, made once for all viewers to whom the same names are hidden.

Most objects name no pod and are shown as they are. Of one that does, there are as many versions as there are answers to
which of its namespaces may be read: a card of one tenant has two, however many viewers there are. Lives as long as its
hub, in its event loop; a version goes with its object.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import is_dataclass
from functools import partial
from secrets import token_bytes
from typing import TYPE_CHECKING, Any, Final

from console.kinds import WHOLE
from console.rights import FACTS, fields_of, redacted

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterator

    from console.feed import Feed
    from controllers.api.meta import KubeObject

BEFORE: Final = re.compile(r"([a-z0-9][a-z0-9-]*)/")
"""What may be a namespace in a message: more than what is taken out, never less."""
VERSIONS_MAX: Final = 16
"""Of one object; the oldest goes first."""
SETS_MAX: Final = 4096
"""Sets of namespaces that are kept to be shared: a node may report other names in each text of its cards."""


class _Known:
    """What is known of an object."""

    __slots__ = ("mentions", "obj", "versions")

    def __init__(self, obj: KubeObject, mentions: frozenset[str]) -> None:
        self.obj, self.mentions = obj, mentions
        self.versions: dict[frozenset[str], Any] = {}


class Redactions:
    """Versions of the feed's objects, by what is hidden of them."""

    def __init__(self, feed: Feed) -> None:
        """Prepare, with a salt of its own: nobody finds a name by trying."""
        self._salt = token_bytes(16)
        self._known: dict[str, dict[str, _Known]] = {read.resource.kind: {} for read in WHOLE}
        self._equal: dict[frozenset[str], frozenset[str]] = {}
        self._feed, self._named = feed, feed.named
        for kind, known in self._known.items():
            feed.stores[kind].subscribe(partial(_forget, known))

    def mentions(self, kind: str, obj: KubeObject) -> frozenset[str]:
        """Namespaces of which it may name pods."""
        known = self._known[kind]
        found = known.get(obj.name)
        if found is None or found.obj is not obj:
            made = frozenset(_mentions(getattr(obj, "status", None)))
            if len(self._equal) >= SETS_MAX:
                self._equal.clear()
            found = known[obj.name] = _Known(obj, self._equal.setdefault(made, made))
        return found.mentions

    def version(self, kind: str, obj: KubeObject, hidden: frozenset[str], may_read: Callable[[str], bool]) -> Any:
        """The object for who may read it, but no pods of `hidden`, those of its `mentions` that `may_read` denies."""
        if not hidden:
            return obj
        self._follow(self._feed.named)
        versions = self._known[kind][obj.name].versions
        if hidden not in versions:
            if len(versions) >= VERSIONS_MAX:
                del versions[next(iter(versions))]
            versions[hidden] = redacted(obj, may_read, self._salt, self._named)
        return versions[hidden]

    def _follow(self, named: Container[str]) -> None:
        """Make anew what names a namespace that was not known for one, which happens now and then."""
        before, self._named = self._named, named
        if before is named:
            return
        more = named - before if isinstance(named, frozenset) and isinstance(before, frozenset) else None
        for known in self._known.values():
            for each in known.values():
                if each.versions and (more is None or not more.isdisjoint(each.mentions)):
                    each.versions.clear()


def _forget(known: dict[str, _Known], old: KubeObject | None, new: KubeObject | None) -> None:
    del new
    if old is not None:
        known.pop(old.name, None)


def _mentions(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        if "/" in value:
            yield from BEFORE.findall(value)
    elif isinstance(value, Mapping):
        for each in value.values():
            yield from _mentions(each)
    elif isinstance(value, tuple):
        for each in value:
            yield from _mentions(each)
    elif is_dataclass(value) and not isinstance(value, FACTS):
        yield from _of_record(value)


def _of_record(value: Any) -> Iterator[str]:
    names = fields_of(value.__class__)
    if "pod" in names and "namespace" in names:
        yield value.namespace
        return
    for name in names:
        yield from _mentions(getattr(value, name))
