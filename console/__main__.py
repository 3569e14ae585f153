"""gpu-console: pages for the cluster's users, behind a proxy that passes their bearer token on."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING

from console.access import TokenAccess
from console.feed import Feed
from console.hub import Hub
from console.reviews import Reviews
from console.server import Server
from console.views import VIEWS
from controllers.api import names
from controllers.runtime import selfsigned, tls
from controllers.runtime.process import Process, arguments, main

if TYPE_CHECKING:
    import argparse


def parser() -> argparse.ArgumentParser:
    """The flags."""
    flags = arguments(names.CONSOLE, "Shows cards, pools and pods as pages, to each viewer what they may read.")
    flags.add_argument("--host", default="127.0.0.1", help="address of the pages' port; 0.0.0.0 or :: in a pod")
    flags.add_argument("--port", type=int, default=9445, help="its port; 0 lets the system choose")
    about = "what the header Host may be; may be given several times; without it anything, since the proxy looks at it"
    flags.add_argument("--served-as", action="append", default=[], metavar="NAME", help=about)
    return flags


async def wire(process: Process) -> None:
    """Put the process together and run it."""
    args, client = process.args, process.client
    feed, bare = Feed(client), client.anonymous()
    hub, access = Hub(feed, VIEWS), TokenAccess(client, bare, Reviews(client, own=False), feed)
    server = Server(feed, hub, access, hosts=args.served_as, address_of=client.server)
    serving = asyncio.Event()

    async def work() -> None:
        context = tls.server_context()
        # Of this run, and verified by nobody, as that of the metrics: it keeps tokens from who listens on the network.
        tls.load(context, await selfsigned.made_elsewhere(names.CONSOLE), "")
        await server.start(args.host, args.port, tls=context)
        serving.set()
        await asyncio.Event().wait()

    process.background(feed.run)
    process.background(hub.run)
    process.health.check("serving", serving.is_set)
    process.health.check("the cluster is read", lambda: feed.filled)
    process.health.check("every kind may be read", lambda: not feed.refused)
    try:
        await process.run(work, lease=None, namespace=names.NAMESPACE)
    finally:
        await server.stop()
        await bare.close()


if __name__ == "__main__":
    sys.exit(main(parser(), names.CONSOLE, wire))
