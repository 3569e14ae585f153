"""Metrics over TLS, for who may read them: `/metrics` on a port that other pods reach.

A reader shows a bearer token; `readers` knows what the API server thinks of it. Who shows none, or a wrong one, gets
401, who may not gets 403, each with a sentence. The certificate is of this run and verified by nobody (`selfsigned`).
"""

from __future__ import annotations

import asyncio
from contextlib import nullcontext
from typing import TYPE_CHECKING, Final, cast

import structlog
from aiohttp import web

from controllers.runtime import metrics, selfsigned, tls, tokens
from controllers.runtime.client import Client
from controllers.runtime.handshakes import Handshakes, Rate
from controllers.runtime.health import Health
from controllers.runtime.listener import KEEPALIVE, ConnectionLimits, Listener
from controllers.runtime.readers import ASKING_MAX, Access, Readers

if TYPE_CHECKING:
    import argparse
    from collections.abc import Awaitable, Callable

log = structlog.get_logger()
LIMITS: Final = ConnectionLimits(handshaking=64, awaiting_request=32, idle=32)
EACH: Final = Rate(burst=16, per_second=2)
TOGETHER: Final = Rate(burst=32, per_second=16)
"""Handshakes from one address, and from all, half for newcomers: Prometheus keeps its connection."""
BODY_MAX: Final = 1 << 10
"""Bytes: who reads sends none."""
AGAIN: Final = 10.0
"""Seconds until a certificate is tried for again."""


class Scraping:
    """The port of one program."""

    def __init__(
        self,
        program: str,
        client: Client,
        exposition: Callable[[], Awaitable[web.Response]],
        *,
        host: str,
        port: int,
    ) -> None:
        """Prepare; port 0 lets the system choose. `client` is without credentials, and closed with this."""
        self._program, self._client, self._exposition = program, client, exposition
        self._readers = Readers(client, program)
        self._listener: Listener | None = None
        self._host, self._wanted, self.port = host, port, 0

    async def run(self) -> None:
        """Serve for ever. Where that cannot be, whatever the program is for goes on, and it is tried again."""
        while True:
            try:
                await self._serve_once()
            except Exception as error:  # noqa: BLE001 - no port, no certificate, no threads: each passes, or somebody mends it
                why = str(error) or type(error).__name__
                log.error("metrics are not served", port=self._wanted, why=why, again_in=AGAIN)  # noqa: TRY400
            await asyncio.sleep(AGAIN)

    async def _serve_once(self) -> None:
        """Serve until the port ends, and raise why."""
        context = tls.server_context()
        tls.load(context, await selfsigned.made_elsewhere(self._program), "")
        app = web.Application(client_max_size=BODY_MAX)
        app.router.add_get("/metrics", self._serve)
        runner = web.AppRunner(app, access_log=None, keepalive_timeout=KEEPALIVE, shutdown_timeout=1.0)
        await runner.setup()
        serve = cast("Callable[[], asyncio.Protocol]", runner.server)
        self._listener = listener = Listener(serve, LIMITS, metrics.READS_ENDED, Handshakes(EACH, TOGETHER))
        try:
            self.port = await listener.start(self._host, self._wanted, context)
            log.info("serving metrics", host=self._host, port=self.port)
            await listener.until_over()
        finally:
            await listener.stop()
            await runner.cleanup()

    async def close(self) -> None:
        """Let go of the connections to the API server."""
        await self._client.close()

    async def _serve(self, request: web.Request) -> web.Response:
        token = tokens.shown(request.headers.get("Authorization", ""))
        with self._listener.answering(request.transport) if self._listener else nullcontext():
            access = await self._readers.authorize(token) if token else Access.UNAUTHENTICATED
            metrics.READS.labels(str(access.value)).inc()
            if access is Access.ALLOWED:
                return await self._exposition()
            if self._listener is not None:
                self._listener.dismiss(request.transport)
            return self._refused(access)

    def _refused(self, access: Access) -> web.Response:
        what = self._readers.what
        said = {
            Access.UNAUTHENTICATED: (
                f"the cluster does not know you: send a bearer token of an account that may get {what}"
            ),
            Access.FORBIDDEN: f"this account may not read metrics: it needs a Role that lets it get {what}",
            Access.UNAVAILABLE: "the API server could not be asked whether you may read metrics; come again",
        }
        headers = {"WWW-Authenticate": "Bearer"} if access is Access.UNAUTHENTICATED else {}
        response = web.Response(status=access.value, text=f"{self._program}: {said[access]}\n", headers=headers)
        response.force_close()
        return response


async def open_ports(program: str, args: argparse.Namespace) -> tuple[Health, Scraping | None]:
    """Where a program answers, by its flags (`health.add_ports`); raises ConfigurationError."""
    port = args.metrics_port
    health = Health(args.health_host, args.health_port, with_metrics=port is None)
    if port is None:
        return health, None
    client = await Client.connect(args.kubeconfig, user_agent=program, connections=2 * ASKING_MAX)
    bare = client.anonymous()
    await client.close()
    return health, Scraping(program, bare, health.exposition, host=args.health_host, port=port)
