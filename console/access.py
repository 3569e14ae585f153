"""Who asks, and what they may see: for one person on loopback, and for whoever a token names in the cluster."""

from __future__ import annotations

import secrets
from time import monotonic
from typing import TYPE_CHECKING, Protocol

from console.viewers import KNOWN, NotAskedError, Tokens, UnknownViewerError, Viewer, whoami
from controllers.runtime import tokens

if TYPE_CHECKING:
    from collections.abc import Callable

    from aiohttp import web

    from console.feed import Feed
    from console.reviews import Reviews
    from console.rights import Rights
    from controllers.runtime.client import Client

TICKET = 60.0
"""Seconds in which a browser has to begin with its ticket: its command line shows it for as long as it runs."""


def bearer(request: web.Request) -> str:
    """The token that a request carries; empty where it carries none."""
    return tokens.shown(request.headers.get("Authorization", ""))


class Access(Protocol):
    """Knows viewers and their rights."""

    mode: str
    """`loopback` or `cluster`."""

    async def viewer(self, request: web.Request) -> Viewer:
        """Who asks; raises UnknownViewerError, NotAskedError."""

    async def rights(self, viewer: Viewer) -> Rights:
        """What they may see now; raises NotAskedError."""

    def client(self, request: web.Request) -> Client:
        """What writes with the rights of whoever asks."""


class OwnAccess:
    """One person, under their kubeconfig: who knows the secret of this run is that person.

    While the API server is away they are who they were, with the rights that they had: all that is shown is of then.
    """

    mode = "loopback"

    def __init__(self, client: Client, reviews: Reviews, feed: Feed, *, clock: Callable[[], float] = monotonic) -> None:
        """Prepare, with a new secret."""
        self._client, self._reviews, self._feed, self._clock = client, reviews, feed, clock
        self.secret = secrets.token_urlsafe(32)
        self._tickets: dict[str, float] = {}  # until when each counts
        self.cookie = f"gpu-console-{secrets.token_hex(4)}"
        """Its name: cookies do not know ports, and another console may run beside this one."""
        self._viewer: Viewer | None = None
        self._until = 0.0
        self._rights: Rights | None = None

    def ticket(self) -> str:
        """What begins a session once: a browser gets its address by its command line, which others may read."""
        made = secrets.token_urlsafe(32)
        self._tickets[made] = self._clock() + TICKET
        return made

    def begins(self, shown: str) -> bool:
        """Whether it is the secret, or a ticket of the last minute, which it uses up."""
        if shown in self._tickets:
            return self._clock() <= self._tickets.pop(shown)
        return self._admits(shown)

    def _admits(self, shown: str) -> bool:
        return secrets.compare_digest(shown.encode(), self.secret.encode())

    async def viewer(self, request: web.Request) -> Viewer:
        """The person; raises UnknownViewerError, NotAskedError."""
        if not self._admits(bearer(request) or request.cookies.get(self.cookie, "")):
            raise UnknownViewerError(
                "This page was not opened by kubectl gpu console, or that has ended: open the address that it prints."
            )
        if self._viewer is None or self._until <= self._clock():
            try:
                self._viewer = await whoami(self._client)
            except NotAskedError:
                if self._viewer is None:
                    raise
            else:
                self._until = self._clock() + KNOWN
        return self._viewer

    async def rights(self, viewer: Viewer) -> Rights:
        """What they may see; raises NotAskedError."""
        own = {self._feed.namespace} if self._feed.namespace else set()
        try:
            self._rights = await self._reviews.rights(viewer, self._feed.namespaces | own)
        except NotAskedError:
            if self._rights is None:
                raise
        return self._rights

    def client(self, request: web.Request) -> Client:
        """The client of the person who opened the console."""
        del request
        return self._client


class TokenAccess:
    """Whoever a bearer token names, which a proxy before the console passes on."""

    mode = "cluster"

    def __init__(self, client: Client, bare: Client, reviews: Reviews, feed: Feed) -> None:
        """`client` has the console's rights, `bare` none."""
        self._tokens, self._bare, self._reviews, self._feed = Tokens(client), bare, reviews, feed

    async def viewer(self, request: web.Request) -> Viewer:
        """Whom the token names; raises UnknownViewerError, NotAskedError."""
        return await self._tokens.viewer(bearer(request))

    async def rights(self, viewer: Viewer) -> Rights:
        """What they may see; raises NotAskedError."""
        return await self._reviews.rights(viewer, self._feed.namespaces)

    def client(self, request: web.Request) -> Client:
        """One with the token that the request carries."""
        shown = bearer(request)

        async def token() -> str:
            return shown

        return self._bare.with_token(token)
