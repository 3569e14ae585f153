"""A port for metrics that serves, for tests of who gets an answer there."""

from __future__ import annotations

import asyncio
import ssl
from typing import TYPE_CHECKING, Any

from controllers.runtime.scraping import Scraping
from tests.kit.waiting import until

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from aiohttp import web


async def open_port(
    exposition: Callable[[], Awaitable[web.Response]],
) -> tuple[Scraping, asyncio.Task[None], ssl.SSLContext]:
    """The port, the task that serves it, and what a client that does not know its authority connects by."""
    client: Any = None
    port = Scraping("x", client, exposition, host="127.0.0.1", port=0)
    task = asyncio.create_task(port.run())
    await until(lambda: port.port != 0 or task.done(), "it to serve")
    tls = ssl.create_default_context()
    tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
    return port, task, tls
