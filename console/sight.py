"""What a viewer sees: the feed's objects, less what their rights leave out.

The guarantee that nobody is sent a name of a pod that they may not read: no page has any object but those from here.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

from console.kinds import PODS, WHOLE, named
from console.records import Seen
from console.redactions import SETS_MAX

if TYPE_CHECKING:
    from collections.abc import Mapping

    from console.feed import Feed
    from console.redactions import Redactions
    from console.rights import Rights
    from controllers.api.meta import KubeObject

PORTION: Final = 256
"""Objects that are looked through at once."""


class Sight:
    """The cluster as viewers of the same rights may see it."""

    def __init__(self, feed: Feed, rights: Rights, redactions: Redactions) -> None:
        self._feed, self.rights, self._redactions = feed, rights, redactions
        self._hidden: dict[frozenset[str], frozenset[str]] = {}

    async def prepare(self) -> None:
        """Make what is missing of `seen`, with pauses for others in between."""
        if self.rights.namespaces is None:
            return
        for kind in sorted(self.rights.kinds & {read.resource.kind for read in WHOLE}):
            for at, obj in enumerate(self._feed.stores[kind], 1):
                self._version(kind, obj)
                if at % PORTION == 0:
                    await asyncio.sleep(0)

    def seen(self) -> Seen:
        """Everything, as it is now."""
        feed, rights = self._feed, self.rights
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
        return {obj.name: self._version(kind, obj) for obj in store}

    def _version(self, kind: str, obj: KubeObject) -> Any:
        mentions = self._redactions.mentions(kind, obj)
        hidden = self._hidden.get(mentions)
        if hidden is None:
            if len(self._hidden) >= SETS_MAX:
                self._hidden.clear()
            hidden = frozenset(name for name in mentions if not self.rights.may_read(name))
            self._hidden[mentions] = hidden
        return self._redactions.version(kind, obj, hidden, self.rights.may_read)
