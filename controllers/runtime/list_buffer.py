"""A full list of a kind while its pages arrive: the next content of a `Store`, with its indexes.

Made by `Store.new_buffer`, filled by a reflector in as many portions as the answer takes, and taken by
`Store.take`; nobody reads it before. An object that is as the store has it is replaced by the
store's own: a list that brings 80,000 objects anew of which three have changed holds three more.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Generic, TypeVar

from controllers.api.meta import KubeObject

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

T = TypeVar("T", bound=KubeObject)


class Index(Generic[T]):
    """Keys of objects by a value; an object may be found under several."""

    def __init__(self, values: Callable[[T], Iterable[str]]) -> None:
        """Make an empty index; `values` tells under which values an object is found."""
        self.values = values
        self.keys: dict[str, set[str]] = defaultdict(set)

    def link(self, key: str, item: T) -> tuple[str, ...]:
        """Add an object; the values that it is found under."""
        found = tuple(self.values(item))
        for value in found:
            self.keys[value].add(key)
        return found

    def unlink(self, key: str, item: T) -> tuple[str, ...]:
        """Remove an object; the values that it was found under."""
        found = tuple(self.values(item))
        for value in found:
            self.keys[value].discard(key)
            if not self.keys[value]:
                del self.keys[value]
        return found


class ListBuffer(Generic[T]):
    """Objects by key, and the indexes over them."""

    def __init__(
        self, known: Mapping[str, T], indexes: Sequence[tuple[str, Callable[[T], Iterable[str]]]] = ()
    ) -> None:
        """Make an empty one beside what is known."""
        self._known = known
        self.items: dict[str, T] = {}
        self.indexes: dict[str, Index[T]] = {name: Index(values) for name, values in indexes}

    def put(self, item: T) -> None:
        """Take an object, in place of one with its key."""
        key = item.key
        if key in self.items:
            self.drop(key)
        known = self._known.get(key)
        if known is not None and known.metadata.resource_version == item.metadata.resource_version and known == item:
            item = known
        self.items[key] = item
        for index in self.indexes.values():
            index.link(key, item)

    def drop(self, key: str) -> None:
        """Take an object out, if it is there."""
        if (item := self.items.pop(key, None)) is not None:
            for index in self.indexes.values():
                index.unlink(key, item)
