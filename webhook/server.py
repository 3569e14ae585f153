"""The HTTPS side: a path for reviews of pods, one for those of other objects, one for probes.

Starts as soon as there is a certificate, before the caches are filled, so that whoever asks
early reads a sentence instead of "connection refused". Stops in order: not ready any more,
time for others to stop sending, in which every answer ends its connection (one that is kept
would be closed just as the API server sends over it), then the end of what is in hand.
"""

from __future__ import annotations

import asyncio
from contextlib import nullcontext
from functools import partial
from typing import TYPE_CHECKING, Final, cast

import structlog
from aiohttp import web

from controllers.runtime.errors import ConfigurationError
from webhook import metrics
from webhook.address import MUTATE_PODS, VALIDATE
from webhook.listener import Listener
from webhook.review import BODY_MAX, NotAReview

if TYPE_CHECKING:
    import ssl
    from collections.abc import Awaitable, Callable

    from aiohttp.typedefs import Handler

    from controllers.runtime.health import Health
    from webhook.admission import Admission
    from webhook.callers import Callers
    from webhook.objects.answer import Objects

log = structlog.get_logger()
DEADLINE: Final = 3.0
"""Seconds for a review from its first line on. The API server waits for 5, the handshake of a new connection included,
and among hundreds of them that takes its time; "come again" must reach it before it gives up."""
READ_DEADLINE: Final = 2.0
LARGE: Final = 64 << 10
"""Bytes of a body from which on few are in hand at once; most are of a few kB, and 8 MiB of JSON can take 90 MB."""
LARGE_MAX: Final = 2
"""Of those whom we know; of strangers one."""
KNOWN: Final = web.RequestKey("known", bool)
"""Of a request: whether it came by the path that strangers do not know."""
STRANGER: Final = "only API servers ask here, by the path that the webhook configurations gpu-control-plane tell them"
KEEPALIVE: Final = 180.0
"""Longer than the 90 s for which Go keeps an idle connection: the side that asks has to close it."""


class Server:
    """Serves reviews over TLS."""

    def __init__(
        self, admission: Admission, objects: Objects, callers: Callers, health: Health, *, host: str, port: int
    ) -> None:
        """Prepare; port 0 lets the system choose."""
        self._answers = {MUTATE_PODS: admission.answer, VALIDATE: objects.answer}
        self._callers, self._health, self._host, self.port = callers, health, host, port
        self._runner: web.AppRunner | None = None
        self._listener: Listener | None = None
        self._large = {True: asyncio.Semaphore(LARGE_MAX), False: asyncio.Semaphore(1)}
        self._draining = self._away = False

    async def start(self, tls: ssl.SSLContext) -> None:
        """Listen."""
        app = web.Application(client_max_size=BODY_MAX, middlewares=[self._met])
        for path, answer in self._answers.items():
            for route in (path, path + "/{word}"):
                app.router.add_post(route, partial(self._serve, answer))
        app.router.add_get("/readyz", self._ready)
        self._runner = web.AppRunner(
            app,
            access_log=None,
            keepalive_timeout=KEEPALIVE,
            lingering_time=READ_DEADLINE,  # for the rest of a body whose sender has its answer
            shutdown_timeout=DEADLINE + 1,
        )
        await self._runner.setup()
        self._listener = Listener(cast("Callable[[], asyncio.Protocol]", self._runner.server))
        try:
            self.port = await self._listener.start(self._host, self.port, tls)
        except OSError as error:
            msg = f"cannot listen on {self._host}:{self.port}: {error.strerror}. Give --port another port."
            raise ConfigurationError(msg) from error
        log.info("serving", host=self._host, port=self.port)

    @property
    def serving(self) -> bool:
        """Whether it listens."""
        return self._runner is not None

    async def drain(self, seconds: float) -> None:
        """Serve on, but keep no connection."""
        self._draining = True
        await asyncio.sleep(seconds)

    def send_away(self, *, away: bool) -> None:
        """While it lasts keep no connection, so that whoever asks again finds a replica that can answer.

        Nobody else would end those that the API server keeps: not ready only means no new ones.
        """
        self._away = away
        if away and self._runner is not None and self._runner.server is not None:
            self._runner.server.pre_shutdown()  # each connection ends when it has nothing in hand

    async def stop(self) -> None:
        """Answer what is in hand and close."""
        if self._listener is not None:
            await self._listener.stop()
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    @web.middleware
    async def _met(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Tell the listener who asks; only the API server's connections are kept for the next request."""
        known = request[KNOWN] = self._callers.knows(request.match_info.get("word", ""))
        with self._listener.answering(request.transport, known=known) if self._listener else nullcontext():
            try:
                response = await handler(request)
            except web.HTTPException as error:
                error.force_close()
                raise
        if not known or self._draining or self._away:
            response.force_close()
        return response

    async def _serve(self, answer: Callable[[bytes, float], Awaitable[bytes]], request: web.Request) -> web.Response:
        if not request[KNOWN] and not await self._callers.may_be_one():
            return _refused(403, STRANGER)
        clock = asyncio.get_running_loop().time
        began = clock()
        large = (
            request.content_length is None or request.content_length > LARGE or "Content-Encoding" in request.headers
        )
        try:
            async with asyncio.timeout(READ_DEADLINE) as reading:
                async with self._large[request[KNOWN]] if large else nullcontext():
                    body = await request.read()
                    reading.reschedule(None)
                    return web.Response(
                        body=await answer(body, DEADLINE - (clock() - began)), content_type="application/json"
                    )
        except web.HTTPRequestEntityTooLarge:
            return _refused(413, f"the body is larger than {BODY_MAX} bytes; an AdmissionReview is smaller")
        except TimeoutError:
            return _refused(408, f"the body was not there, or larger ones were before it, for {READ_DEADLINE:g} s")
        except web.RequestPayloadError:
            request.content.feed_eof()  # nothing of it can be read: the server would try, and fail once more
            return _refused(400, "the body is not packed as its header Content-Encoding says; send it as it is")
        except NotAReview as error:
            return _refused(400, str(error))

    async def _ready(self, _: web.Request) -> web.Response:
        if failing := self._health.failing:
            return web.Response(status=503, text="not ready: " + ", ".join(failing) + "\n")
        return web.Response(text="ok\n")


def _refused(status: int, sentence: str) -> web.Response:
    """An answer to what is no review: nobody's uid to answer under, but a sentence, and the connection's last."""
    metrics.REVIEWS.labels("refused", str(status)).inc()
    log.warning("not a review", status=status, why=sentence)
    response = web.Response(status=status, text=f"gpu-admission-webhook: {sentence}\n")
    response.force_close()
    return response
