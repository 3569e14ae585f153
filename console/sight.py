"""What a viewer sees: the feed's objects, less what their rights leave out.

The guarantee that nobody is sent a name of a pod that they may not read: no page has any object but those from here.
"""

from __future__ import annotations

from secrets import token_bytes
from typing import TYPE_CHECKING, Any

from console.kinds import PODS, WHOLE, named
from console.records import Seen
from console.rights import redacted

if TYPE_CHECKING:
    from collections.abc import Mapping

    from console.feed import Feed
    from console.rights import Rights


class Sight:
    """One set of rights over the feed; keeps objects that it took names out of until they change."""

    def __init__(self, feed: Feed, rights: Rights) -> None:
        self._feed, self.rights = feed, rights
        self._salt = token_bytes(16)
        self._made: dict[str, dict[str, tuple[Any, Any]]] = {}
        self._named: frozenset[str] = frozenset()

    def seen(self) -> Seen:
        """Everything, as it is now."""
        feed, rights = self._feed, self.rights
        if self._named != feed.named:  # what a text names is known later than the text, now and then
            self._named = feed.named
            self._made.clear()
        hidden: dict[str, int] = {}
        refused: dict[str, str] = {}
        found: dict[str, Mapping[str, Any]] = {}
        for read in WHOLE:
            kind = read.resource.kind
            store = feed.stores[kind]
            if kind in rights.kinds:
                found[read.within] = self._shown(kind)
                continue
            found[read.within] = {}
            refused[kind] = f"You may not list {named(read.resource)}."
            if len(store):
                hidden[kind] = len(store)
        pods = {pod.key: pod for pod in feed.pods if rights.may_read(pod.metadata.namespace or "")}
        if left := len(feed.pods) - len(pods):
            hidden[PODS[0].kind] = left
        if feed.namespace is not None:
            refused[PODS[0].kind] = f"You may not list pods of all namespaces: shown are those of {feed.namespace}."
        return Seen(**found, pods=pods, may_read=rights.may_read, hidden=hidden, refused=self._feed.refused | refused)

    def _shown(self, kind: str) -> dict[str, Any]:
        store = self._feed.stores[kind]
        if self.rights.namespaces is None:
            return {obj.name: obj for obj in store}
        known, may_read = self._made.get(kind, {}), self.rights.may_read
        made: dict[str, tuple[Any, Any]] = {}
        for obj in store:
            before = known.get(obj.name)
            if before is None or before[0] is not obj:
                before = obj, redacted(obj, may_read, self._salt, self._named)
            made[obj.name] = before
        self._made[kind] = made
        return {name: shown for name, (_, shown) in made.items()}
