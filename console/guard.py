"""What every request must look like, and what every answer says to the browser.

A page of somebody else can make a browser send requests to loopback (cross-site requests, or a name of theirs that is
suddenly 127.0.0.1), but not with our Host, and not without saying where they come from. See docs/security.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from aiohttp import web

if TYPE_CHECKING:
    from collections.abc import Collection

    from aiohttp.typedefs import Handler, Middleware

HEADERS: Final = {
    "Content-Security-Policy": (
        "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; object-src 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
OURS: Final = ("same-origin", "none")
"""`Sec-Fetch-Site` of a page of ours, and of an address that was typed."""


def refused(status: int, sentence: str) -> web.Response:
    """An answer that says what is the matter."""
    return web.json_response({"error": sentence}, status=status, headers={"Cache-Control": "no-store"})


def guard(hosts: Collection[str]) -> Middleware:
    """The middleware; `hosts`: what `Host` may be, in small letters; empty where a proxy has looked at it."""

    @web.middleware
    async def guarded(request: web.Request, handler: Handler) -> web.StreamResponse:
        return _refusal(request, hosts) or await handler(request)

    return guarded


async def answered(_: web.Request, response: web.StreamResponse) -> None:
    """What every answer carries, that of a stream too, whose head is sent before its handler ends."""
    for name, value in HEADERS.items():
        response.headers.setdefault(name, value)


def _refusal(request: web.Request, hosts: Collection[str]) -> web.Response | None:
    host = request.headers.get("Host", "").lower()
    if hosts and host not in hosts:
        return refused(421, f"This console is not {host or 'nobody'}: open the address that it prints.")
    site, origin = request.headers.get("Sec-Fetch-Site"), request.headers.get("Origin")
    navigates = request.headers.get("Sec-Fetch-Mode") == "navigate" and request.method == "GET"
    foreign = site is not None and site not in OURS
    # A link from elsewhere may open the page, which holds nothing; it may not ask for what the page asks for.
    if foreign and not (navigates and not request.path.startswith("/api/")):
        return refused(403, "Another site's page may not ask here.")
    if site is None and origin is not None and origin.lower() not in {f"http://{host}", f"https://{host}"}:
        return refused(403, "Another site's page may not ask here.")
    if request.method == "POST":
        return _post_refusal(request, known=site == "same-origin" or origin is not None)
    return None


def _post_refusal(request: web.Request, *, known: bool) -> web.Response | None:
    """A browser that sends a cookie by itself also says from where; a program shows a token instead."""
    if not known and (request.cookies or "Authorization" not in request.headers):
        return refused(403, "A change needs Sec-Fetch-Site or Origin, as browsers send them.")
    if request.can_read_body and request.content_type != "application/json":
        return refused(415, "A change is application/json.")
    return None
