"""What of the inventory's work is in the API: told by a watch while it is made, read when it is done, and removed."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import orjson

from controllers.api import names
from controllers.api.gpudevice import GPUDevice
from controllers.api.gpunodeinventory import GPUNodeInventory
from controllers.api.meta import KubeObject
from controllers.api.resources import EVENT, GPUDEVICE, GPUNODEINVENTORY, LEASE
from controllers.runtime.client import Client
from controllers.runtime.errors import NotFound
from controllers.runtime.reflector import Reflector
from controllers.runtime.store import Store
from reliability.kit.caches import kept, listed
from tools.errors import UserError

if TYPE_CHECKING:
    from controllers.api.resources import Resource


@dataclass
class Records:
    """The cards and the nodes' summaries that are on record."""

    client: Client
    summaries: set[str] = field(default_factory=set)
    """Nodes whose summary the watch of `complete` has shown."""

    async def complete(self, nodes: int) -> float:
        """Watch until every node's summary is there; returns when, in seconds since the epoch."""
        self.summaries.clear()
        done: asyncio.Future[float] = asyncio.get_running_loop().create_future()

        def changed(_: GPUNodeInventory | None, new: GPUNodeInventory | None) -> None:
            if new is not None and new.status.hw is not None:
                self.summaries.add(new.name)
            if len(self.summaries) == nodes and not done.done():
                done.set_result(time.time())

        store: Store[GPUNodeInventory] = Store(GPUNODEINVENTORY.kind)
        store.subscribe(changed)
        async with kept(Reflector(self.client, GPUNODEINVENTORY, GPUNodeInventory, store)):
            return await done

    async def verify(self, count: int) -> None:
        """Raise UserError where not every card is recorded, though every summary is."""
        cards = [card for card in await listed(self.client, GPUDEVICE, GPUDevice) if card.status.hardware is not None]
        if len(cards) != count:
            raise UserError(f"every node's summary is there, but {len(cards)} of {count} cards")

    async def versions(self) -> dict[str, str]:
        """The version of every object on record."""
        return {
            f"{resource.kind}/{item.name}": item.metadata.resource_version
            for resource in (GPUDEVICE, GPUNODEINVENTORY)
            for item in await listed(self.client, resource, KubeObject)
        }

    async def remove(self) -> None:
        """Remove everything on record, and the lease, and wait until it is gone."""
        for resource, namespace in ((GPUDEVICE, None), (GPUNODEINVENTORY, None), (EVENT, "default")):
            while await self._any(resource):
                await self.client.request("DELETE", resource.path(namespace), timeout=300)
        with suppress(NotFound):
            await self.client.request("DELETE", LEASE.path(names.NAMESPACE, names.INVENTORY))

    async def events(self) -> int:
        """How many Events there are."""
        return len(await listed(self.client, EVENT, KubeObject))

    async def _any(self, resource: Resource) -> bool:
        page = await self.client.request("GET", resource.path(), query={"limit": "1"})
        return bool(orjson.loads(page)["items"])
