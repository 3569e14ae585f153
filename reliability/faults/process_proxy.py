"""The fault proxy before one process of the module: names its requests and watch events, and alters them.

A request is spelled `verb:resource:namespace:name:subresource#n` (what it has of these; n-th alike, from 1), an event
`resource:TYPE:namespace:name#n`: who plans a fault names it so.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import orjson

from reliability.kit.fault_proxy import FaultProxy, _event

if TYPE_CHECKING:
    from collections.abc import Callable

    from aiohttp import web

    from reliability.kit.apiserver import Server
    from reliability.kit.fault_proxy import Event, Exchange, Match, Rule, When

ASIDE = {"leases", "events", "tokenreviews", "subjectaccessreviews", "selfsubjectaccessreviews"}
"""Requests to these change nothing that the module is about."""
EXPIRED = b'{"type":"ERROR","object":{"kind":"Status","status":"Failure","code":410,"reason":"Expired"}}\n'
BODY_MAX = 100_000
RESENT = 0.5
"""Seconds within which a client's library sends a request again by itself whose connection was reset."""
FORBIDDEN = 403
STARTING = 0.3
"""Seconds after a kill in which nothing comes from who follows: the supervisor waits for 0.2 s, and our imports take
longer than the rest. A connection that the proxy comes to within them had waited in its queue, and is the dead's."""


@dataclass(frozen=True)
class Sent:
    """A request of a process that could change something, or that is about its lease."""

    process: str
    verb: str
    resource: str
    namespace: str | None
    name: str | None
    subresource: str | None
    at: float
    """Arrival at the proxy, monotonic."""
    status: int | None
    """The answer; None where there was none."""
    body: Any = None
    orphan: bool = False
    """Sent by a process that was killed before it arrived: its connection is older than that."""
    replica: int = 1
    """Which of the processes of that name."""
    version: str = ""
    """Which the object had after it, where the answer tells."""

    @property
    def about(self) -> str:
        """Which object, and which part of it."""
        return "/".join(filter(None, (self.resource, self.namespace, self.name, self.subresource)))

    @property
    def landed(self) -> bool:
        """Whether the API server carried it out."""
        return self.status is not None and self.status < 300


_URL: ContextVar[str] = ContextVar("upstream", default="")


class _Upstream:
    """A server whose URL may be another's for one request."""

    def __init__(self, server: Server) -> None:
        self._server = server

    @property
    def url(self) -> str:
        return _URL.get() or self._server.url

    def __getattr__(self, name: str) -> Any:
        return getattr(self._server, name)


class ProcessProxy(FaultProxy):
    """See the module's text. `process` is its short name, `replica` which of those that bear it."""

    def __init__(self, server: Server, process: str, replica: int = 1) -> None:
        super().__init__(_Upstream(server))  # type: ignore[arg-type]
        self.process, self.replica = process, replica
        self.bend: Callable[[Exchange, Event, bytes, str], bool] | None = None
        """Called with each line of a watch and the event's spelling; True where it has dealt with it."""
        self.made: list[str] = []
        """Writes as they are spelled, in order."""
        self.read: list[str] = []
        self.heard: list[str] = []
        """Events, likewise."""
        self.seen_events: Counter[str] = Counter()
        """Events by kind."""
        self.lost = 0
        """Events that streams which are half-open did not pass on."""
        self.marks: list[float] = []
        """When the process was ended, or woke up again, monotonic."""
        self.kills: list[float] = []
        self._opened: WeakKeyDictionary[Any, float] = WeakKeyDictionary()
        self._known: Counter[str] = Counter()
        self.other = ""
        """Another server's URL, from which watches come."""
        self.other_reads = False
        """Whether gets and lists come from there, too."""
        self.wrote_at = 0.0
        """When it last tried to change something, monotonic."""

    def begin(self) -> None:
        """Forget what was seen, and every fault."""
        self.heal()
        for seen in (self.trace, self.made, self.read, self.heard, self.marks, self.kills):
            seen.clear()
        self.bend, self.other, self.other_reads, self.lost = None, "", False, 0
        self.seen_events.clear()
        self._known.clear()

    # --- faults -------------------------------------------------------------------------

    def lose(self, match: Match, when: When) -> None:
        """Reset the connection of one request, and that of its resend, which the client's library makes by itself.

        It sends what was to read, replace or delete once more where a connection that was used before ends: without
        this the process would never hear of the fault.
        """
        lost: list[tuple[Exchange, float]] = []

        def first(exchange: Exchange) -> bool:
            if found := match(exchange):
                lost.append((exchange, time.monotonic()))
            return found

        def again(exchange: Exchange) -> bool:
            return any(
                exchange is not one and time.monotonic() < at + RESENT and _same(exchange, one) for one, at in lost
            )

        self.reset(first, when, times=1)
        self.reset(again, "before", times=1)

    def on_request(self, spelling: str, when: When, hook: Callable[[Exchange], None]) -> Rule:
        """Call a hook before a request is passed on, or after it was carried out and is not yet answered."""

        async def act(exchange: Exchange, _: When) -> None:
            hook(exchange)

        return self._rule(when, lambda e: spelled(e) == spelling, act, 1)

    def expire(self, resource: str | None = None) -> int:
        """Tell open watches (of one kind) that their version is too old, so that all is listed anew."""
        chosen = self.streams(lambda e: resource in (None, e.resource))
        for exchange in chosen:
            exchange.queue.put_nowait(EXPIRED)
        return len(chosen)

    def relay(self, exchange: Exchange, line: bytes, after: float = 0.0) -> None:
        """Pass a line on, now or later."""
        if after:
            asyncio.get_running_loop().call_later(after, exchange.queue.put_nowait, line)
        else:
            exchange.queue.put_nowait(line)

    def is_open(self, exchange: Exchange) -> bool:
        """Whether a watch still gets lines."""
        return exchange in self._open

    # --- what was seen --------------------------------------------------------------------

    def sent(self) -> list[Sent]:
        """Writes, and what was done to leases, in the order of arrival."""
        return [self._sent(e) for e in self.trace if e.method != "GET" and (e.write or e.resource == "leases")]

    def forbidden(self, since: float) -> bool:
        """Whether it was told since then (monotonic) that it may not do something."""
        return any(e.status == FORBIDDEN and e.at > since for e in self.trace)

    def _sent(self, e: Exchange) -> Sent:
        opened = getattr(e, "opened", e.at) - STARTING
        orphan = any(opened <= killed < e.at for killed in self.kills)
        return Sent(
            self.process,
            e.verb,
            e.resource,
            e.namespace,
            _name(e),
            e.subresource,
            e.at,
            e.status,
            _body(e),
            orphan,
            self.replica,
            getattr(e, "version", ""),
        )

    def _number(self, spelling: str) -> str:
        self._known[spelling] += 1
        return f"{spelling}#{self._known[spelling]}"

    async def _pass_on(self, request: web.BaseRequest, exchange: Exchange) -> web.StreamResponse:
        exchange.opened = self._opened.setdefault(request.transport, exchange.at)  # type: ignore[attr-defined]
        self._spell(exchange)
        wanted = exchange.verb == "watch" or (self.other_reads and exchange.method == "GET")
        token = _URL.set(self.other if wanted and exchange.resource not in ASIDE else "")
        try:
            answer = await super()._pass_on(request, exchange)
            exchange.version = _version(exchange, answer)  # type: ignore[attr-defined]
            return answer
        finally:
            _URL.reset(token)

    def _spell(self, exchange: Exchange) -> None:
        """Name a write or a read, and count it."""
        exchange.write = None
        if exchange.resource in ASIDE or exchange.verb == "watch":
            return
        parts = (exchange.verb, exchange.resource, exchange.namespace, _name(exchange), exchange.subresource)
        spelling = self._number(":".join(filter(None, parts)))
        exchange.spelling = spelling  # type: ignore[attr-defined]
        if exchange.method == "GET":
            self.read.append(spelling)
        else:
            self.made.append(spelling)
            exchange.write, self.wrote_at = len(self.made), exchange.at

    def _keep(self, exchange: Exchange, line: bytes) -> bool:
        event = _event(line)
        spelling = ""
        if event.name:
            self.seen_events[exchange.resource] += 1
            self.lost += exchange.frozen
            parts = (exchange.resource, event.type, event.namespace, event.name)
            spelling = self._number(":".join(filter(None, parts)))
            self.heard.append(spelling)
        if self.bend is not None and self.bend(exchange, event, line, spelling):
            return True
        return super()._keep(exchange, line)


def spelled(exchange: Exchange) -> str:
    """A request's name; empty for those that are not counted."""
    return str(getattr(exchange, "spelling", ""))


def _same(one: Exchange, other: Exchange) -> bool:
    return (one.method, one.path, one.query, one.body) == (other.method, other.path, other.query, other.body)


def _body(e: Exchange) -> Any:
    return orjson.loads(e.body) if 0 < len(e.body) < BODY_MAX else None


def _version(e: Exchange, answer: web.StreamResponse) -> str:
    """The version that a write left its object with; empty where none is told."""
    body = getattr(answer, "body", None)
    if e.write is None or e.method == "DELETE" or answer.status >= 300 or not isinstance(body, bytes):
        return ""
    if "Content-Encoding" in answer.headers:
        return ""
    meta = orjson.loads(body).get("metadata") or {}
    if "deletionTimestamp" in meta and not meta.get("finalizers"):
        return ""  # the write that let it go: it is told as it was before
    return str(meta.get("resourceVersion", ""))


def _name(e: Exchange) -> str | None:
    """The object's name; of one that is created it is in the body."""
    if e.name is None and e.method == "POST" and isinstance(body := _body(e), dict):
        meta = body.get("metadata", {})
        return meta.get("name") or (f"{meta['generateName']}*" if "generateName" in meta else None)
    return e.name
