"""An API server in memory, for the laws of planners: executes plans, and can stop at any prefix.

It knows what planners rely on: uids, resourceVersions and their preconditions, merge patches,
and server-side apply as far as our objects go (nested maps, `conditions` by type, everything
else atomic; what a manager applied before and leaves out now is removed). What a real API
server does is tested on a real one; this is for thousands of examples a second.
"""

from __future__ import annotations

import copy
from typing import Any

from controllers.api.record import adapter
from controllers.api.resources import Resource
from controllers.runtime.plan import Action, Delete, Expect, Merge, Note, Replace


class ConflictError(Exception):
    """A precondition did not hold."""


class Model:
    """Objects by kind and key."""

    def __init__(self) -> None:
        self.objects: dict[tuple[str, str], dict[str, Any]] = {}
        self._applied: dict[tuple[str, str, str, str], dict[str, Any]] = {}
        self._version = 0
        self._uids = 0
        self.writes = 0

    def put(self, resource: Resource, obj: dict[str, Any]) -> dict[str, Any]:
        """Create or replace an object, as somebody outside the planners would."""
        meta = obj.setdefault("metadata", {})
        if resource.namespaced:
            meta.setdefault("namespace", "default")
        key = (resource.kind, _key(meta))
        old = self.objects.get(key)
        meta["uid"] = old["metadata"]["uid"] if old else self._uid()
        self.objects[key] = copy.deepcopy(obj)
        self._touch(key)
        return self.objects[key]

    def drop(self, resource: Resource, key: str) -> None:
        """Delete an object, as somebody outside the planners would."""
        self.objects.pop((resource.kind, key), None)

    def all(self, resource: Resource, record: type[Any]) -> list[Any]:
        """Every object of a kind, decoded."""
        return [
            adapter(record).validate_python(obj)
            for (kind, _), obj in sorted(self.objects.items())
            if kind == resource.kind
        ]

    def execute(self, actions: tuple[Action, ...] | list[Action], manager: str, stop_after: int | None = None) -> None:
        """Carry actions out, or only the first `stop_after` writes of them."""
        done = 0
        uids: dict[tuple[str, str], str] = {}
        told: set[tuple[str, str]] = set()
        written: set[tuple[str, str]] = set()
        for action in actions:
            if isinstance(action, Note):
                told |= {(action.about.resource.kind, action.about.name)} - written
                continue
            if isinstance(action, Expect):
                self._expect(action)
                continue
            about = (action.ref.resource.kind, action.ref.name)
            assert about not in told, f"{about} is told of before it is written: again with each try"
            written.add(about)
            if stop_after is not None and done >= stop_after:
                return
            self._one(action, manager, uids)
            done += 1
            self.writes += 1

    def _one(self, action: Action, manager: str, uids: dict[tuple[str, str], str]) -> None:
        assert not isinstance(action, (Note, Expect, Replace))
        ref = action.ref
        key = (ref.resource.kind, f"{ref.namespace}/{ref.name}" if ref.namespace else ref.name)
        found = self.objects.get(key)
        if isinstance(action, Delete):
            if found is not None and found["metadata"]["uid"] == ref.uid:
                if action.resource_version not in (None, found["metadata"]["resourceVersion"]):
                    raise ConflictError(key)
                del self.objects[key]
            return
        uid = ref.uid or uids.get(key)
        if found is None:
            if isinstance(action, Merge) or uid is not None or action.subresource:
                raise ConflictError(key)
            found = {"metadata": {"name": ref.name, "uid": self._uid()}}
            if ref.namespace:
                found["metadata"]["namespace"] = ref.namespace
            self.objects[key] = found
        if uid is not None and found["metadata"]["uid"] != uid:
            raise ConflictError(key)
        uids[key] = found["metadata"]["uid"]
        part = {k: v for k, v in action.body.items() if (k == "status") == (action.subresource == "status")}
        part = _on_version(found, part)
        if isinstance(action, Merge):
            if found["metadata"]["resourceVersion"] != action.resource_version:
                raise ConflictError(key)
            _merge_patch(found, part)
        else:
            slot = (*key, manager, action.subresource or "")
            _remove(found, self._applied.get(slot, {}), part)
            _apply(found, copy.deepcopy(part))
            self._applied[slot] = copy.deepcopy(part)
        self._touch(key)

    def _expect(self, action: Expect) -> None:
        """The server's objects that the selectors mean must be among those that the planner knew."""
        parts = [part for part in (action.fields or "").split(",") if part]
        fields = dict(part.split("=", 1) for part in parts if "!=" not in part)
        anywhere = "spec.nodeName!=" in parts
        for (kind, key), obj in self.objects.items():
            meta = obj["metadata"]
            where = {"metadata.name": meta["name"], "spec.nodeName": obj.get("spec", {}).get("nodeName")}
            label, equals, value = (action.labels or "").partition("=")
            labelled = not label or (
                meta.get("labels", {}).get(label) == value if equals else label in meta.get("labels", {})
            )
            here = action.namespace is None or meta.get("namespace") == action.namespace
            meant = kind == action.resource.kind and labelled and here and all(where[f] == v for f, v in fields.items())
            if anywhere and not where["spec.nodeName"]:
                continue
            phase, namespace = obj.get("status", {}).get("phase"), meta.get("namespace")
            if f"status.phase!={phase}" in parts or f"metadata.namespace!={namespace}" in parts:
                continue
            if meant and key not in action.known:
                raise ConflictError(key)

    def _touch(self, key: tuple[str, str]) -> None:
        self._version += 1
        self.objects[key]["metadata"]["resourceVersion"] = str(self._version)

    def _uid(self) -> str:
        self._uids += 1
        return f"uid-{self._uids}"


def _key(meta: dict[str, Any]) -> str:
    return f"{meta['namespace']}/{meta['name']}" if "namespace" in meta else str(meta["name"])


def _on_version(found: dict[str, Any], part: dict[str, Any]) -> dict[str, Any]:
    """What is written, without the version that it may be written on only."""
    version = part.get("metadata", {}).get("resourceVersion")
    if version is None:
        return part
    if version != found["metadata"].get("resourceVersion"):
        raise ConflictError(found["metadata"]["name"])
    return {**part, "metadata": {k: v for k, v in part["metadata"].items() if k != "resourceVersion"}}


def _merge_patch(target: dict[str, Any], patch: dict[str, Any]) -> None:
    for key, value in patch.items():
        if value is None:
            target.pop(key, None)
        elif isinstance(value, dict):
            if not isinstance(target.get(key), dict):
                target[key] = {}
            _merge_patch(target[key], value)
        else:
            target[key] = copy.deepcopy(value)


def _by_type(entries: list[dict[str, Any]]) -> dict[str, Any]:
    return {entry["type"]: entry for entry in entries}


def _apply(target: dict[str, Any], body: dict[str, Any]) -> None:
    for key, value in body.items():
        if isinstance(value, dict) and key != "nodeSelector":  # that map is atomic
            _apply(target.setdefault(key, {}), value)
        elif key == "conditions":
            merged = _by_type(target.get(key, [])) | _by_type(value)
            target[key] = list(merged.values())
        else:
            target[key] = value


def _remove(target: dict[str, Any], before: dict[str, Any], now: dict[str, Any]) -> None:
    """Remove what was applied before and is left out now."""
    for key, value in before.items():
        if key not in target:
            continue
        if isinstance(value, dict):
            _remove(target[key], value, now.get(key, {}))
            if not target[key] and key not in now:
                del target[key]
        elif key == "conditions":
            gone = set(_by_type(value)) - set(_by_type(now.get(key, [])))
            target[key] = [entry for entry in target[key] if entry["type"] not in gone]
        elif key not in now:
            del target[key]
