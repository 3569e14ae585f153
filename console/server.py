"""The console's HTTP side: `/api/…` for the page, and the page's own files.

| path | answer |
|---|---|
| POST /api/session | what follows `#token=` in the address, as a bearer token, becomes a cookie (loopback) |
| GET /api/me | {user, language, mode, mayConfirm, server} |
| GET /api/rows/<view>?… | {rows, order}, once |
| GET /api/events/<view>?… | Server-Sent Events (`stream`) |
| POST /api/confirm {cards: [{name, uid}], pool} | {results: [{card, ok, status?, message?}]} (`confirming`) |

Errors are {error: sentence} with a status: 401 nobody, 403 not allowed, 404 no such page, 429 too many pages are open
or too large ones were asked for, 503 nobody could be asked.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any, Final

import orjson
import structlog
from aiohttp import web

from console import confirming, files, stream
from console.access import OwnAccess, bearer
from console.budgets import Budgets, BudgetSpentError
from console.guard import answered, guard, refused
from console.hub import failure
from console.open_pages import OpenPages, TooManyPagesError
from console.viewers import NotAskedError, UnknownViewerError
from controllers.api.resources import GPUDEVICE
from controllers.runtime.errors import ConfigurationError

if TYPE_CHECKING:
    import ssl
    from collections.abc import Awaitable, Callable, Collection

    from console.access import Access
    from console.feed import Feed
    from console.hub import Hub, Params
    from console.rights import Rights
    from console.viewers import Viewer

log = structlog.get_logger()
BODY_MAX: Final = 128 << 10
"""Bytes of a body: names of a few hundred cards."""
VALUE_MAX: Final = 253
"""Characters of a parameter of a page."""
FILLING: Final = 20.0
"""Seconds for which a request waits for the first list."""
POLL: Final = 0.05
HTTP_PORT: Final = 80
LANGUAGES: Final = ("en", "ru")
AWAY: Final = "The console is still reading the cluster; come again."


class Server:
    """Serves one feed to its viewers."""

    def __init__(
        self, feed: Feed, hub: Hub, access: Access, *, hosts: Collection[str] = (), address_of: str = ""
    ) -> None:
        """`hosts`: what `Host` may be, set by `start` for loopback; `address_of`: the API server, to be named."""
        self._feed, self._hub, self._access, self._cluster = feed, hub, access, address_of
        self._hosts = {host.lower() for host in hosts}
        self._files = files.read()
        self._open_pages, self._budgets = OpenPages(), Budgets()
        self._runner: web.AppRunner | None = None
        self.port = 0

    def app(self) -> web.Application:
        """The routes."""
        app = web.Application(client_max_size=BODY_MAX, middlewares=[guard(self._hosts), _failing])
        app.on_response_prepare.append(answered)
        app.router.add_post("/api/session", self._session)
        app.router.add_get("/api/me", self._known(self._me))
        app.router.add_get("/api/rows/{view}", self._known(self._rows))
        app.router.add_get("/api/events/{view}", self._known(self._events))
        app.router.add_post("/api/confirm", self._known(self._confirm))
        app.router.add_route("*", "/api/{tail:.*}", _nothing)
        app.router.add_get("/{tail:.*}", self._file)
        return app

    async def start(self, host: str, port: int, *, tls: ssl.SSLContext | None = None, own_host: bool = False) -> None:
        """Listen; port 0 lets the system choose. `own_host`: only who names this address is answered."""
        # A handler ends with its connection: in a quiet cluster it would not write for hours, and not notice.
        self._runner = web.AppRunner(self.app(), access_log=None, shutdown_timeout=1.0, handler_cancellation=True)
        await self._runner.setup()
        try:
            await web.TCPSite(self._runner, host, port, ssl_context=tls).start()
        except OSError as error:
            msg = f"cannot listen on {host}:{port}: {error.strerror}. Give --port another port."
            raise ConfigurationError(msg) from error
        self.port = self._runner.addresses[0][1]
        if own_host:
            here = f"[{host}]" if ":" in host else host
            self._hosts |= {f"{name}:{self.port}" for name in (here, "localhost")}
            if self.port == HTTP_PORT:  # which browsers leave out
                self._hosts |= {here, "localhost"}

    async def stop(self) -> None:
        """End all connections."""
        if self._runner is not None:
            await self._runner.cleanup()

    def _known(
        self, handler: Callable[[web.Request, Viewer, Rights], Awaitable[web.StreamResponse]]
    ) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
        async def known(request: web.Request) -> web.StreamResponse:
            viewer = await self._access.viewer(request)
            await self._filled()
            return await handler(request, viewer, await self._access.rights(viewer))

        return known

    async def _filled(self) -> None:
        """Wait for the first list; raises NotAskedError."""
        deadline = time.monotonic() + FILLING
        while not self._feed.filled:  # reflectors say so by several ways
            if time.monotonic() > deadline:
                raise NotAskedError(self._feed.stale.reason if self._feed.stale else AWAY)
            await asyncio.sleep(POLL)

    async def _session(self, request: web.Request) -> web.Response:
        access = self._access
        response = web.Response(status=204, headers={"Cache-Control": "no-store"})
        if isinstance(access, OwnAccess):
            if not access.begins(bearer(request)):
                return refused(401, "That is not the secret of this console: open the address that it prints.")
            response.set_cookie(access.cookie, access.secret, httponly=True, samesite="Strict", path="/")
        return response

    async def _me(self, request: web.Request, viewer: Viewer, rights: Rights) -> web.Response:
        return _json(
            {
                "user": viewer.user,
                "language": _language(request.headers.get("Accept-Language", "")),
                "mode": self._access.mode,
                "mayConfirm": rights.confirms,
                "server": self._cluster,
            }
        )

    async def _rows(self, request: web.Request, viewer: Viewer, rights: Rights) -> web.Response:
        view, params = self._page(request)
        try:
            rows = await self._hub.rows(rights, view, params, self._budgets.of(viewer))
        except BudgetSpentError:
            raise
        except Exception as error:  # said as the stream says it
            log.exception("a page failed", view=view, params=dict(params))
            return refused(500, failure(error))
        return _json({"rows": rows, "order": list(rows)} | self._age())

    async def _events(self, request: web.Request, viewer: Viewer, rights: Rights) -> web.StreamResponse:
        page, budget = self._page(request), self._budgets.of(viewer)
        budget.check()
        with self._open_pages.opened(viewer):
            return await stream.serve(
                request, self._access, self._hub, self._feed, rights=rights, page=page, budget=budget
            )

    async def _confirm(self, request: web.Request, _: Viewer, rights: Rights) -> web.Response:
        try:
            wish = confirming.parsed(orjson.loads(await request.read()))
        except ValueError as error:  # what is no JSON, too
            return refused(400, str(error))
        sees = GPUDEVICE.kind in rights.kinds
        results = await confirming.confirm(wish, self._access.client(request), self._feed, sees_cards=sees)
        return _json({"results": results})

    async def _file(self, request: web.Request) -> web.Response:
        return files.serve(self._files, request)

    def _page(self, request: web.Request) -> tuple[str, Params]:
        """The page that is meant, with the parameters that it has; raises HTTPNotFound, HTTPBadRequest."""
        view = request.match_info["view"]
        if view not in self._hub.views:
            raise web.HTTPNotFound(reason=f"There is no page of that name; there are {', '.join(self._hub.views)}.")
        # Of others every address would be another page to compute, with the same rows.
        params = tuple((name, request.query.get(name, "")) for name in self._hub.views[view].params)
        if any(len(value) > VALUE_MAX for _, value in params):
            raise web.HTTPBadRequest(reason="These are not the parameters of a page.")
        return view, params if all(value for _, value in params) else ()

    def _age(self) -> dict[str, Any]:
        stale = self._feed.stale
        return {} if stale is None else {"stale": stream.aged(stale)}


@web.middleware
async def _failing(request: web.Request, handler: Any) -> web.StreamResponse:
    """What goes wrong as a sentence."""
    try:
        response: web.StreamResponse = await handler(request)
    except UnknownViewerError as error:
        return refused(401, str(error))
    except NotAskedError as error:
        return refused(503, str(error))
    except TooManyPagesError as error:
        return refused(429, str(error))
    except BudgetSpentError as error:
        response = refused(429, str(error))
        response.headers["Retry-After"] = str(error.seconds)
    except web.HTTPException as error:
        return refused(error.status, error.reason)
    return response


async def _nothing(_: web.Request) -> web.Response:
    return refused(404, "There is nothing of that name here.")


def _json(body: Any) -> web.Response:
    return web.Response(body=orjson.dumps(body), content_type="application/json", headers={"Cache-Control": "no-store"})


def _language(accepted: str) -> str:
    """The first language of the browser that the page speaks."""
    wanted = (each.split(";")[0].strip().lower()[:2] for each in accepted.split(","))
    return next((each for each in wanted if each in LANGUAGES), LANGUAGES[0])
