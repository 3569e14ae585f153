"""The HTTPS side: a path for reviews of pods, one for those of other objects, one for probes.

Starts as soon as there is a certificate, before the caches are filled, so that whoever asks
early reads a sentence instead of "connection refused". Stops in order: not ready any more,
time for others to stop sending, in which every answer ends its connection (one that is kept
would be closed just as the API server sends over it), then the end of what is in hand.
"""

from __future__ import annotations

import asyncio
from contextlib import nullcontext
from typing import TYPE_CHECKING, Final, cast

import structlog
from aiohttp import web

from controllers.runtime.errors import ConfigurationError
from controllers.runtime.listener import KEEPALIVE, ConnectionLimits, Listener
from webhook import metrics
from webhook.decision.review import BODY_MAX, NotAReview

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable

    from aiohttp.typedefs import Handler

    from controllers.runtime.health import Health
    from webhook.handlers.objects import ObjectReviewHandler
    from webhook.handlers.pod_creation import PodCreationHandler

log = structlog.get_logger()
MUTATE_PODS: Final = "/mutate-pods"
VALIDATE: Final = "/validate"
DEADLINE: Final = 3.0
"""Seconds for a review from its first line on. The API server waits for 5, the handshake of a new connection included,
and among hundreds of them that takes its time; "come again" must reach it before it gives up."""
READ_DEADLINE: Final = 2.0
LARGE: Final = 256 << 10
"""Bytes of a body from which on few are in hand at once: as JSON 8 MiB of it can take 90 MB. What one object of the API
server says in annotations is no more than that."""
LARGE_MAX: Final = 2
LIMITS = ConnectionLimits(handshaking=256, awaiting_request=128, idle=256)


class Server:
    """Serves reviews over TLS."""

    def __init__(
        self, admission: PodCreationHandler, objects: ObjectReviewHandler, health: Health, *, host: str, port: int
    ) -> None:
        """Prepare; port 0 lets the system choose."""
        self._answers = {MUTATE_PODS: admission.handle, VALIDATE: objects.handle}
        self._health, self._host, self.port = health, host, port
        self._runner: web.AppRunner | None = None
        self._listener: Listener | None = None
        self._large = {path: asyncio.Semaphore(LARGE_MAX) for path in self._answers}
        self._draining = self._away = False

    async def start(self, tls: ssl.SSLContext) -> None:
        """Listen."""
        app = web.Application(client_max_size=BODY_MAX, middlewares=[_closing])
        for path in self._answers:
            app.router.add_post(path, self._serve)
        app.router.add_get("/readyz", self._ready)
        self._runner = web.AppRunner(
            app,
            access_log=None,
            keepalive_timeout=KEEPALIVE,
            lingering_time=READ_DEADLINE,  # for the rest of a body whose sender has its answer
            shutdown_timeout=DEADLINE + 1,
        )
        await self._runner.setup()
        serve = cast("Callable[[], asyncio.Protocol]", self._runner.server)
        self._listener = Listener(serve, LIMITS, metrics.CONNECTIONS_ENDED)
        try:
            self.port = await self._listener.start(self._host, self.port, tls)
        except OSError as error:
            msg = f"cannot listen on {self._host}:{self.port}: {error.strerror}. Give --port another port."
            raise ConfigurationError(msg) from error
        log.info("serving", host=self._host, port=self.port)

    @property
    def serving(self) -> bool:
        """Whether it listens."""
        return self._listener is not None and self._listener.listening

    async def drain(self, seconds: float) -> None:
        """Serve on, but keep no connection."""
        self._draining = True
        await asyncio.sleep(seconds)

    def close_connections(self, *, away: bool) -> None:
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

    async def _serve(self, request: web.Request) -> web.Response:
        response = await self._review(request)
        if self._draining or self._away:
            response.force_close()
        return response

    async def _review(self, request: web.Request) -> web.Response:
        clock = asyncio.get_running_loop().time
        began = clock()
        packed = request.content_length is None or "Content-Encoding" in request.headers
        large = packed or cast("int", request.content_length) > LARGE
        try:
            async with asyncio.timeout(READ_DEADLINE) as reading, self._large[request.path] if large else nullcontext():
                body = await request.read()
                reading.reschedule(None)
                with self._listener.answering(request.transport) if self._listener else nullcontext():
                    answer = await self._answers[request.path](body, DEADLINE - (clock() - began))
        except web.HTTPRequestEntityTooLarge:
            return _refused(413, f"the body is larger than {BODY_MAX} bytes; an AdmissionReview is smaller")
        except TimeoutError:
            return _refused(408, f"the body was not there, or larger ones were before it, for {READ_DEADLINE:g} s")
        except OSError as error:  # what ended the connection, but for TimeoutError, which is one and has its own answer
            # The API server gives a review up where its own caller has gone. Nobody reads this answer.
            log.info("the connection ended before the review was there", why=str(error))
            return web.Response(status=400)
        except web.RequestPayloadError:
            request.content.feed_eof()  # nothing of it can be read: the server would try, and fail once more
            return _refused(400, "the body is not packed as its header Content-Encoding says; send it as it is")
        except NotAReview as error:
            return _refused(400, str(error))
        return web.Response(body=answer, content_type="application/json")

    async def _ready(self, _: web.Request) -> web.Response:
        if failing := self._health.failing:
            return web.Response(status=503, text="not ready: " + ", ".join(failing) + "\n")
        return web.Response(text="ok\n")


@web.middleware
async def _closing(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Who asks for what is not there needs the connection no more."""
    try:
        return await handler(request)
    except web.HTTPException as error:
        error.force_close()
        raise


def _refused(status: int, sentence: str) -> web.Response:
    """An answer to what is no review: nobody's uid to answer under, but a sentence, and the connection's last."""
    metrics.REVIEWS.labels("refused", str(status)).inc()
    log.warning("not a review", status=status, why=sentence)
    response = web.Response(status=status, text=f"gpu-admission-webhook: {sentence}\n")
    response.force_close()
    return response
