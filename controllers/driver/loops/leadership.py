"""Before the first permit of a leadership: the caches know all that the former leader has written. Asked once."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import orjson

from controllers.runtime.store import version

if TYPE_CHECKING:
    from controllers.api.meta import KubeObject
    from controllers.api.resources import Resource
    from controllers.runtime.client import Client
    from controllers.runtime.store import Store

PAUSE = 0.05
"""Seconds between two looks at a cache that is behind."""


async def caught_up(client: Client, resource: Resource, store: Store[KubeObject]) -> None:
    """Return once the cache is as new as a list of the quorum, asked for now.

    Permits are counted by what nodes' records say: one that the former leader gave just before it ended must be seen.
    """
    listed = orjson.loads(await client.request("GET", resource.path(None), query={}))
    metas = [item["metadata"] for item in listed["items"]]
    behind = {meta["name"]: int(meta["resourceVersion"]) for meta in metas}
    observed = int(listed["metadata"]["resourceVersion"])
    while store.observed < observed:
        known = ((store.get(name), at) for name, at in behind.items())
        if all(found is not None and version(found) >= at for found, at in known):
            return
        await asyncio.sleep(PAUSE)
