r"""A TLS proxy before an API server that sees every request and watch line, and breaks them.

It runs in its user's event loop. Each request is an `Exchange` in `trace`, in the order
of arrival; `writes` are those that could change something. Faults are rules: a predicate over
exchanges and what to do with those that match, some number of times.

    proxy.fail(writes_to("configmaps"), 409, times=1)        an answer of the proxy's own
    proxy.reset(writes_to("configmaps"), "after", times=1)   committed, but the answer is lost
    proxy.delay(lists_of("configmaps"), 2.0)
    proxy.freeze()                                           half-open: sockets stay, nothing comes
    proxy.cut()                                              ends the streams that are open
    held = proxy.hold(lambda e: e.name == "x")               lines of a watch, until held.release()
    proxy.inject(b"garbage\n")                               into the streams that are open
    proxy.on_write(3, "before", hook)                        e.g. kill a process at its third write

Credentials pass through: clients use tokens. To end, `close`.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Self

import aiohttp
import orjson
from aiohttp import web
from yarl import URL

from controllers.runtime.client import Answer
from controllers.runtime.connections import ENDING

if TYPE_CHECKING:
    from reliability.kit.apiserver import Server

When = Literal["before", "after"]
HOP = {"connection", "keep-alive", "transfer-encoding", "upgrade", "host", "content-length"}
REASONS = {
    404: "NotFound",
    409: "Conflict",
    410: "Expired",
    422: "Invalid",
    429: "TooManyRequests",
    503: "ServiceUnavailable",
}
ENDED = object()


@dataclass(eq=False)
class Exchange:
    """One request and what became of it."""

    method: str
    path: str
    query: dict[str, str]
    body: bytes
    agent: str
    at: float
    content_type: str = ""
    resource: str = ""
    namespace: str | None = None
    name: str | None = None
    subresource: str | None = None
    status: int | None = None
    """The API server's answer, or the proxy's; None while there is none."""
    write: int | None = None
    """Its number among the writes, from 1."""
    lines: list[bytes] = field(default_factory=list)
    """Lines of a watch that were passed on, where `keep_lines`."""
    frozen: bool = False
    queue: asyncio.Queue[Any] = field(default_factory=asyncio.Queue)

    @property
    def verb(self) -> str:
        """As RBAC calls it, but `apply` apart from `patch`."""
        if self.method == "GET":
            return "get" if self.name else "watch" if self.query.get("watch") in ("1", "true") else "list"
        if self.method == "PATCH":
            return "apply" if "apply-patch" in self.content_type else "patch"
        return {"POST": "create", "PUT": "update", "DELETE": "delete"}[self.method]

    def __repr__(self) -> str:
        place = "/".join(filter(None, (self.resource, self.namespace, self.name, self.subresource)))
        return f"<{self.agent} {self.verb} {place} {self.status}>"


@dataclass(frozen=True)
class Event:
    """One line of a watch."""

    type: str
    kind: str
    namespace: str | None
    name: str
    line: bytes


Match = Callable[[Exchange], bool]


def anything(_: Exchange) -> bool:
    """Match every exchange."""
    return True


def writes_to(resource: str, name: str | None = None) -> Match:
    """Match writes to a kind, or to one object of it."""
    return lambda e: e.method != "GET" and e.resource == resource and name in (None, e.name)


def reads_of(resource: str, *verbs: str) -> Match:
    """Match `get`, `list` or `watch` of a kind; all three by default."""
    return lambda e: e.resource == resource and e.verb in (verbs or ("get", "list", "watch"))


@dataclass(eq=False)
class Rule:
    """A fault and how often it is left."""

    match: Match
    act: Callable[[Exchange, When], Awaitable[web.StreamResponse | None]]
    left: int | None
    hits: int = 0

    def takes(self, exchange: Exchange) -> bool:
        """Whether it applies now; counts."""
        if self.left == 0 or not self.match(exchange):
            return False
        self.left = None if self.left is None else self.left - 1
        self.hits += 1
        return True


@dataclass(eq=False)
class Held:
    """Lines that are kept back (or dropped)."""

    match: Callable[[Event], bool]
    drop: bool
    lines: list[tuple[Exchange, bytes]] = field(default_factory=list)
    active: bool = True

    def release(self) -> None:
        """Pass on what was kept, in order, to the streams that are still open, and stop keeping."""
        self.active = False
        for exchange, line in self.lines:
            exchange.queue.put_nowait(line)
        self.lines.clear()


class Reset(Exception):
    """The client's connection was reset."""


class FaultProxy:
    """See the module's text."""

    def __init__(self, server: Server, *, keep_lines: bool = False) -> None:
        self._server, self.keep_lines = server, keep_lines
        self.trace: list[Exchange] = []
        self.url = ""
        self._port = 0
        self._rules: dict[When, list[Rule]] = {"before": [], "after": []}
        self._held: list[Held] = []
        self._open: set[Exchange] = set()
        self._transports: set[asyncio.Transport] = set()
        self._writes = 0
        self._runner: web.ServerRunner | None = None
        self._session: aiohttp.ClientSession | None = None

    # --- life -----------------------------------------------------------------------

    async def start(self) -> Self:
        """Listen on a free port of loopback."""
        connector = aiohttp.TCPConnector(ssl=self._server.trust(), limit=0, **ENDING)
        self._session = aiohttp.ClientSession(
            connector=connector,
            auto_decompress=False,
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=5),
            response_class=Answer,
        )
        await self.up()
        return self

    async def up(self) -> None:
        """Listen (again, on the same port)."""
        quiet = logging.getLogger("faultproxy")
        quiet.disabled = True  # its errors are the point
        server = web.Server(self._handle, handler_cancellation=True, access_log=None, logger=quiet)
        self._runner = web.ServerRunner(server, shutdown_timeout=0.1)
        await self._runner.setup()
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(*map(str, self._server.server_files))
        await web.TCPSite(self._runner, "127.0.0.1", self._port, ssl_context=context, reuse_address=True).start()
        self._port = self._runner.addresses[0][1]
        self.url = f"https://127.0.0.1:{self._port}"

    async def down(self) -> None:
        """Refuse connections and reset those that are open, as a dead machine does."""
        if self._runner is not None:
            for transport in list(self._transports):
                transport.abort()
            for exchange in list(self._open):
                exchange.queue.put_nowait(ENDED)
            await self._runner.cleanup()
            self._runner = None

    async def close(self) -> None:
        """End everything."""
        await self.down()
        if self._session is not None:
            await self._session.close()

    # --- what was seen ----------------------------------------------------------------

    @property
    def writes(self) -> list[Exchange]:
        """Requests that could change something other than leases and events."""
        return [e for e in self.trace if e.write is not None]

    def seen(self, match: Match) -> list[Exchange]:
        """Matching requests, in order."""
        return [e for e in self.trace if match(e)]

    def streams(self, match: Match = anything) -> list[Exchange]:
        """Watches that are open now and get lines."""
        return [e for e in self._open if match(e) and not e.frozen]

    # --- faults -------------------------------------------------------------------------

    def fail(
        self,
        match: Match,
        status: int,
        when: When = "before",
        *,
        times: int | None = None,
        retry_after: int | None = None,
        plain: str | None = None,
    ) -> Rule:
        """Answer in place of the API server; "after": it has carried the request out, and its answer is kept back.

        `plain`: the answer as a text, as it is where the API server sheds load, in place of a Status.
        """
        reason = REASONS.get(status, "InternalError")
        body = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": status, "reason": reason}
        text = orjson.dumps(body | {"message": f"{status} by the fault proxy"}) if plain is None else plain.encode()
        headers = {"Retry-After": str(retry_after)} if retry_after is not None else None

        async def act(_: Exchange, __: When) -> web.StreamResponse:
            return web.Response(status=status, body=text, headers=headers, content_type="application/json")

        return self._rule(when, match, act, times)

    def answer(self, match: Match, body: bytes, *, times: int | None = None) -> Rule:
        """Answer 200 with a body in place of the API server."""

        async def act(_: Exchange, __: When) -> web.StreamResponse:
            return web.Response(body=body, content_type="application/json")

        return self._rule("before", match, act, times)

    def reset(self, match: Match, when: When = "before", *, times: int | None = None) -> Rule:
        """Reset the connection before the request is passed on, or after it was carried out."""

        async def act(_: Exchange, __: When) -> web.StreamResponse | None:
            raise Reset

        return self._rule(when, match, act, times)

    def delay(self, match: Match, seconds: float, when: When = "before", *, times: int | None = None) -> Rule:
        """Pass on, or answer, later."""

        async def act(_: Exchange, __: When) -> None:
            await asyncio.sleep(seconds)

        return self._rule(when, match, act, times)

    def gate(self, match: Match, when: When = "before", *, times: int | None = None) -> asyncio.Event:
        """Keep requests waiting until the event is set."""
        opened = asyncio.Event()

        async def act(_: Exchange, __: When) -> None:
            await opened.wait()

        self._rule(when, match, act, times)
        return opened

    def on_write(self, number: int, when: When, hook: Callable[[Exchange], Awaitable[None] | None]) -> Rule:
        """Call a hook before the n-th write is passed on, or after it was carried out and is not yet answered."""

        async def act(exchange: Exchange, _: When) -> None:
            if (waiting := hook(exchange)) is not None:
                await waiting

        return self._rule(when, lambda e: e.write == number, act, 1)

    def heal(self) -> None:
        """Take all rules away; streams that are frozen stay so."""
        for rules in self._rules.values():
            rules.clear()
        for held in self._held:
            held.release()
        self._held.clear()

    def freeze(self, match: Match = anything) -> None:
        """Half-open: the sockets of the streams that are open stay, and nothing comes any more."""
        for exchange in self._open:
            exchange.frozen = exchange.frozen or match(exchange)

    def cut(self, match: Match = anything, *, reset: bool = False) -> int:
        """End the streams that are open, in order or by a reset; returns how many."""
        cut = self.streams(match)
        for exchange in cut:
            exchange.queue.put_nowait(Reset() if reset else ENDED)
        return len(cut)

    def inject(self, line: bytes, match: Match = anything) -> None:
        """Put bytes into the streams that are open."""
        for exchange in self.streams(match):
            exchange.queue.put_nowait(line)

    def hold(self, match: Callable[[Event], bool], *, drop: bool = False) -> Held:
        """Keep matching lines of watches back, or drop them; bookmarks have no name."""
        held = Held(match, drop)
        self._held.append(held)
        return held

    def _rule(
        self,
        when: When,
        match: Match,
        act: Callable[[Exchange, When], Awaitable[web.StreamResponse | None]],
        times: int | None,
    ) -> Rule:
        rule = Rule(match, act, times)
        self._rules[when].append(rule)
        return rule

    # --- passing on -----------------------------------------------------------------------

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        exchange = _exchange(request, await request.read())
        if exchange.method != "GET" and exchange.resource not in ("leases", "events"):
            self._writes += 1
            exchange.write = self._writes
        self.trace.append(exchange)
        transport = request.transport
        assert isinstance(transport, asyncio.Transport)
        self._transports.add(transport)
        try:
            return await self._pass_on(request, exchange)
        except (Reset, aiohttp.ClientError, OSError):
            transport.abort()
            raise
        finally:
            if transport.is_closing():
                self._transports.discard(transport)

    async def _pass_on(self, request: web.BaseRequest, exchange: Exchange) -> web.StreamResponse:
        if (answer := await self._apply("before", exchange)) is not None:
            exchange.status = answer.status
            return answer
        assert self._session is not None
        headers = {k: v for k, v in request.headers.items() if k.lower() not in HOP}
        url = URL(self._server.url + request.raw_path, encoded=True)
        sending = self._session.request(exchange.method, url, data=exchange.body or None, headers=headers)
        async with sending as upstream:
            exchange.status = upstream.status
            passed = {k: v for k, v in upstream.headers.items() if k.lower() not in HOP}
            if exchange.verb == "watch" and upstream.status == 200:
                return await self._stream(request, exchange, upstream, passed)
            body = await upstream.read()
        if (answer := await self._apply("after", exchange)) is not None:
            return answer
        return web.Response(status=upstream.status, body=body, headers=passed)

    async def _apply(self, when: When, exchange: Exchange) -> web.StreamResponse | None:
        for rule in list(self._rules[when]):
            if rule.takes(exchange) and (answer := await rule.act(exchange, when)) is not None:
                return answer
        return None

    async def _stream(
        self, request: web.BaseRequest, exchange: Exchange, upstream: aiohttp.ClientResponse, headers: dict[str, str]
    ) -> web.StreamResponse:
        response = web.StreamResponse(headers=headers)
        response.enable_chunked_encoding()
        await response.prepare(request)
        reading = asyncio.create_task(self._read(exchange, upstream))
        self._open.add(exchange)
        try:
            while (line := await exchange.queue.get()) is not ENDED:
                if isinstance(line, Exception):
                    raise line
                if not exchange.frozen:
                    if self.keep_lines:
                        exchange.lines.append(line)
                    await response.write(line)
            await response.write_eof()
        finally:
            self._open.discard(exchange)
            reading.cancel()
            with suppress(asyncio.CancelledError):
                await reading
        return response

    async def _read(self, exchange: Exchange, upstream: aiohttp.ClientResponse) -> None:
        rest = b""
        try:
            async for piece in upstream.content.iter_any():
                *lines, rest = (rest + piece).split(b"\n")
                for line in lines:
                    if not self._keep(exchange, line + b"\n"):
                        exchange.queue.put_nowait(line + b"\n")
            exchange.queue.put_nowait(ENDED)
        except (aiohttp.ClientError, OSError):
            exchange.queue.put_nowait(Reset())

    def _keep(self, exchange: Exchange, line: bytes) -> bool:
        """Whether a line is held or dropped; a frozen stream loses it."""
        holds = [held for held in self._held if held.active]
        if not holds:
            return False
        event = _event(line)
        for held in holds:
            if held.match(event):
                if not held.drop:
                    held.lines.append((exchange, line))
                return True
        return False


def _exchange(request: web.BaseRequest, body: bytes) -> Exchange:
    exchange = Exchange(
        method=request.method,
        path=request.path,
        query=dict(request.query),
        body=body,
        agent=request.headers.get("User-Agent", ""),
        at=time.monotonic(),
        content_type=request.headers.get("Content-Type", ""),
    )
    parts = request.path.strip("/").split("/")
    parts = parts[2:] if parts[0] == "api" else parts[3:]
    if parts[:1] == ["namespaces"] and len(parts) > 2:
        exchange.namespace, parts = parts[1], parts[2:]
    exchange.resource, exchange.name, exchange.subresource = (*parts, None, None, None)[:3]  # type: ignore[assignment]
    exchange.resource = exchange.resource or ""
    return exchange


def _event(line: bytes) -> Event:
    event = orjson.loads(line)
    obj = event.get("object") or {}
    meta = obj.get("metadata") or {}
    return Event(event["type"], obj.get("kind", ""), meta.get("namespace"), meta.get("name", ""), line)
