"""A cluster in memory with a process over it: its caches are what the watches have told, until it dies.

A planner that reads only the API is tested with a process that has just started (`view`). What a process remembers
beside its caches is in the laws only where one lives on (`process`) and is compared with one that starts.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from tests.kit.cluster import Cluster
from tests.kit.storage import Json, Key, Kinds, cache, decoded

P = TypeVar("P")
Caches = dict[str, Any]
"""Stores by name, as a World takes them."""


@dataclass
class _Life(Generic[P]):
    """One process, from its start on."""

    process: P
    caches: Caches
    told: dict[Key, Hashable] = field(default_factory=dict)
    """What the watches told last of each object."""


class Followed(Cluster, Generic[P]):
    """A cluster that a process follows."""

    kinds: Kinds
    """The caches of the process."""
    _life: _Life[P] | None = None
    """The process that runs; None before it has started."""

    @abstractmethod
    def start(self, caches: Caches) -> P:
        """Make a process of its caches, which are empty yet."""

    def live(self, process: P) -> None:
        """What a process does once its caches are full, where it is to live on."""

    def shown(self, name: str, record: type[Any], key: str, obj: Json) -> Any:  # noqa: ARG002 - for who overrides it
        """How an object stands in one of the caches; None where it does not."""
        return decoded(record, obj)

    def known_as(self, kind: str, key: str, obj: Json) -> Hashable:  # noqa: ARG002 - likewise
        """What the watches know of an object: they tell of it again when that is another."""
        return obj["metadata"]["resourceVersion"]  # type: ignore[no-any-return]

    def view(self) -> P:
        """A process that has just started and knows everything."""
        return self._started().process

    def process(self) -> P:
        """The process that runs: it has lived since its last start, and knows by now what has changed since."""
        if self._life is None:
            self._life = self._started()
            self.live(self._life.process)
        self._tell_news(self._life)
        return self._life.process

    def restart(self) -> None:
        """The process dies, and a new one reads everything anew."""
        self._life = None

    def __getstate__(self) -> dict[str, Any]:
        """A copy of the cluster has a process of its own."""
        return self.__dict__ | {"_life": None}

    def _started(self) -> _Life[P]:
        caches = {name: cache(kind.kind) for name, (kind, _) in self.kinds.items()}
        made = _Life(self.start(caches), caches)
        self._tell_news(made)
        return made

    def _tell_news(self, life: _Life[P]) -> None:
        """The watches tell of the objects that have changed, or are gone."""
        told, found = life.told, {at: self.known_as(*at, obj) for at, obj in self.objects.items()}
        for at in [*(told.keys() - found.keys()), *(at for at, known in found.items() if told.get(at) != known)]:
            self._show(life.caches, *at)
        life.told = found

    def _show(self, caches: Caches, kind: str, key: str) -> None:
        obj = self.objects.get((kind, key))
        for name, (resource, record) in self.kinds.items():
            if resource.kind != kind:
                continue
            store, made = caches[name], self.shown(name, record, key, obj) if obj is not None else None
            if made is not None:
                store.on_watch_event(made)
            elif (gone := store.get(key)) is not None:
                store.on_watch_event(gone, deleted=True)
