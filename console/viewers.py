"""Who looks: a person by their kubeconfig, or whoever a token names (TokenReview). Lives as long as its program.

Of a token only the hash is kept, with a yes for `KNOWN` seconds or a no for `UNKNOWN`.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import orjson

from controllers.api.resources import Resource
from controllers.runtime import tokens
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
"""Tokens that are remembered, of those that name somebody and of the others; the oldest goes first."""
MET: Final = 300.0
"""Seconds for which who was a viewer is no stranger after that."""
ASKING_MAX: Final = 16
"""Questions at once about strangers; who comes beyond that is told to come again."""
WAITING_MAX: Final = 128
"""Strangers that wait for an answer at once."""
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

    @property
    def who(self) -> tuple[str, str]:
        """By what they are counted: the user alone, since the rest differs from token to token."""
        return self.user, self.uid


class Tokens:
    """Viewers by their tokens."""

    def __init__(self, client: Client, *, clock: Callable[[], float] = time.monotonic) -> None:
        """`client` has the console's own rights, among them to create TokenReviews."""
        self._client, self._clock = client, clock
        # Apart from each other: strangers with tokens by the thousand push no viewer out.
        self._known: dict[bytes, tuple[float, Viewer]] = {}
        self._unknown: dict[bytes, float] = {}
        self._asking: tokens.Questions[Viewer | None] = tokens.Questions(at_once=ASKING_MAX, waiting=WAITING_MAX)

    async def viewer(self, token: str) -> Viewer:
        """Whom a token names; raises UnknownViewerError, NotAskedError."""
        if not token:
            raise UnknownViewerError("Nobody is named: a proxy before the console has to pass a bearer token on.")
        self._drop()
        now, key = self._clock(), tokens.hashed(token)
        at, viewer = self._known.get(key, (now - KNOWN, None))
        if viewer is not None and now - at < KNOWN:
            return viewer
        if now - self._unknown.get(key, now - UNKNOWN) < UNKNOWN:
            raise UnknownViewerError(EXPIRED)
        try:
            found = await self._asking.answer(key, lambda: self._ask(token, key), stranger=viewer is None)
        except tokens.CrowdedError as error:
            raise NotAskedError("Too many come at once whom the console does not know yet; come again.") from error
        if found is None:
            raise UnknownViewerError(EXPIRED)
        return found

    async def _ask(self, token: str, key: bytes) -> Viewer | None:
        body = {"apiVersion": TOKEN_REVIEW.api_version, "kind": TOKEN_REVIEW.kind, "spec": {"token": token}}
        status = await _asked(self._client, TOKEN_REVIEW, body)
        if status.get("authenticated") is not True:
            self._known.pop(key, None)
            tokens.remember(self._unknown, key, self._clock(), TOKENS_MAX)
            return None
        viewer = _viewer(status.get("user") or {})
        self._unknown.pop(key, None)
        tokens.remember(self._known, key, (self._clock(), viewer), TOKENS_MAX)
        return viewer

    def _drop(self) -> None:
        """Forget what does not count any more; both are in the order of time."""
        now = self._clock()
        while self._unknown and now - next(iter(self._unknown.values())) >= UNKNOWN:
            del self._unknown[next(iter(self._unknown))]
        while self._known and now - next(iter(self._known.values()))[0] >= KNOWN + MET:
            del self._known[next(iter(self._known))]


async def whoami(client: Client) -> Viewer:
    """Who the client is; raises UnknownViewerError, NotAskedError."""
    try:
        status = await _asked(client, SELF, {"apiVersion": SELF.api_version, "kind": SELF.kind})
    except NotAskedError as error:
        if isinstance(error.__cause__, Forbidden) and error.__cause__.status == UNAUTHORIZED:
            raise UnknownViewerError(EXPIRED) from error
        raise
    return _viewer(status.get("userInfo") or {})


async def _asked(client: Client, resource: Resource, body: dict[str, Any]) -> dict[str, Any]:
    """The status of the answer to a review."""
    try:
        answer = await client.request("POST", resource.path(), body=body, timeout=TIMEOUT)
        return dict(orjson.loads(answer)["status"])
    except (RuntimeFault, ValueError, LookupError, TypeError) as error:
        why = f"{error.status} {error.reason}" if isinstance(error, ApiError) else "no answer"
        raise NotAskedError(f"The API server could not be asked who you are ({why}).") from error


def _viewer(user: dict[str, Any]) -> Viewer:
    extra = tuple(sorted((key, tuple(values)) for key, values in (user.get("extra") or {}).items()))
    return Viewer(
        user=str(user.get("username") or ""),
        groups=tuple(user.get("groups") or ()),
        uid=str(user.get("uid") or ""),
        extra=extra,
    )
