"""Who may read a program's metrics: asked of the API server with the reader's own token, and remembered for minutes.

The token is sent to the API server with one question, a SelfSubjectAccessReview: may its owner `get`
`deployments/prometheus-metrics` (of an agent: `daemonsets/…`) of the program's name in our namespace? So no account of
ours needs a right for it, neither to have tokens judged nor to ask what others may (ADR 0039).

Lives as long as its program, in its event loop. Tokens are kept as hashes. Those that may read have a memory of their
own, which strangers with tokens by the thousand do not push them out of; and where the API server cannot be asked, the
last word counts for longer: metrics are wanted just then.
"""

from __future__ import annotations

import time
from enum import Enum
from typing import TYPE_CHECKING, Final

import orjson

from controllers.api import names
from controllers.api.resources import Resource
from controllers.runtime import tokens
from controllers.runtime.errors import Forbidden, RuntimeFault

if TYPE_CHECKING:
    from collections.abc import Callable

    from controllers.runtime.client import Client

REVIEW: Final = Resource(
    "authorization.k8s.io", "v1", "selfsubjectaccessreviews", "SelfSubjectAccessReview", namespaced=False
)
SUBRESOURCE: Final = "prometheus-metrics"
ALLOWED_FOR, REFUSED_FOR = 300.0, 10.0
"""Cache lifetime of an access decision, in seconds: a right that is taken away, or given, has effect after it."""
STALE: Final = 5400.0
"""Seconds for which a yes counts while nobody can be asked."""
TIMEOUT: Final = 5.0
"""Seconds for one question."""
KNOWN_MAX: Final = 64
"""Tokens that are remembered, of those that may and of those that may not; the oldest goes first."""
ASKING_MAX: Final = 4
"""Questions at once about strangers; who comes beyond that is told to come again."""
WAITING_MAX: Final = 32
"""Strangers that wait for an answer at once: each keeps a connection, and so memory."""
UNAUTHORIZED: Final = 401


class Access(Enum):
    """Whether the owner of a token may read, as a status of HTTP."""

    ALLOWED = 200
    UNAUTHENTICATED = 401
    FORBIDDEN = 403
    UNAVAILABLE = 503
    """The API server could not be asked."""


class Readers:
    """Judges tokens for one program."""

    def __init__(self, client: Client, program: str, *, clock: Callable[[], float] = time.monotonic) -> None:
        """Prepare; `client` has no credentials of its own."""
        self._client, self._clock = client, clock
        kind = "daemonsets" if program.startswith(names.AGENTS) else "deployments"
        self.what = f"{kind}/{SUBRESOURCE} {program} in namespace {names.NAMESPACE}"
        wanted = {"group": "apps", "resource": kind, "subresource": SUBRESOURCE, "verb": "get"}
        wanted |= {"namespace": names.NAMESPACE, "name": program}
        self._body = {"apiVersion": REVIEW.api_version, "kind": REVIEW.kind, "spec": {"resourceAttributes": wanted}}
        self._may: dict[bytes, float] = {}  # a token's hash, and when it was last allowed
        self._may_not: dict[bytes, tuple[float, Access]] = {}
        self._questions: tokens.Questions[Access] = tokens.Questions(at_once=ASKING_MAX, waiting=WAITING_MAX)

    async def authorize(self, token: str) -> Access:
        """Whether the owner of a token may read; raises nothing but a cancellation."""
        now, key = self._clock(), tokens.hashed(token)
        since = self._may.get(key)
        if since is not None and now - since < ALLOWED_FOR:
            return Access.ALLOWED
        at, access = self._may_not.get(key, (now - REFUSED_FOR, Access.FORBIDDEN))
        if now - at < REFUSED_FOR:
            return access
        try:
            access = await self._questions.answer(key, lambda: self._ask(token, key), stranger=since is None)
        except tokens.CrowdedError:
            return Access.UNAVAILABLE
        # Only the API server's own silence makes the last word count for longer, not a crowd of strangers.
        return Access.ALLOWED if access is Access.UNAVAILABLE and since is not None and now - since < STALE else access

    async def _ask(self, token: str, key: bytes) -> Access:
        access = await self._review(token)
        if access is Access.ALLOWED:
            self._may_not.pop(key, None)
            tokens.remember(self._may, key, self._clock(), KNOWN_MAX)
        elif access is not Access.UNAVAILABLE:
            self._may.pop(key, None)
            tokens.remember(self._may_not, key, (self._clock(), access), KNOWN_MAX)
        return access

    async def _review(self, token: str) -> Access:
        async def token_itself() -> str:
            return token

        try:
            path = REVIEW.path(None)
            answer = await self._client.with_token(token_itself).request("POST", path, body=self._body, timeout=TIMEOUT)
            return Access.ALLOWED if orjson.loads(answer)["status"]["allowed"] is True else Access.FORBIDDEN
        except Forbidden as error:
            return Access.UNAUTHENTICATED if error.status == UNAUTHORIZED else Access.FORBIDDEN
        except (RuntimeFault, ValueError, LookupError, TypeError):
            return Access.UNAVAILABLE
