"""The console's real server over objects that a test feeds it by hand, for what a page does with them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection, Iterable
from contextlib import asynccontextmanager, suppress
from typing import Any

from aiohttp import web

from console.feed import Feed, Stale
from console.hub import Hub
from console.kinds import PODS, WHOLE
from console.rights import Rights
from console.server import Server
from console.viewers import UnknownViewerError, Viewer
from console.views import VIEWS
from controllers.api.meta import KubeObject

EVERYTHING = frozenset(read.resource.kind for read in WHOLE)


class FixedAccess:
    """Somebody with given rights, as long as they are known."""

    mode = "loopback"

    def __init__(self, namespaces: frozenset[str] | None = None, *, confirms: bool = False) -> None:
        self._rights = Rights(EVERYTHING, namespaces, confirms)
        self.known = True

    async def viewer(self, request: web.Request) -> Viewer:
        del request
        if not self.known:
            raise UnknownViewerError("The cluster does not accept your credentials (any more). Log in again.")
        return Viewer("anna", ("team-a",))

    async def rights(self, viewer: Viewer) -> Rights:
        del viewer
        return self._rights

    def client(self, request: web.Request) -> Any:
        raise AssertionError(f"nothing is written here by {request}")


class Fed(Feed):
    """A feed that hears of nothing but what a test puts into it."""

    def __init__(self) -> None:
        super().__init__(None)  # type: ignore[arg-type]  # it is never run

    @property
    def filled(self) -> bool:
        return True

    @property
    def refused(self) -> dict[str, str]:
        return {}

    def fill(self, **parts: Iterable[KubeObject]) -> None:
        """Put these in place of all: `cards`, `nodes`, `inventories`, `pools`, `drivers`, `pods`."""
        for read in WHOLE:
            if read.within in parts:
                self.stores[read.resource.kind].replace(list(parts[read.within]), 1)
        if "pods" in parts:
            self.stores[PODS[0].kind].replace(list(parts["pods"]), 1)

    def age(self, stale: Stale | None) -> None:
        """Say since when nothing is heard."""
        self.stale = stale
        self._changed()


@asynccontextmanager
async def served(feed: Feed, access: Any, port: int = 0, hosts: Collection[str] = ()) -> AsyncIterator[str]:
    """Serve; gives the page's address."""
    hub = Hub(feed, VIEWS)
    server = Server(feed, hub, access, hosts=hosts)
    await server.start("127.0.0.1", port, own_host=True)
    running = asyncio.create_task(hub.run())
    try:
        yield f"http://127.0.0.1:{server.port}/"
    finally:
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running
        await server.stop()
