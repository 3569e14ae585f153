"""Every revision of what the module is about, as the API server tells an administrator: the ground of all oracles."""

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
    (resources.NODE, None),
    (resources.POD, None),
    (resources.CONFIGMAP, names.NAMESPACE),
    (resources.DAEMONSET, names.NAMESPACE),
    (resources.NODEFEATURE, None),
    (resources.NODEFEATURERULE, None),
    (resources.RUNTIMECLASS, None),
    (resources.MODULECONFIG, None),
)
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


class Recorder:
    """One watch for each kind, straight from the API server; `now` is the present, `history` how it came."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self.now: Objects = {}
        self.history: list[Revision] = []
        self.initial: Objects = {}
        self.changed_at = time.monotonic()
        """When anything last changed but a Node's or a bystander's own affairs."""
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Begin; returns when all kinds have been listed."""
        ready = [asyncio.Event() for _ in KINDS]
        self._tasks = [
            asyncio.create_task(self._follow(*kind, event)) for kind, event in zip(KINDS, ready, strict=True)
        ]
        await asyncio.wait_for(asyncio.gather(*(event.wait() for event in ready)), 60)

    async def stop(self) -> None:
        """End."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def begin(self) -> None:
        """What is now is where a run begins."""
        self.initial, self.history = dict(self.now), []

    async def _follow(self, resource: Resource, namespace: str | None, ready: asyncio.Event) -> None:
        version = ""
        while True:
            try:
                if not version:
                    version = await self._list(resource, namespace)
                    ready.set()
                version = await self._watch(resource, namespace, version)
            except ApiError as error:
                version = "" if error.status == 410 else version
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

    async def _watch(self, resource: Resource, namespace: str | None, version: str) -> str:
        query = {"watch": "1", "resourceVersion": version, "allowWatchBookmarks": "true"}
        async with self._client.stream(resource.path(namespace), query=query, idle=90) as batches:
            async for lines in batches:
                for line in lines:
                    event = orjson.loads(line)
                    obj = event["object"]
                    if event["type"] == "ERROR":
                        if obj.get("code") == 410:
                            return ""
                        continue
                    version = obj["metadata"]["resourceVersion"]
                    if event["type"] != "BOOKMARK":
                        key = key_of(resource.kind, obj)
                        self._take(Revision(int(version), time.time(), event["type"], key, obj))
        return version

    def _take(self, revision: Revision) -> None:
        kind, name = revision.key
        if kind == "Pod" and name.startswith(f"{PLAIN}/"):
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
