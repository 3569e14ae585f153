"""The fault proxy before one process of the module: numbers its writes and reads, and bends what it watches."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import orjson

from tests.tools.faultproxy import FaultProxy, _event

if TYPE_CHECKING:
    from collections.abc import Callable

    from aiohttp import web

    from tests.tools.apiserver import Server
    from tests.tools.faultproxy import Event, Exchange, When

ASIDE = {"leases", "events", "tokenreviews", "subjectaccessreviews", "selfsubjectaccessreviews"}
"""Requests to these change nothing that the module is about."""
EXPIRED = b'{"type":"ERROR","object":{"kind":"Status","status":"Failure","code":410,"reason":"Expired"}}\n'
BODY_MAX = 100_000


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


class Tap(FaultProxy):
    """See the module's text. `process` is its short name."""

    def __init__(self, server: Server, process: str) -> None:
        super().__init__(_Upstream(server))  # type: ignore[arg-type]
        self.process = process
        self.number = self.reads = 0
        self.bend: Callable[[Exchange, Event, bytes], bool] | None = None
        """Called with each line of a watch; True where it has dealt with it."""
        self.seen_events: Counter[str] = Counter()
        self.marks: list[float] = []
        """When the process was ended, or woke up again, monotonic."""
        self.kills: list[float] = []
        self._opened: WeakKeyDictionary[Any, float] = WeakKeyDictionary()
        self.other = ""
        """Another server's URL, from which watches come."""
        self.wrote_at = 0.0
        """When it last tried to change something, monotonic."""

    def begin(self) -> None:
        """Forget what was seen, and every fault."""
        self.heal()
        self.trace.clear()
        self.number = self.reads = 0
        self.bend, self.other = None, ""
        self.seen_events.clear()
        self.marks.clear()
        self.kills.clear()

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

    def sent(self) -> list[Sent]:
        """Writes, and what was done to leases, in the order of arrival."""
        return [self._sent(e) for e in self.trace if e.method != "GET" and (e.write or e.resource == "leases")]

    def _sent(self, e: Exchange) -> Sent:
        name, body = e.name, orjson.loads(e.body) if 0 < len(e.body) < BODY_MAX else None
        if name is None and isinstance(body, dict):
            name = body.get("metadata", {}).get("name")
        orphan = any(getattr(e, "opened", e.at) <= killed < e.at for killed in self.kills)
        return Sent(self.process, e.verb, e.resource, e.namespace, name, e.subresource, e.at, e.status, body, orphan)

    async def _pass_on(self, request: web.BaseRequest, exchange: Exchange) -> web.StreamResponse:
        exchange.opened = self._opened.setdefault(request.transport, exchange.at)  # type: ignore[attr-defined]
        chosen = self.other if exchange.verb == "watch" and exchange.resource not in ASIDE else ""
        token = _URL.set(chosen)
        try:
            return await super()._pass_on(request, exchange)
        finally:
            _URL.reset(token)

    async def _apply(self, when: When, exchange: Exchange) -> web.StreamResponse | None:
        if when == "before":
            exchange.write = None
            if exchange.method != "GET" and exchange.resource not in ASIDE:
                self.number += 1
                exchange.write, self.wrote_at = self.number, exchange.at
            elif exchange.verb in ("get", "list") and exchange.resource not in ASIDE:
                self.reads += 1
                exchange.read = self.reads  # type: ignore[attr-defined]
        return await super()._apply(when, exchange)

    def _keep(self, exchange: Exchange, line: bytes) -> bool:
        event = _event(line)
        if event.name:
            self.seen_events[exchange.resource] += 1
            if self.bend is not None and self.bend(exchange, event, line):
                return True
        return super()._keep(exchange, line)
