"""Takes TLS connections in, and ends those that do not ask: who says nothing holds no memory that others need.

A connection costs a quarter of a megabyte, and the port is open to the pods' network. So a handshake, the head of a
request and the reading of an answer have `SILENCE` each; and where more than `HANDSHAKES_MAX` shake hands at once, or
more than `IDLE_MAX` have nothing in hand, the one that has been so for longest gives way. An API server asks at once,
and asks again over another connection where one was ended. A request that is being answered is never cut off here.

Lives as long as the port is open, in the process's event loop.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, cast

import structlog

from webhook import metrics

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

log = structlog.get_logger()
SILENCE: Final = 3.0
"""Seconds."""
HANDSHAKES_MAX: Final = 256
IDLE_MAX: Final = 256
BACKLOG: Final = 1024
SWEEP: Final = 0.5
"""Seconds between two looks at all connections; each is ended so much later at most."""
OUT_OF_FILES: Final = 0.1
"""Seconds until it is tried again to take one in where the system would not have it."""


class Listener:
    """The port, and the connections that have come by it."""

    def __init__(self, serve: Callable[[], asyncio.Protocol]) -> None:
        """Prepare; `serve` makes the protocol that answers on a connection."""
        self._serve = serve
        self._loop = asyncio.get_running_loop()
        self._open: dict[asyncio.BaseTransport, Connection] = {}
        self._handshakes: dict[asyncio.Task[None], None] = {}
        self._sockets: list[socket.socket] = []
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self, host: str, port: int, tls: ssl.SSLContext) -> int:
        """Listen; returns the port. Raises OSError where it cannot be had."""
        found = await self._loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        try:
            for family, kind, protocol, _, address in dict.fromkeys(found):
                self._sockets.append(made := socket.socket(family, kind, protocol))
                made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                if family == socket.AF_INET6:
                    made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
                made.bind(address)
                made.listen(BACKLOG)
                made.setblocking(False)
        except OSError:
            self._close_sockets()
            raise
        self._tasks = [asyncio.create_task(self._take_in(each, tls)) for each in self._sockets]
        self._tasks.append(asyncio.create_task(self._look()))
        return int(self._sockets[0].getsockname()[1])

    async def stop(self) -> None:
        """Take nobody in any more; connections that are open stay."""
        for task in (going := [*self._tasks, *self._handshakes]):
            task.cancel()
        await asyncio.gather(*going, return_exceptions=True)
        self._close_sockets()

    @contextmanager
    def answering(self, transport: asyncio.BaseTransport | None) -> Iterator[None]:
        """While a request of that connection is answered."""
        connection = self._open.get(transport) if transport is not None else None
        if connection is None:
            yield
            return
        connection.requests, connection.owes_since = connection.requests + 1, None
        try:
            yield
        finally:
            connection.requests -= 1
            connection.quiet_since = self._loop.time()

    def opened(self, connection: Connection, transport: asyncio.Transport) -> None:
        """A handshake is over."""
        self._open[transport] = connection
        quiet = [each for each in self._open.values() if each.requests == 0]
        if len(quiet) > IDLE_MAX:
            # Who has never asked, or is in the midst of asking, gives way before one that is kept between two requests.
            min(quiet, key=lambda each: (each.owes_since is None, each.quiet_since)).end("crowded")

    def lost(self, transport: asyncio.Transport) -> None:
        """A connection is over."""
        self._open.pop(transport, None)

    def now(self) -> float:
        """The event loop's time."""
        return self._loop.time()

    async def _take_in(self, listening: socket.socket, tls: ssl.SSLContext) -> None:
        while True:
            try:
                peer, _ = await self._loop.sock_accept(listening)
            except OSError as error:
                log.warning("cannot take a connection in", error=str(error))
                await asyncio.sleep(OUT_OF_FILES)
                continue
            task = asyncio.create_task(self._shake_hands(peer, tls))
            self._handshakes[task] = None
            task.add_done_callback(lambda done: self._handshakes.pop(done, None))
            if len(self._handshakes) > HANDSHAKES_MAX:
                next(iter(self._handshakes)).cancel()
                metrics.CONNECTIONS_ENDED.labels("crowded").inc()

    async def _shake_hands(self, peer: socket.socket, tls: ssl.SSLContext) -> None:
        peer.setblocking(False)
        try:
            await self._loop.connect_accepted_socket(
                lambda: Connection(self._serve(), self), peer, ssl=tls, ssl_handshake_timeout=SILENCE
            )
        except (OSError, ssl.SSLError) as error:  # TimeoutError is an OSError
            peer.close()
            metrics.CONNECTIONS_ENDED.labels("handshake").inc()
            log.debug("no handshake", error=str(error))
        except BaseException:
            peer.close()
            raise

    async def _look(self) -> None:
        """End those that owe something for too long."""
        while True:
            await asyncio.sleep(SWEEP)
            since = self._loop.time() - SILENCE
            for each in [c for c in self._open.values() if c.owes_since is not None and c.owes_since < since]:
                each.end("silent")

    def _close_sockets(self) -> None:
        for each in self._sockets:
            each.close()
        self._sockets.clear()


class Connection(asyncio.Protocol):
    """One connection after its handshake: passes everything on, and knows what is owed on it."""

    def __init__(self, inner: asyncio.Protocol, listener: Listener) -> None:
        """Prepare; `inner` serves it."""
        self._inner, self._listener = inner, listener
        self._transport: asyncio.Transport | None = None
        self.requests = 0
        """That are being answered."""
        self.owes_since: float | None = None
        """From when on its peer owes the head of a request, or to read an answer; None while it owes nothing."""
        self.quiet_since = 0.0
        """From when on nothing has been answered on it."""

    def end(self, why: str) -> None:
        """End it without a farewell, which would have to be waited for."""
        self.owes_since = None
        if self._transport is not None:
            self._transport.abort()
            self._listener.lost(self._transport)
        metrics.CONNECTIONS_ENDED.labels(why).inc()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The handshake is over; who asks does so now."""
        self._transport = cast("asyncio.Transport", transport)
        self.owes_since = self.quiet_since = self._listener.now()
        self._listener.opened(self, self._transport)
        self._inner.connection_made(transport)

    def data_received(self, data: bytes) -> None:
        """A part of a request; the rest of its head is owed from the first one on."""
        if self.requests == 0 and self.owes_since is None:
            self.owes_since = self._listener.now()
        self._inner.data_received(data)

    def eof_received(self) -> bool | None:
        """The peer has nothing more to say."""
        return self._inner.eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        """It is over."""
        if self._transport is not None:
            self._listener.lost(self._transport)
        self._inner.connection_lost(exc)

    def pause_writing(self) -> None:
        """The peer does not read what it asked for."""
        self.owes_since = self._listener.now()
        self._inner.pause_writing()

    def resume_writing(self) -> None:
        """The peer has read."""
        self.owes_since = None
        self._inner.resume_writing()
