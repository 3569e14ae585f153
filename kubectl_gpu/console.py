"""`kubectl gpu console`: pages on loopback, under this person's own rights, until it is interrupted."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from controllers.api.resources import POD
from kubectl_gpu.terminal import print_lines, warn

if TYPE_CHECKING:
    import argparse

    from kubectl_gpu.cluster import Cluster

CONNECTIONS: Final = 48
"""To the API server: a watch for each kind, and questions about rights."""


async def console(cluster: Cluster, args: argparse.Namespace) -> int:
    """Serve, say where, and open a browser."""
    from console.access import OwnAccess
    from console.feed import Feed
    from console.hub import Hub
    from console.reviews import Reviews
    from console.server import Server
    from console.viewers import NotAskedError, UnknownViewerError, whoami
    from console.views import VIEWS
    from controllers.explain.faults import UsageError
    from controllers.runtime import logs

    logs.configure("kubectl-gpu", "Error")
    reviews = Reviews(cluster.client, own=True)
    try:
        everywhere = await reviews.may(await whoami(cluster.client), "list", POD)
    except (NotAskedError, UnknownViewerError) as error:
        raise UsageError(str(error)) from error
    feed = Feed(cluster.client, namespace=None if everywhere else cluster.namespace)
    hub, access = Hub(feed, VIEWS), OwnAccess(cluster.client, reviews, feed)
    server = Server(feed, hub, access, address_of=cluster.client.server)
    await server.start(args.address, args.port, own_host=True)
    here = f"[{args.address}]" if ":" in args.address else args.address
    page = f"http://{here}:{server.port}/#token="
    print_lines([f"{page}{access.secret}"])
    warn("Serving until interrupted (Ctrl-C). Whoever has this address sees what you see.")
    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(feed.run())
            group.create_task(hub.run())
            if not args.no_browser:
                group.create_task(_open(page + access.ticket()))
    finally:
        await server.stop()
    return 0


async def _open(address: str) -> None:
    """Open it in a browser, which may take until that ends."""
    import webbrowser

    if not await asyncio.to_thread(webbrowser.open, address):
        warn("No browser was found here: open the address in one.")
