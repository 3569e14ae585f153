"""Who looks: a person by their kubeconfig, or whoever a token names (TokenReview). Lives as long as its program.

Tokens are kept as hashes, a yes for `KNOWN` seconds and a no for `UNKNOWN`.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import orjson

from controllers.api.resources import Resource
from controllers.runtime.errors import ApiError, Forbidden, RuntimeFault

if TYPE_CHECKING:
    from collections.abc import Callable

    from controllers.runtime.client import Client

TOKEN_REVIEW: Final = Resource("authentication.k8s.io", "v1", "tokenreviews", "TokenReview", namespaced=False)
SELF: Final = Resource("authentication.k8s.io", "v1", "selfsubjectreviews", "SelfSubjectReview", namespaced=False)
KNOWN, UNKNOWN = 30.0, 5.0
"""Seconds for which a word about a token counts."""
TIMEOUT: Final = 5.0
"""Seconds for one question."""
TOKENS_MAX: Final = 1024
"""Tokens that are remembered; the oldest goes first."""
ASKING_MAX: Final = 16
"""Questions at once; who comes beyond that waits."""
UNAUTHORIZED: Final = 401
EXPIRED: Final = "The cluster does not accept your credentials (any more). Log in again."


class UnknownViewerError(Exception):
    """Nobody is named by what was shown; the text is a sentence for them."""


class NotAskedError(Exception):
    """The API server could not be asked; the text says why."""


@dataclass(frozen=True, slots=True)
class Viewer:
    """Somebody, as the API server knows them."""

    user: str
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: tuple[tuple[str, tuple[str, ...]], ...] = ()
    token: str = field(default="", repr=False, compare=False)
    """What they showed; empty where they are the console's own identity."""


class Tokens:
    """Viewers by their tokens."""

    def __init__(self, client: Client, *, clock: Callable[[], float] = time.monotonic) -> None:
        """`client` has the console's own rights, among them to create TokenReviews."""
        self._client, self._clock = client, clock
        self._known: dict[bytes, tuple[float, Viewer | None]] = {}
        self._turn = asyncio.Semaphore(ASKING_MAX)

    async def viewer(self, token: str) -> Viewer:
        """Whom a token names; raises UnknownViewerError, NotAskedError."""
        if not token:
            raise UnknownViewerError("Nobody is named: a proxy before the console has to pass a bearer token on.")
        key = hashlib.sha256(token.encode()).digest()
        until, viewer = self._known.get(key, (0.0, None))
        if until <= self._clock():
            async with self._turn:
                viewer = await self._ask(token)
            self._known.pop(key, None)
            self._known[key] = (self._clock() + (KNOWN if viewer else UNKNOWN), viewer)
            while len(self._known) > TOKENS_MAX:
                del self._known[next(iter(self._known))]
        if viewer is None:
            raise UnknownViewerError(EXPIRED)
        return viewer

    async def _ask(self, token: str) -> Viewer | None:
        body = {"apiVersion": TOKEN_REVIEW.api_version, "kind": TOKEN_REVIEW.kind, "spec": {"token": token}}
        status = await _asked(self._client, TOKEN_REVIEW, body)
        return _viewer(status.get("user") or {}, token) if status.get("authenticated") is True else None


async def whoami(client: Client) -> Viewer:
    """Who the client is; raises UnknownViewerError, NotAskedError."""
    try:
        status = await _asked(client, SELF, {"apiVersion": SELF.api_version, "kind": SELF.kind})
    except NotAskedError as error:
        if isinstance(error.__cause__, Forbidden) and error.__cause__.status == UNAUTHORIZED:
            raise UnknownViewerError(EXPIRED) from error
        raise
    return _viewer(status.get("userInfo") or {}, "")


async def _asked(client: Client, resource: Resource, body: dict[str, Any]) -> dict[str, Any]:
    """The status of the answer to a review."""
    try:
        answer = await client.request("POST", resource.path(), body=body, timeout=TIMEOUT)
        return dict(orjson.loads(answer)["status"])
    except (RuntimeFault, ValueError, LookupError, TypeError) as error:
        why = f"{error.status} {error.reason}" if isinstance(error, ApiError) else "no answer"
        raise NotAskedError(f"The API server could not be asked who you are ({why}).") from error


def _viewer(user: dict[str, Any], token: str) -> Viewer:
    extra = tuple(sorted((key, tuple(values)) for key, values in (user.get("extra") or {}).items()))
    return Viewer(
        user=str(user.get("username") or ""),
        groups=tuple(user.get("groups") or ()),
        uid=str(user.get("uid") or ""),
        extra=extra,
        token=token,
    )
