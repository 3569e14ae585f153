"""Executes plans against the API server: the only writer of a process.

Actions run in order, one at a time, but for reads that follow one another and for writes of
which the planner says so (`parallel_safe`); an error ends the plan, once what was begun has ended,
and is raised. Since any prefix of a plan is safe, and of what is `parallel_safe` any subset, the
next reconciliation goes on from there. What a write returns is put into the store of its kind,
so that the next plan sees it.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from itertools import groupby
from typing import TYPE_CHECKING, Any

import orjson
import structlog
from pydantic import ValidationError

from controllers.api.record import adapter
from controllers.runtime import expiring, metrics
from controllers.runtime.errors import Busy, Conflict, EvictionRefused, LostLeadership, NotFound, Retry, Unreachable
from controllers.runtime.plan import (
    Action,
    Apply,
    Delete,
    EmitEvent,
    Evict,
    JSONPatch,
    Merge,
    Precondition,
    Refusal,
    refused_for,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pydantic import TypeAdapter

    from controllers.api.resources import Resource
    from controllers.runtime.client import Client
    from controllers.runtime.events import Recorder
    from controllers.runtime.plan import Ref
    from controllers.runtime.store import Store


log = structlog.get_logger()
STATUS_TRIES = 5
READS_AT_ONCE = 16
WRITES_AT_ONCE = 16
REFUSED_FOR = 600.0
"""Seconds for which a refusal is remembered."""
DELETED_FOR = 60.0
"""Seconds for which a deletion is not repeated. A uid never comes back, but in an etcd that was restored."""


class Executor:
    """Writes under one field manager."""

    def __init__(self, client: Client, manager: str, recorder: Recorder) -> None:
        """Prepare; `register_cache` adds the stores that learn from our writes."""
        self._client, self._manager, self._recorder = client, manager, recorder
        self._stores: dict[str, tuple[Store[Any], TypeAdapter[Any]]] = {}
        self.refusals: dict[str, Refusal] = {}
        """Evictions that were refused of late, by the pod's uid: when they are asked for again, and what to tell."""
        self._deleted: dict[str, float] = {}  # uids by when they were, in monotonic seconds and in that order

    def register_cache(self, resource: Resource, record: type[Any], store: Store[Any]) -> None:
        """Let writes of a kind update its store at once."""
        self._stores[resource.kind] = (store, adapter(record))

    async def execute(self, actions: Iterable[Action]) -> None:
        """Carry the actions out in order; raises the first error."""
        uids: dict[Ref, str] = {}
        for mode, group in groupby(actions, _mode):
            if mode == "read":
                await self._check_preconditions([action for action in group if isinstance(action, Precondition)])
            elif mode == "parallel":
                await self._write_all(list(group), uids)
            else:
                for action in group:
                    await self._write(action, uids)

    async def _write_all(self, actions: list[Action], uids: dict[Ref, str]) -> None:
        """Writes of different objects, each with its events; raises an error once what was begun has ended.

        One that is refused keeps no other back; with a server that does not answer no more are begun.
        """
        limit, away = asyncio.Semaphore(WRITES_AT_ONCE), asyncio.Event()
        starts = [at for at, action in enumerate(actions) if at == 0 or not isinstance(action, EmitEvent)]

        async def one(chain: list[Action]) -> None:
            async with limit:
                for action in () if away.is_set() else chain:
                    try:
                        await self._write(action, uids)
                    except (Busy, LostLeadership, Unreachable):
                        away.set()
                        raise

        chains = [actions[begin:end] for begin, end in zip(starts, [*starts[1:], len(actions)], strict=True)]
        ended = await asyncio.gather(*map(one, chains), return_exceptions=True)
        errors = [error for error in ended if isinstance(error, BaseException)]
        if errors:
            raise min(errors, key=lambda error: isinstance(error, Conflict))  # a conflict passes without a word

    async def _write(self, action: Action, uids: dict[Ref, str]) -> None:
        """One action that is no `Precondition`; `uids` are those that earlier writes of the plan returned."""
        match action:
            case EmitEvent(about=about):
                # `kubectl describe` shows an Event only where its uid is the object's.
                made = about.uid or uids.get(replace(about, uid=None))
                self._recorder.enqueue(replace(action, about=replace(about, uid=made)))
            case Apply(ref=ref):
                key = replace(ref, uid=None)
                made = await self._apply(action, ref.uid or uids.get(key))
                if made is not None:
                    uids[key] = made
            case Merge():
                await self._merge(action)
            case JSONPatch():
                await self._json_patch(action)
            case Delete():
                await self._delete(action)
            case Evict():
                await self._evict(action)

    async def _apply(self, action: Apply, uid: str | None) -> str | None:
        """Returns the object's uid where its store can tell it."""
        ref, body = action.ref, _identified(action.ref, action.body, uid)
        if not (action.subresource and uid):
            return self._cache_result(ref, "apply", await self._send(action, body))
        # A custom resource's status takes any uid: what was meant for a card that is gone would land
        # on its successor. Only the version is checked there, so it stands in for the uid.
        body["metadata"]["resourceVersion"] = self._version(ref, uid) or await self._read_version(ref, uid)
        for _ in range(STATUS_TRIES):
            try:
                return self._cache_result(ref, "apply", await self._send(action, body))
            except Conflict:  # somebody wrote other fields, which is no conflict for an apply
                body["metadata"]["resourceVersion"] = await self._read_version(ref, uid)
        return self._cache_result(ref, "apply", await self._send(action, body))

    async def _send(self, action: Apply, body: dict[str, Any]) -> bytes:
        ref = action.ref
        return await self._client.apply(
            ref.resource,
            ref.name,
            body,
            manager=self._manager,
            namespace=ref.namespace,
            subresource=action.subresource,
        )

    def _version(self, ref: Ref, uid: str) -> str | None:
        """The version of exactly that object that its store knows."""
        store = self._stores.get(ref.resource.kind)
        obj = store[0].get(f"{ref.namespace}/{ref.name}" if ref.namespace else ref.name) if store else None
        return obj.metadata.resource_version if obj is not None and obj.metadata.uid == uid else None

    async def _read_version(self, ref: Ref, uid: str) -> str:
        """Its version by quorum read; raises Conflict where the name belongs to another object."""
        meta = orjson.loads(await self._client.get(ref.resource, ref.name, ref.namespace))["metadata"]
        if meta["uid"] != uid:
            raise Conflict(409, "Conflict", f"{ref.resource.kind} {ref.name} is another object by now")
        return str(meta["resourceVersion"])

    async def _merge(self, action: Merge) -> None:
        ref = action.ref
        meta = {**action.body.get("metadata", {}), "resourceVersion": action.resource_version}
        answer = await self._client.merge(
            ref.resource,
            ref.name,
            {**action.body, "metadata": meta | ({"uid": ref.uid} if ref.uid else {})},
            manager=self._manager,
            namespace=ref.namespace,
            subresource=action.subresource,
        )
        self._cache_result(ref, "merge", answer)

    async def _json_patch(self, action: JSONPatch) -> None:
        ref = action.ref
        # The API server answers with a conflict where the result is not of the version that it has.
        on_version = {"op": "add", "path": "/metadata/resourceVersion", "value": action.resource_version}
        answer = await self._client.json_patch(
            ref.resource,
            ref.name,
            [on_version, *action.operations],
            manager=self._manager,
            namespace=ref.namespace,
            subresource=action.subresource,
        )
        self._cache_result(ref, "patch", answer)

    async def _delete(self, action: Delete) -> None:
        ref, uid = action.ref, _uid_of(action.ref, "a deletion")
        if self._was_deleted(uid):
            return
        for other in action.absent:
            if await self._exists(other):
                raise Retry(1.0, f"{other.resource.kind} {other.name} is there after all")
        try:
            await self._client.delete(
                ref.resource, ref.name, ref.namespace, uid=uid, resource_version=action.resource_version
            )
        except NotFound as error:
            if error.about != ref.name:
                raise  # else it is what we wanted
        else:
            metrics.WRITES.labels(ref.resource.kind, "delete").inc()
        self._deleted[uid] = time.monotonic()

    async def _evict(self, action: Evict) -> None:
        """Raises Retry where a budget refuses it: that is an answer like any other, and no error."""
        ref, uid = action.ref, _uid_of(action.ref, "an eviction")
        if self._was_deleted(uid):
            return
        try:
            await self._client.evict(ref.name, ref.namespace or "", uid=uid, dry_run=action.dry_run)
        except EvictionRefused as error:
            raise Retry(self._refused(uid, error.message), error.message) from error
        except NotFound:
            pass  # it has ended by itself
        if not action.dry_run:
            self.refusals.pop(uid, None)
            metrics.WRITES.labels(ref.resource.kind, "evict").inc()
            self._deleted[uid] = time.monotonic()

    def _refused(self, uid: str, message: str) -> float:
        """Remember a refusal; returns the seconds after which the pod is asked for again."""
        now = time.time()
        for known in [known for known, one in self.refusals.items() if one.at < now - REFUSED_FOR]:
            del self.refusals[known]
        before = self.refusals.get(uid)
        times = before.times + 1 if before is not None else 1
        self.refusals[uid] = Refusal(now, times, message)
        return refused_for(times)

    def _was_deleted(self, uid: str) -> bool:
        """Whether we have deleted it already: until the watch tells so, each plan has it deleted once more."""
        expiring.prune(self._deleted, DELETED_FOR, time.monotonic())
        return uid in self._deleted

    async def _check_preconditions(self, actions: list[Precondition]) -> None:
        """Reads that follow one another, several at a time: a quorum list waits up to 100 ms for the server's cache."""
        for start in range(0, len(actions), READS_AT_ONCE):
            await asyncio.gather(
                *(self._check_precondition(action) for action in actions[start : start + READS_AT_ONCE])
            )

    async def _check_precondition(self, action: Precondition) -> None:
        selectors = {"labelSelector": action.labels, "fieldSelector": action.fields}
        query = {key: value for key, value in selectors.items() if value}
        body = await self._client.request("GET", action.resource.path(action.namespace), query=query)
        for item in orjson.loads(body).get("items") or ():
            meta = item["metadata"]
            key = f"{meta['namespace']}/{meta['name']}" if "namespace" in meta else meta["name"]
            if key not in action.known:
                raise Retry(1.0, f"{action.resource.kind} {key} is not in the cache yet")

    async def _exists(self, ref: Ref) -> bool:
        try:
            body = await self._client.get(ref.resource, ref.name, ref.namespace)
        except NotFound as error:
            if error.about != ref.name:
                raise  # the kind itself is not served: that says nothing about the object
            return False
        # The same name with another uid is another object: the one we mean is gone.
        return ref.uid is None or bool(orjson.loads(body)["metadata"]["uid"] == ref.uid)

    def _cache_result(self, ref: Ref, verb: str, answer: bytes) -> str | None:
        metrics.WRITES.labels(ref.resource.kind, verb).inc()
        if (known := self._stores.get(ref.resource.kind)) is None:
            return None
        store, decode = known
        try:
            obj = decode.validate_json(answer)
        except ValidationError as error:
            # It is written, and the reflector reports what cannot be read; the plan goes on.
            log.warning("what a write returned cannot be read", kind=ref.resource.kind, object=ref.name, why=str(error))
            return None
        store.on_own_write(obj)
        uid: str = obj.metadata.uid
        return uid


def _mode(action: Action) -> str:
    """How an action is carried out with those of its kind that are next to it."""
    if isinstance(action, Precondition):
        return "read"
    return "parallel" if not isinstance(action, Delete) and action.parallel_safe else "alone"


def _uid_of(ref: Ref, what: str) -> str:
    """The uid of exactly the object that is meant; raises ValueError where a planner left it out."""
    if ref.uid is None:
        msg = f"{what} of {ref.resource.kind} {ref.name} without a uid"
        raise ValueError(msg)
    return ref.uid


def _identified(ref: Ref, body: dict[str, Any], uid: str | None) -> dict[str, Any]:
    """The body with what says which object it is."""
    meta = {**body.get("metadata", {}), "name": ref.name}
    if ref.namespace:
        meta["namespace"] = ref.namespace
    if uid:
        meta["uid"] = uid
    return {**body, "apiVersion": ref.resource.api_version, "kind": ref.resource.kind, "metadata": meta}
