"""Records every revision of the module's objects, as a watch of the API server shows them."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import orjson

from controllers.api import names, resources
from controllers.runtime.errors import ApiError, RuntimeFault

if TYPE_CHECKING:
    from collections.abc import Mapping

    from controllers.api.resources import Resource
    from controllers.runtime.client import Client

PLAIN = "plain"
"""Namespace of the bystanders, which no oracle of state looks at."""
KINDS: tuple[tuple[Resource, str | None], ...] = (
    (resources.GPUDEVICE, None),
    (resources.GPUNODEINVENTORY, None),
    (resources.GPUPOOL, None),
    (resources.GPUDRIVER, None),
    (resources.NODE, None),
    (resources.POD, None),
    (resources.CONFIGMAP, names.NAMESPACE),
    (resources.DAEMONSET, names.NAMESPACE),
    (resources.NODEFEATURE, None),
    (resources.NODEFEATURERULE, None),
    (resources.RUNTIMECLASS, None),
    (resources.MODULECONFIG, None),
    (resources.SECRET, names.NAMESPACE),
    (resources.MUTATING_WEBHOOK, None),
    (resources.VALIDATING_WEBHOOK, None),
    (resources.EVENT, None),
)
ONLY: dict[str, str] = {
    "Secret": names.WEBHOOK_SECRET,
    "MutatingWebhookConfiguration": names.WEBHOOK_CONFIGURATION,
    "ValidatingWebhookConfiguration": names.WEBHOOK_CONFIGURATION,
}
"""Kinds of which one object alone is the module's."""
REPORTERS = (
    *(names.MANAGER_INVENTORY, names.MANAGER_BOOTSTRAP, names.MANAGER_POOL, names.MANAGER_DRIVER),
    names.MANAGER_ADMISSION,
)
"""As Events name the processes."""
Key = tuple[str, str]
"""Kind, and name or namespace/name."""
Objects = dict[Key, dict[str, Any]]


@dataclass(frozen=True)
class Revision:
    """One change of one object."""

    version: int
    at: float
    """When it was seen here, in seconds since the epoch."""
    type: str
    key: Key
    object: dict[str, Any]

    @property
    def uid(self) -> str:
        """Of the object."""
        return str(self.object["metadata"]["uid"])


def key_of(kind: str, obj: Mapping[str, Any]) -> Key:
    """An object's key."""
    meta = obj["metadata"]
    return kind, f"{meta['namespace']}/{meta['name']}" if "namespace" in meta else meta["name"]


def is_ours(kind: str, obj: Mapping[str, Any]) -> bool:
    """Whether the oracles look at it: the bystanders, others' Secrets and other reporters' Events are nobody's news."""
    if kind == "Event":
        return obj.get("reportingController") in REPORTERS
    if kind == "Pod":
        return bool(obj["metadata"].get("namespace") != PLAIN)
    return ONLY.get(kind) in (None, obj["metadata"]["name"])


class Recorder:
    """One watch for each kind, straight from the API server; `now` is the present, `history` how it came."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self.now: Objects = {}
        self.history: list[Revision] = []
        self.initial: Objects = {}
        self.changed_at = time.monotonic()
        """When anything last changed but a Node's or a bystander's own affairs."""
        self._seen: dict[str, str] = {}
        """By kind, the version up to which it has been told; empty where it is to be listed."""
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Begin; returns when all kinds have been listed."""
        ready = [asyncio.Event() for _ in KINDS]
        self._tasks = [
            asyncio.create_task(self._follow(*kind, event), name=f"the watch of {kind[0].plural}")
            for kind, event in zip(KINDS, ready, strict=True)
        ]
        await asyncio.wait_for(asyncio.gather(*(event.wait() for event in ready)), 60)

    async def stop(self) -> None:
        """End."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def check(self) -> None:
        """Raise what one of the watches ended in: what it would have told is missing."""
        for task in self._tasks:
            if task.done():
                task.result()
                raise RuntimeError(f"{task.get_name()} ended")

    def begin(self) -> None:
        """What is now is where a run begins."""
        self.check()
        self.initial, self.history = dict(self.now), []

    async def _follow(self, resource: Resource, namespace: str | None, ready: asyncio.Event) -> None:
        kind = resource.kind
        while True:
            try:
                if not self._seen.get(kind):
                    self._seen[kind] = await self._list(resource, namespace)
                    ready.set()
                await self._watch(resource, namespace)
            except ApiError as error:
                self._seen[kind] = "" if error.status == 410 else self._seen.get(kind, "")
                await asyncio.sleep(0.1)
            except RuntimeFault:
                await asyncio.sleep(0.1)

    async def _list(self, resource: Resource, namespace: str | None) -> str:
        answer = orjson.loads(await self._client.request("GET", resource.path(namespace)))
        version = int(answer["metadata"]["resourceVersion"])
        items = {key_of(resource.kind, item): item for item in answer["items"]}
        for key in [key for key in self.now if key[0] == resource.kind and key not in items]:
            self._take(Revision(version, time.time(), "DELETED", key, self.now[key]))
        for key, item in items.items():
            known = self.now.get(key)
            if known is None or known["metadata"]["resourceVersion"] != item["metadata"]["resourceVersion"]:
                at = int(item["metadata"]["resourceVersion"])
                self._take(Revision(at, time.time(), "MODIFIED" if known else "ADDED", key, item))
        return str(version)

    async def _watch(self, resource: Resource, namespace: str | None) -> None:
        """Until the stream ends; how far it came is kept also where it breaks, or all of it would come twice."""
        kind = resource.kind
        query = {"watch": "1", "resourceVersion": self._seen[kind], "allowWatchBookmarks": "true"}
        async with self._client.stream(resource.path(namespace), query=query, idle=90) as batches:
            async for lines in batches:
                for line in lines:
                    event = orjson.loads(line)
                    obj = event["object"]
                    if event["type"] == "ERROR":
                        if obj.get("code") == 410:
                            self._seen[kind] = ""
                            return
                        continue
                    self._seen[kind] = version = obj["metadata"]["resourceVersion"]
                    if event["type"] != "BOOKMARK":
                        self._take(Revision(int(version), time.time(), event["type"], key_of(kind, obj), obj))

    def _take(self, revision: Revision) -> None:
        kind = revision.key[0]
        if not is_ours(kind, revision.object):
            return
        if revision.type == "DELETED":
            self.now.pop(revision.key, None)
        else:
            self.now[revision.key] = revision.object
        self.history.append(revision)
        if kind not in ("Node", "NodeFeature"):
            self.changed_at = time.monotonic()

    def of(self, kind: str) -> dict[str, dict[str, Any]]:
        """What is there of a kind, by name."""
        return {name: obj for (found, name), obj in self.now.items() if found == kind}
