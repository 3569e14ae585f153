"""The objects of an API server in memory: what somebody outside the planners does to them, and what caches show.

Every write gives a new resourceVersion, and one that changes more than metadata and status a new generation.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, TypeVar, cast

import orjson

from controllers.api.meta import KubeObject
from controllers.api.record import adapter
from controllers.api.resources import Resource
from controllers.runtime.store import Store
from tests.kit import patches
from tests.kit.manifests import body, resource

T = TypeVar("T")
Json = dict[str, Any]
Key = tuple[str, str]
"""A kind, and the key of an object of that kind."""
Kinds = Mapping[str, tuple[Resource, type[Any]]]
"""The caches of a process by their names: of which kind, and as which record."""


class Storage:
    """Objects by kind and key."""

    def __init__(self) -> None:
        self.objects: dict[Key, Json] = {}
        self._version = 0
        self._uids = 0

    def add(self, *objects: KubeObject) -> None:
        """Create or replace objects, as somebody outside the planners would."""
        for obj in objects:
            made = body(obj)
            made["metadata"] = {"labels": {}, "annotations": {}} | made["metadata"]  # which tests write into
            self.put(resource(obj), made)

    def put(self, kind: Resource, obj: Json) -> Json:
        """Create or replace an object that is JSON already; returns it as it is stored."""
        made = copy.deepcopy(obj)
        meta = made.setdefault("metadata", {})
        if kind.namespaced:
            meta.setdefault("namespace", "default")
        key = key_of(meta.get("namespace"), meta["name"])
        self._store(kind, key, self.objects.get((kind.kind, key)), made)
        return made

    def drop(self, kind: Resource, key: str) -> None:
        """Delete an object, as somebody outside the planners would."""
        self.objects.pop((kind.kind, key), None)

    @contextmanager
    def edit(self, kind: str, key: str) -> Iterator[Json]:
        """Change an object in place, as somebody outside the planners would."""
        found = self.objects[kind, key]
        before = copy.deepcopy(found)
        yield found
        if "generation" in found["metadata"]:
            found["metadata"]["generation"] += _is_another(before, found)
        self.touch((kind, key))

    def merge(self, kind: str, key: str, patch: Json) -> None:
        """Change parts of an object, as somebody outside the planners would."""
        with self.edit(kind, key) as found:
            patches.merge(found, copy.deepcopy(patch))

    def touch(self, key: Key) -> None:
        """Somebody changed an object in its place: it is of another version."""
        self._version += 1
        self.objects[key]["metadata"]["resourceVersion"] = str(self._version)

    def all(self, kind: Resource, record: type[Any]) -> list[Any]:
        """Every object of a kind, decoded."""
        found = sorted((key, obj) for (name, key), obj in self.objects.items() if name == kind.kind)
        return [decoded(record, obj) for _, obj in found]

    def stores(self, kinds: Kinds) -> dict[str, Any]:
        """The caches of a process that knows everything, as its World takes them."""
        return {name: cache(kind.kind, self.all(kind, record)) for name, (kind, record) in kinds.items()}

    def end(self) -> dict[Key, Json]:
        """The state, without what differs from run to run."""
        objects = copy.deepcopy(self.objects)
        for obj in objects.values():
            del obj["metadata"]["uid"], obj["metadata"]["resourceVersion"]
            obj.get("status", {}).get("conditions", []).sort(key=lambda one: one["type"])
        return objects

    def _store(self, kind: Resource, key: str, before: Json | None, made: Json) -> None:
        """Keep what somebody made of an object: under the uid that it has, and as another version."""
        meta = made["metadata"]
        meta["uid"] = before["metadata"]["uid"] if before else self._uid()
        if kind.group:  # Kubernetes' own nodes and ConfigMaps have none
            meta["generation"] = before["metadata"]["generation"] + _is_another(before, made) if before else 1
        self.objects[kind.kind, key] = made
        self.touch((kind.kind, key))

    def _uid(self) -> str:
        self._uids += 1
        return f"uid-{self._uids}"


def cache(kind: str, objects: Iterable[Any] = ()) -> Store[Any]:
    """A cache that has been filled with these."""
    made: Store[Any] = Store(kind)
    made.replace(list(objects), 1)
    return made


def decoded(record: type[T], obj: Json | None) -> T:
    """An object that is there, as its record; one for the same JSON, since laws look at a few again and again."""
    return cast("T", _decoded(cast("Any", record), orjson.dumps(obj)))


@lru_cache(maxsize=4096)
def _decoded(record: type[Any], text: bytes) -> object:
    return adapter(record).validate_json(text)


def key_of(namespace: str | None, name: str) -> str:
    """`namespace/name`, or the name of what is in no namespace."""
    return f"{namespace}/{name}" if namespace else name


def _is_another(old: Json, new: Json) -> bool:
    """Whether anything but metadata and status is another, which makes another generation."""
    return any(old.get(part) != new.get(part) for part in {*old, *new} - {"metadata", "status"})
