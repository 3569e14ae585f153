"""Accepts TLS connections with limits, so that clients that send nothing, or little, hold little memory.

The port is open to the pods' network, and a connection costs memory. Clients are not authenticated before their first
request. Each step has a time limit (`STEP_TIMEOUT`): a handshake, a request until its last byte, the reading of an
answer. Each connection state has a maximum number: in a handshake, without a request yet, idle between two requests.
Above the maximum, the oldest connection in that state is closed, never the newest: an API server, or Prometheus, sends
its request at once, also over a new connection after an old one was closed. A connection that sends no request is
closed by that maximum, or by the server behind (`KEEPALIVE`). Clients whose request was refused count apart:
unauthenticated connections never close authenticated ones. A handshake is not closed before `GRACE`: a flood makes
newcomers wait in the system's queue, and does not end those that are about to send a request. A connection is not
closed while its request is being answered. A port whose readers come seldom also limits the rate of handshakes
(`handshakes`).

Lives as long as the port is open, in the process's event loop.
"""

from __future__ import annotations

import asyncio
import socket
from asyncio.sslproto import SSLProtocol
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, NamedTuple, cast

import structlog

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable, Iterator

    from prometheus_client import Counter

    from controllers.runtime.handshakes import Handshakes

log = structlog.get_logger()
STEP_TIMEOUT: Final = 3.0
"""Seconds for a handshake, for a request until its last byte, and for the reading of an answer."""
KEEPALIVE: Final = 180.0
"""Seconds, for the server behind; longer than the 90 s for which Go keeps an idle connection, ever used or not: the
side that asks has to close it. Where we do, just as the API server writes a review, it refuses the pod."""
GRACE: Final = 0.5
"""Seconds."""
BACKLOG: Final = 1024
SWEEP: Final = 0.5
"""Seconds between two looks at all connections; each is ended so much later at most."""
READ_BUFFER: Final = 64 << 10
"""Bytes; asyncio takes a quarter of a megabyte for each connection over TLS."""
WRITE_BUFFER: Final = 64 << 10
"""Bytes of answers that are not read, beyond which the time to read them runs."""
OUT_OF_FILES: Final = 0.1
"""Seconds until it is tried again to take one in where the system would not have it."""


REJECTED_BEFORE_YIELD: Final = 10
"""So many connections that come too often are closed at once, before this program's other work has its time:"""
YIELD_TIME: Final = 0.01
"""seconds of it, so that a flood takes a small part of a core."""


class ConnectionLimits(NamedTuple):
    """How many connections there may be in each state."""

    handshaking: int
    awaiting_request: int
    """That have sent no request yet."""
    idle: int
    """Between two requests; as many again whose request was refused, and who have yet to read so."""


class Listener:
    """The port, and the connections that have come by it."""

    def __init__(
        self,
        serve: Callable[[], asyncio.Protocol],
        limits: ConnectionLimits,
        ended: Counter,
        handshakes: Handshakes | None = None,
    ) -> None:
        """Prepare; `serve` makes the protocol that answers on a connection, `ended` counts what we end, by why.

        `handshakes`: who may shake hands how often; anybody where it is None.
        """
        self._serve, self._limits, self.ended, self._rate = serve, limits, ended, handshakes
        self._loop = asyncio.get_running_loop()
        self._handshakes: dict[Connection, asyncio.Task[None]] = {}
        self._open: dict[asyncio.BaseTransport, Connection] = {}
        self._awaiting_request: dict[Connection, None] = {}
        self._idle: dict[Connection, None] = {}
        self._dismissed: dict[Connection, None] = {}
        self._sockets: list[socket.socket] = []
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self, host: str, port: int, tls: ssl.SSLContext) -> int:
        """Listen; returns the port. Raises OSError where it cannot be had."""
        SSLProtocol.max_size = READ_BUFFER  # of the whole process: nobody has so many connections but such ports
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

    @property
    def listening(self) -> bool:
        """Whether it takes connections in."""
        return bool(self._tasks) and not any(task.done() for task in self._tasks)

    async def until_over(self) -> None:
        """Wait until it takes nobody in any more, and raise why; for ever where all is well."""
        done, _ = await asyncio.wait(self._tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()

    async def stop(self) -> None:
        """Take nobody in any more; connections that are open stay."""
        for task in (going := [*self._tasks, *self._handshakes.values()]):
            task.cancel()
        await asyncio.gather(*going, return_exceptions=True)
        self._close_sockets()

    @contextmanager
    def answering(self, transport: asyncio.BaseTransport | None) -> Iterator[None]:
        """While a request of that connection, which has come whole, is answered."""
        connection = self._open.get(transport) if transport is not None else None
        if connection is None:
            yield
            return
        self._forget(connection)
        connection.owes_since, connection.is_answered = None, True
        try:
            yield
        finally:
            connection.is_answered = False
            if transport in self._open:
                self._keep(connection)

    def dismiss(self, transport: asyncio.BaseTransport | None) -> None:
        """What is answered now is the last on that connection, whose peer is no more than a stranger."""
        if transport is not None and (connection := self._open.get(transport)) is not None:
            connection.is_dismissed = True

    def opened(self, connection: Connection, transport: asyncio.Transport) -> None:
        """A handshake is over."""
        self._handshakes.pop(connection, None)
        if len(self._awaiting_request) >= self._limits.awaiting_request:
            next(iter(self._awaiting_request)).end("crowded")
        self._open[transport] = connection
        self._awaiting_request[connection] = None

    def lost(self, connection: Connection, transport: asyncio.BaseTransport) -> None:
        """A connection is over."""
        self._open.pop(transport, None)
        self._forget(connection)

    def begins(self, connection: Connection) -> None:
        """A request's first bytes have come: where the connection was kept, it is no longer the longest quiet."""
        connection.owes_since = self._loop.time()
        if connection in self._idle:
            self._idle[connection] = self._idle.pop(connection)

    def pauses(self, connection: Connection) -> None:
        """Its peer does not read."""
        connection.owes_since = self._loop.time()

    def _keep(self, connection: Connection) -> None:
        idle = self._dismissed if connection.is_dismissed else self._idle
        if len(idle) >= self._limits.idle:
            next(iter(idle)).end("crowded")
        idle[connection] = None
        if connection.is_dismissed:
            connection.owes_since = self._loop.time()  # to read its answer, and to go

    def _forget(self, connection: Connection) -> None:
        self._awaiting_request.pop(connection, None)
        self._idle.pop(connection, None)
        self._dismissed.pop(connection, None)

    async def _take_in(self, listening: socket.socket, tls: ssl.SSLContext) -> None:
        rejected = 0
        while True:
            try:
                peer, address = await self._loop.sock_accept(listening)
            except OSError as error:
                log.warning("cannot take a connection in", error=str(error))
                await asyncio.sleep(OUT_OF_FILES)
                continue
            if self._rate is not None and not self._rate.allows(address[0], self._loop.time()):
                peer.close()
                self.ended.labels("often").inc()
                rejected += 1
                await asyncio.sleep(0 if rejected % REJECTED_BEFORE_YIELD else YIELD_TIME)
                continue
            try:
                await self._close_oldest_handshakes()
            except BaseException:
                peer.close()
                raise
            connection = Connection(self._serve(), self, self._loop.time())
            task = asyncio.create_task(self._shake_hands(connection, peer, tls))
            self._handshakes[connection] = task
            await asyncio.sleep(0)  # let it begin: a task that is cancelled before never closes its socket

    async def _close_oldest_handshakes(self) -> None:
        """Wait until one more may shake hands; the oldest gives way when it has had its time."""
        while len(self._handshakes) >= self._limits.handshaking:
            oldest = next(iter(self._handshakes))
            if (rest := oldest.since + GRACE - self._loop.time()) > 0:
                await asyncio.sleep(rest)
            elif (task := self._handshakes.pop(oldest, None)) is not None:
                task.cancel()
                self.ended.labels("crowded").inc()

    async def _shake_hands(self, connection: Connection, peer: socket.socket, tls: ssl.SSLContext) -> None:
        peer.setblocking(False)
        try:
            await self._loop.connect_accepted_socket(
                lambda: connection,
                peer,
                ssl=tls,
                ssl_handshake_timeout=STEP_TIMEOUT,
                ssl_shutdown_timeout=2 * STEP_TIMEOUT,
            )
        except OSError as error:  # also a TimeoutError, and what OpenSSL says
            self.ended.labels("handshake").inc()
            log.debug("no handshake", error=str(error))
        finally:
            self._handshakes.pop(connection, None)

    async def _look(self) -> None:
        """End those that owe something for too long."""
        while True:
            await asyncio.sleep(SWEEP)
            since = self._loop.time() - STEP_TIMEOUT
            for each in [c for c in self._open.values() if c.owes_since is not None and c.owes_since < since]:
                each.end("silent")

    def _close_sockets(self) -> None:
        for each in self._sockets:
            each.close()
        self._sockets.clear()


class Connection(asyncio.Protocol):
    """One connection: passes everything on, and remembers since when its peer owes something."""

    def __init__(self, inner: asyncio.Protocol, listener: Listener, since: float) -> None:
        """Prepare; `inner` serves it. `since`: when it was taken in, in the event loop's time, as all times here."""
        self._inner, self._listener = inner, listener
        self._transport: asyncio.Transport | None = None
        self.since = since
        self.is_answered = False
        """Whether a request of it is in hand."""
        self.is_dismissed = False
        """Whether it ends with its answer."""
        self.owes_since: float | None = None
        """From when on its peer owes the rest of a request, or to read an answer; None while it owes nothing."""

    def end(self, why: str) -> None:
        """End it without a farewell, which would have to be waited for."""
        if self._transport is not None:
            self._listener.lost(self, self._transport)
            self._transport.abort()
        self._listener.ended.labels(why).inc()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The handshake is over; who asks does so now."""
        self._transport = cast("asyncio.Transport", transport)
        self._transport.set_write_buffer_limits(WRITE_BUFFER)
        self._listener.opened(self, self._transport)
        self._inner.connection_made(transport)

    def data_received(self, data: bytes) -> None:
        """A part of a request; the rest is owed from the first one on."""
        if not self.is_answered and self.owes_since is None:
            self._listener.begins(self)
        self._inner.data_received(data)

    def eof_received(self) -> bool | None:
        """The peer has nothing more to say."""
        return self._inner.eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        """It is over."""
        if self._transport is not None:
            self._listener.lost(self, self._transport)
        self._inner.connection_lost(exc)

    def pause_writing(self) -> None:
        """The peer does not read what it asked for."""
        self._listener.pauses(self)
        self._inner.pause_writing()

    def resume_writing(self) -> None:
        """The peer has read."""
        self.owes_since = None
        self._inner.resume_writing()
