"""An API server in memory, for the laws of planners: executes plans, and can stop at any prefix.

It knows what planners rely on: uids, resourceVersions and their preconditions, merge patches, server-side apply with
its field managers, and policies (`admit`), which a room of tests makes its own. What a real API server does is tested
on a real one; this is for thousands of examples a second.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable

from controllers.api.resources import POD
from controllers.domain.clock import stamp
from controllers.runtime.plan import Action, Apply, Delete, EmitEvent, Evict, JSONPatch, Merge, Precondition
from tests.kit import patches
from tests.kit.lists import is_meant
from tests.kit.objects import NOW
from tests.kit.storage import Json, Key, Storage, key_of


class ConflictError(Exception):
    """A precondition did not hold."""


class RefusedError(ConflictError):
    """A budget of a pod does not let it be evicted now."""


class Cluster(Storage):
    """Objects, and planners that write them; a room's own cluster adds what happens there, and who does it."""

    now: float = NOW

    def __init__(self) -> None:
        super().__init__()
        self.writes = 0
        """How many writes planners have made."""
        self._applied: dict[tuple[str, str, str, str], Json] = {}

    def execute(self, actions: Iterable[Action], manager: str, stop_after: int | None = None) -> None:
        """Carry actions out, or only the first `stop_after` writes of them."""
        done = 0
        uids: dict[Key, str] = {}
        told: set[Key] = set()
        written: set[Key] = set()
        for action in actions:
            if isinstance(action, EmitEvent):
                told |= {(action.about.resource.kind, action.about.name)} - written
                continue
            if isinstance(action, Precondition):
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

    def admit(self, action: Apply | Merge | JSONPatch, old: Json | None, new: Json) -> None:
        """Whether a write may be: raises AssertionError where a policy refuses it."""

    def _one(self, action: Action, manager: str, uids: dict[Key, str]) -> None:
        """Carry out one write; `uids` are of the objects that this plan has made."""
        assert not isinstance(action, (EmitEvent, Precondition))
        ref = action.ref
        key = (ref.resource.kind, key_of(ref.namespace, ref.name))
        old = self.objects.get(key)
        if isinstance(action, Delete):
            self._delete(action, key, old)
            return
        if isinstance(action, Evict):
            self._evict(action, key, old)
            return
        uid = ref.uid or uids.get(key)
        if old is None and (not isinstance(action, Apply) or uid is not None or action.subresource):
            raise ConflictError(key)
        if old is not None and uid not in (None, old["metadata"]["uid"]):
            raise ConflictError(key)
        before = copy.deepcopy(old)
        made = old if old is not None else _empty(ref.name, ref.namespace)
        if old is None and ref.resource is POD:
            made["metadata"]["creationTimestamp"] = stamp(self.now)
        self._write(action, manager, key, made)
        self.admit(action, before, made)
        self._store(ref.resource, key[1], before, made)
        uids[key] = made["metadata"]["uid"]

    def _delete(self, action: Delete, key: Key, old: Json | None) -> None:
        if old is None or old["metadata"]["uid"] != action.ref.uid:
            return
        if action.resource_version not in (None, old["metadata"]["resourceVersion"]):
            raise ConflictError(key)
        del self.objects[key]

    def evicted(self, action: Evict, pod: Json) -> None:
        """What a pod's budgets say: raises RefusedError where it may not be evicted now."""

    def _evict(self, action: Evict, key: Key, old: Json | None) -> None:
        if old is None:
            return
        if old["metadata"]["uid"] != action.ref.uid:
            raise ConflictError(key)
        self.evicted(action, old)
        if not action.dry_run:
            del self.objects[key]

    def _write(self, action: Apply | Merge | JSONPatch, manager: str, key: Key, new: Json) -> None:
        """What a write makes of an object."""
        if isinstance(action, JSONPatch):
            if new["metadata"]["resourceVersion"] != action.resource_version:
                raise ConflictError(key)
            patches.json_patch(new, action.operations)
            return
        part = {k: v for k, v in action.body.items() if (k == "status") == (action.subresource == "status")}
        part = _on_version(new, part)
        if isinstance(action, Merge):
            if new["metadata"]["resourceVersion"] != action.resource_version:
                raise ConflictError(key)
            patches.merge(new, part)
            return
        owned = (*key, manager, action.subresource or "")
        patches.remove(new, self._applied.get(owned, {}), part)
        patches.apply(new, copy.deepcopy(part))
        self._applied[owned] = copy.deepcopy(part)

    def _expect(self, action: Precondition) -> None:
        """The server's objects that the selectors mean must be among those that the planner knew."""
        for (kind, key), obj in self.objects.items():
            if kind == action.resource.kind and key not in action.known and is_meant(action, obj):
                raise ConflictError(key)


def _empty(name: str, namespace: str | None) -> Json:
    return {"metadata": {"name": name} | ({"namespace": namespace} if namespace else {})}


def _on_version(found: Json, part: Json) -> Json:
    """What is written, without the version that it may be written on only."""
    version = part.get("metadata", {}).get("resourceVersion")
    if version is None:
        return part
    if version != found["metadata"].get("resourceVersion"):
        raise ConflictError(found["metadata"]["name"])
    return {**part, "metadata": {k: v for k, v in part["metadata"].items() if k != "resourceVersion"}}
