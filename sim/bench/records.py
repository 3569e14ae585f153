"""What of the inventory's work is in the API: told by a watch while it is made, read when it is done, and removed."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import orjson

from controllers.api import names
from controllers.api.resources import EVENT, GPUDEVICE, GPUNODEINVENTORY, LEASE
from controllers.runtime.client import Client
from controllers.runtime.errors import NotFound
from sim.errors import UserError

if TYPE_CHECKING:
    from controllers.api.resources import Resource

PAGE = 500


@dataclass
class Records:
    """The cards and the nodes' summaries that are on record."""

    client: Client
    summaries: set[str] = field(default_factory=set)
    """Nodes whose summary the watch of `complete` has shown."""

    async def complete(self, nodes: int, version: str) -> float:
        """Watch from a version on until every node's summary is there; returns when, in seconds since the epoch."""
        self.summaries.clear()
        query = {"watch": "1", "resourceVersion": version}
        async with self.client.stream(GPUNODEINVENTORY.path(), query=query, idle=600) as batches:
            async for lines in batches:
                for line in filter(None, lines):
                    found = orjson.loads(line)["object"]
                    if "hw" in found.get("status", {}):
                        self.summaries.add(found["metadata"]["name"])
                if len(self.summaries) == nodes:
                    return time.time()
        raise UserError("the watch of GPUNodeInventories ended before everything was recorded")

    async def verify(self, count: int) -> None:
        """Raise UserError where not every card is recorded, though every summary is."""
        cards = [card async for card in self.items(GPUDEVICE) if "hardware" in card.get("status", {})]
        if len(cards) != count:
            raise UserError(f"every node's summary is there, but {len(cards)} of {count} cards")

    async def versions(self) -> dict[str, str]:
        """The version of every object on record."""
        return {
            f"{resource.kind}/{item['metadata']['name']}": item["metadata"]["resourceVersion"]
            for resource in (GPUDEVICE, GPUNODEINVENTORY)
            async for item in self.items(resource)
        }

    async def remove(self) -> None:
        """Remove everything on record, and the lease, and wait until it is gone."""
        for resource, namespace in ((GPUDEVICE, None), (GPUNODEINVENTORY, None), (EVENT, "default")):
            while await self.all(resource, limit=1):
                await self.client.request("DELETE", resource.path(namespace), timeout=300)
        with suppress(NotFound):
            await self.client.request("DELETE", LEASE.path(names.NAMESPACE, names.INVENTORY))

    async def version(self) -> str:
        """The version that a watch of summaries begins with."""
        body = await self.client.request("GET", GPUNODEINVENTORY.path(), query={"limit": "1"})
        return str(orjson.loads(body)["metadata"]["resourceVersion"])

    async def all(self, resource: Resource, limit: int | None = None) -> list[dict[str, Any]]:
        """Objects of a kind; `limit`: no more than that."""
        found: list[dict[str, Any]] = []
        async for item in self.items(resource, limit or PAGE):
            found.append(item)
            if limit is not None and len(found) == limit:
                break
        return found

    async def items(self, resource: Resource, page: int = PAGE) -> AsyncIterator[dict[str, Any]]:
        """Objects of a kind, read in pages; yields to others between them."""
        query = {"limit": str(page)}
        while True:
            answer = orjson.loads(await self.client.request("GET", resource.path(), query=query, timeout=60))
            for item in answer["items"]:
                yield item
            if not (token := answer["metadata"].get("continue")):
                return
            query["continue"] = token
