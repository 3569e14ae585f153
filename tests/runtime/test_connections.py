"""A client that is closed leaves no connection, whatever the server does meanwhile."""

from __future__ import annotations

import asyncio
import gc
import ssl
import sys
import threading
import time
import warnings
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import aiohttp
import pytest
from aiohttp import web

from controllers.runtime.connections import connector
from tests.kit.waiting import PATIENCE
from webhook.certs import pki

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

AT_ONCE = 20


class Stalling:
    """A TLS server in a thread of its own that stops answering, as one that gets no processor does."""

    def __init__(self, folder: Path) -> None:
        now = time.time()
        authority, key = pki.make_authority(now, 86400.0)
        certificate, serving = pki.issue(authority, key, now, 3600.0)
        self.authority, self._pair = folder / "ca.crt", folder / "server.pem"
        self.authority.write_text(authority)
        self._pair.write_text(certificate + serving)
        self._ready, self.resume = threading.Event(), threading.Event()
        self._arrived = 0
        self._thread = threading.Thread(target=asyncio.run, args=(self._serve(),), daemon=True)
        self._thread.start()
        assert self._ready.wait(PATIENCE)

    async def _serve(self) -> None:
        self.loop, self.end, self._all = asyncio.get_running_loop(), asyncio.Event(), asyncio.Event()
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.load_cert_chain(self._pair)
        app = web.Application()
        app.router.add_get("/", self._answer)
        runner = web.AppRunner(app, keepalive_timeout=2 * PATIENCE)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls).start()
        self.port = runner.addresses[0][1]
        self._ready.set()
        await self.end.wait()
        await runner.cleanup()

    async def _answer(self, _: web.Request) -> web.Response:
        """When all have asked, so that each has a connection of its own."""
        self._arrived += 1
        if self._arrived == AT_ONCE:
            self._all.set()
        await self._all.wait()
        return web.Response()

    def stall(self) -> None:
        """Answer nobody until `resume` is set."""
        stalled = threading.Event()

        def hold() -> None:
            stalled.set()
            self.resume.wait(PATIENCE)

        self.loop.call_soon_threadsafe(hold)
        assert stalled.wait(PATIENCE)

    def stop(self) -> None:
        self.resume.set()
        self.loop.call_soon_threadsafe(self.end.set)
        self._thread.join(PATIENCE)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Stalling]:
    made = Stalling(tmp_path)
    yield made
    made.stop()


@pytest.mark.skipif(sys.version_info >= (3, 12, 8), reason="aiohttp has no way to do it on this interpreter")
def test_connections_that_ran_idle_just_before_end_with_their_client(server: Stalling) -> None:
    configuration: Any = SimpleNamespace(
        ssl_ca_cert=str(server.authority),
        cert_file=None,
        verify_ssl=True,
        disable_strict_ssl_verification=False,
        connection_pool_maxsize=AT_ONCE,
    )

    async def story() -> None:
        made = connector(configuration)
        async with aiohttp.ClientSession(connector=made) as session:

            async def ask() -> None:
                async with session.get(f"https://127.0.0.1:{server.port}/", server_hostname="localhost") as answer:
                    await answer.read()

            await asyncio.gather(*(ask() for _ in range(AT_ONCE)))
            server.stall()
            made._keepalive_timeout = -1  # each has been idle for longer
            made._cleanup()  # as aiohttp's own timer does

    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always", ResourceWarning)
        asyncio.run(story())
        gc.collect()
    assert [str(each.message) for each in told] == []
