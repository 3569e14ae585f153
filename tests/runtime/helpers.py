"""What the tests of the runtime share: ConfigMaps as others handle them, and a reflector at work."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import orjson
from pydantic import Field

from controllers.api.kube import ConfigMap
from controllers.api.meta import KubeObject
from controllers.api.record import record
from controllers.api.resources import CONFIGMAP
from controllers.runtime.reflector import Reflector, Scope, WatchSettings
from controllers.runtime.store import Store
from reliability.kit.fault_proxy import reads_of
from tests.kit.waiting import PATIENCE, until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from controllers.runtime.client import Client
    from controllers.runtime.events import Recorder
    from reliability.kit.fault_proxy import Exchange, FaultProxy

LISTS, WATCHES = reads_of("configmaps", "list"), reads_of("configmaps", "watch")


def AS_EVENTS(exchange: Exchange) -> bool:  # noqa: N802 - one of the three
    """Match lists that are asked for as the events of a watch."""
    return WATCHES(exchange) and "sendInitialEvents" in exchange.query


QUICK = WatchSettings(page_size=5, idle_seconds=30, list_gap=0.1, retry_min=0.02, retry_max=0.2)


@record
class Counted(KubeObject):
    """A ConfigMap whose values must be numbers."""

    data: dict[str, int] = Field(default_factory=dict)


class Space:
    """ConfigMaps of one namespace, as somebody else handles them."""

    def __init__(self, client: Client, name: str) -> None:
        self.client, self.name = client, name

    async def put(self, name: str, **data: str) -> dict[str, Any]:
        """Create or change a ConfigMap; returns its metadata."""
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}
        answer = await self.client.apply(CONFIGMAP, name, body, manager="other", namespace=self.name)
        return dict(orjson.loads(answer)["metadata"])

    async def delete(self, name: str) -> None:
        """Delete a ConfigMap, whatever its uid."""
        await self.client.request("DELETE", CONFIGMAP.path(self.name, name))

    async def all(self) -> dict[str, dict[str, str]]:
        """What the API server has: data by name."""
        items = orjson.loads(await self.client.request("GET", CONFIGMAP.path(self.name)))["items"]
        return {i["metadata"]["name"]: i.get("data", {}) for i in items}


class Following:
    """A store of a namespace's ConfigMaps, and what its handlers heard."""

    def __init__(self, reflector: Reflector[Any], task: asyncio.Task[None]) -> None:
        self.reflector, self.store, self.task = reflector, reflector.store, task
        self.heard: list[tuple[str, str]] = []
        self.store.subscribe(self._hear)

    def _hear(self, old: Any, new: Any) -> None:
        word = "added" if old is None else "gone" if new is None else "changed"
        self.heard.append((word, (new or old).name))

    @property
    def content(self) -> dict[str, dict[str, str]]:
        """Data by name."""
        return {item.name: item.data for item in self.store}

    async def has(self, expected: dict[str, dict[str, str]], seconds: float = PATIENCE) -> None:
        """Wait until the store holds exactly that."""
        await until(lambda: self.content == expected or self.task.done(), f"{expected}, has {self.content}", seconds)
        assert not self.task.done(), self.task

    async def equals(self, space: Space, seconds: float = PATIENCE) -> None:
        """Wait until the store holds what the API server has now."""
        await self.has(await space.all(), seconds)


@asynccontextmanager
async def following(
    client: Client,
    space: Space,
    *,
    settings: WatchSettings = QUICK,
    record: Any = ConfigMap,
    labels: str | None = None,
    only: Callable[[Any], object] | None = None,
    recorder: Recorder | None = None,
) -> AsyncIterator[Following]:
    """Run a reflector; it must still be alive at the end."""
    store: Store[Any] = Store("ConfigMap")
    scope = Scope(namespace=space.name, labels=labels, only=only)
    reflector: Reflector[Any] = Reflector(
        client, CONFIGMAP, record, store, scope=scope, settings=settings, recorder=recorder
    )
    task = asyncio.create_task(reflector.run())
    try:
        yield Following(reflector, task)
        assert not task.done(), task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def watching(proxy: FaultProxy) -> None:
    """Wait until a watch is open through the proxy."""
    await until(lambda: proxy.streams(WATCHES), "a watch")
