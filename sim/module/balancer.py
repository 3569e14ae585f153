"""A small TCP balancer: what a Service is to the webhook's replicas, where Services are not routed.

It passes connections, not requests: TLS ends in the replica. A new connection goes to the next ready replica in turn,
and to the one after where it cannot be made. Readiness is what the replica's /readyz says. One that answers that it is
not ready, as while it drains, gets no new connections and keeps those that it has; one that does not answer any more
loses them too, so that its peers ask again, and reach another.

Lives in one event loop. `Backend.hold` is a fault for tests: nothing travels to or from a replica, and nothing says so.
"""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal

import aiohttp

if TYPE_CHECKING:
    from collections.abc import Sequence

HOST: Final = "127.0.0.1"
CONNECT_SECONDS: Final = 1.0
BACKLOG: Final = 1024
OK: Final = 200


@dataclass(frozen=True, slots=True)
class Probing:
    """How /readyz is asked for; times in seconds."""

    period: float = 1.0
    timeout: float = 3.0
    misses: int = 3
    """So many times in a row without an answer mean that nobody is there; one that is only busy must not be cut off."""


class _Side(asyncio.Protocol):
    """One end of a passed connection; what it reads the other end writes."""

    transport: asyncio.Transport
    other: _Side | None = None
    full = held = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)  # noqa: S101 - of a TCP connection it is
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        if self.other is not None:
            self.other.transport.write(data)

    def connection_lost(self, _: Exception | None) -> None:
        if self.other is not None:
            self.other.transport.close()

    def pause_writing(self) -> None:
        self.full = True
        self.settle()

    def resume_writing(self) -> None:
        self.full = False
        self.settle()

    def settle(self) -> None:
        """Read from the other end only while this one takes what it brings, and nobody holds it."""
        if self.other is None or self.other.transport.is_closing():
            return
        if self.full or self.held:
            self.other.transport.pause_reading()
        else:
            self.other.transport.resume_reading()


class _Arrival(_Side):
    """A connection that somebody opened to the balancer; it reads nothing before it has another end."""

    def __init__(self, balancer: Balancer) -> None:
        self._balancer = balancer

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self.transport.pause_reading()
        self._balancer.arrived(self)


@dataclass(eq=False)
class Backend:
    """A replica."""

    port: int
    ready_url: str = ""
    """Asked for readiness; always ready without."""
    state: Literal["ready", "not ready", "gone"] = "not ready"
    held: bool = False
    sides: set[_Side] = field(default_factory=set)
    """Connections to it, the ends there."""

    def hold(self, *, hold: bool = True) -> None:
        """Let nothing through, in either direction, until it is taken back."""
        self.held = hold
        for side in self.sides:
            for end in (side, side.other):
                if end is not None:
                    end.held = hold
                    end.settle()

    def cut(self) -> None:
        """End every connection at once."""
        for side in list(self.sides):
            side.transport.abort()


class _Passage(_Side):
    """A connection to a replica."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._backend.sides.add(self)

    def connection_lost(self, error: Exception | None) -> None:
        self._backend.sides.discard(self)
        super().connection_lost(error)


class Balancer:
    """Passes connections on one port to replicas."""

    def __init__(self, backends: Sequence[Backend], probing: Probing | None = None) -> None:
        """Prepare; `start` listens."""
        self._probing = probing or Probing()
        self._backends: list[Backend] = []
        self._initial = list(backends)
        self._server: asyncio.Server | None = None
        self._tasks: dict[Any, asyncio.Task[None]] = {}
        self._turn = 0

    @property
    def ready(self) -> list[Backend]:
        """Replicas that get new connections."""
        return [backend for backend in self._backends if backend.state == "ready"]

    async def start(self, port: int = 0) -> int:
        """Listen; returns the port (the system chooses for 0)."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: _Arrival(self), HOST, port, backlog=BACKLOG)
        for backend in self._initial:
            self.add(backend)
        return int(self._server.sockets[0].getsockname()[1])

    async def stop(self) -> None:
        """Let go of everything."""
        if self._server is not None:
            self._server.close()
        for backend in self._backends:
            backend.cut()
        for task in (tasks := list(self._tasks.values())):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def add(self, backend: Backend) -> None:
        """Pass connections to one more replica."""
        self._backends.append(backend)
        if backend.ready_url:
            self._spawn(backend, self._probe(backend))
        else:
            backend.state = "ready"

    def remove(self, backend: Backend) -> None:
        """Pass it no new connections; those that it has go on."""
        self._backends.remove(backend)
        if (task := self._tasks.get(backend)) is not None:
            task.cancel()

    def arrived(self, side: _Arrival) -> None:
        """Find another end for a connection."""
        self._spawn(side, self._pass_on(side))

    def _spawn(self, key: object, work: Any) -> None:
        self._tasks[key] = task = asyncio.get_running_loop().create_task(work)
        task.add_done_callback(lambda _: self._tasks.pop(key, None))

    async def _pass_on(self, side: _Arrival) -> None:
        """Connect to the next ready replica that takes it; where none does, end the connection."""
        ready, self._turn = self.ready, self._turn + 1
        for step in range(len(ready)):
            backend = ready[(self._turn + step) % len(ready)]
            with contextlib.suppress(OSError):  # TimeoutError is one
                there = await self._connect(backend)
                there.other, side.other = side, there
                if side.transport.is_closing():
                    there.transport.abort()
                side.settle()
                there.settle()
                return
        side.transport.close()

    async def _connect(self, backend: Backend) -> _Passage:
        if backend.held:
            await asyncio.sleep(CONNECT_SECONDS)
            raise TimeoutError
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(CONNECT_SECONDS):
            _, there = await loop.create_connection(lambda: _Passage(backend), HOST, backend.port)
        return there

    async def _probe(self, backend: Backend) -> None:
        """Follow what /readyz says, for ever."""
        missed = 0
        while True:
            status = await self._ask(backend)
            missed = missed + 1 if status is None else 0
            if status is not None:
                backend.state = "ready" if status == OK else "not ready"
            elif missed >= self._probing.misses:
                if backend.state != "gone":
                    backend.cut()
                backend.state = "gone"
            await asyncio.sleep(self._probing.period)

    async def _ask(self, backend: Backend) -> int | None:
        """The status of one answer; None where there was none."""
        if backend.held:
            await asyncio.sleep(self._probing.timeout)
            return None
        timeout = aiohttp.ClientTimeout(total=self._probing.timeout)
        try:
            async with aiohttp.ClientSession(timeout=timeout) as session, session.get(backend.ready_url) as answer:
                return answer.status
        except (aiohttp.ClientError, OSError):
            return None
