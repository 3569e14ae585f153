"""Caches of one kind, filled and followed by the module's own reflector: what a tool of ours reads of a cluster.

Nothing here asks the API server by itself, so all of it waits as the module waits: an API server
that has begun to serve a kind a moment ago, or is pressed, answers 429 (`storage is
(re)initializing`) and is asked again; a watch that breaks goes on where it was.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, TypeVar

from controllers.api.meta import KubeObject
from controllers.runtime.reflector import Reflector
from controllers.runtime.store import Store
from tools.errors import UserError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from controllers.api.resources import Resource
    from controllers.runtime.client import Client
    from controllers.runtime.reflector import Scope

T = TypeVar("T", bound=KubeObject)
LIST_SECONDS = 120.0


@asynccontextmanager
async def kept(reflector: Reflector[T], seconds: float = LIST_SECONDS) -> AsyncIterator[None]:
    """Let a reflector keep its store inside the block; raises UserError where its objects cannot be listed."""
    following = asyncio.create_task(reflector.run(), name=f"cache of {reflector.resource.plural}")
    try:
        await _filled(reflector, following, seconds)
        yield
    finally:
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)


async def _filled(reflector: Reflector[T], following: asyncio.Task[None], seconds: float) -> None:
    filled = asyncio.create_task(reflector.synced.wait())
    await asyncio.wait((filled, following), timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    if following.done():
        following.result()  # it ends by a bug alone, which is to be seen
    if not filled.done():
        filled.cancel()
        raise UserError(
            f"the {reflector.resource.plural} of the cluster could not be listed in {seconds:.0f} s",
            do="look whether its API server answers: its log is in the directory of the cluster",
        )


async def listed(client: Client, resource: Resource, record: type[T], *, scope: Scope | None = None) -> list[T]:
    """Every object of a kind, as a quorum read tells it; raises UserError."""
    store: Store[T] = Store(resource.kind)
    async with kept(Reflector(client, resource, record, store, scope=scope)):
        return list(store)
