"""Tells the API server's requests from those of strangers, by the word in the path that the API server is told.

An API server may not know the word yet: an installer has just written its own path again, or there is a new authority.
So a request without it is a stranger's beyond doubt only where the word has been in the configurations for as long as
API servers take to learn of it, and is there still when they are read anew. One for a process, in its event loop.
"""

from __future__ import annotations

import asyncio
import hmac
from typing import TYPE_CHECKING, Final

import structlog

from controllers.api import names
from controllers.api.kube import WebhookConfiguration
from controllers.api.record import adapter, record
from controllers.api.resources import MUTATING_WEBHOOK, VALIDATING_WEBHOOK
from controllers.runtime.errors import RuntimeFault
from webhook.address import word_of
from webhook.certificates import keyring_of

if TYPE_CHECKING:
    from controllers.runtime.client import Client
    from webhook.certificates import Caches

log = structlog.get_logger()
GAP: Final = 0.2
"""Seconds between two readings at least, however many strangers ask."""


@record
class Configurations:
    """A list of webhook configurations."""

    items: tuple[WebhookConfiguration, ...] = ()


class Callers:
    """Who asks."""

    def __init__(self, client: Client, caches: Caches, settle: float) -> None:
        """Follow the caches. `settle`: seconds that an API server may take to learn of a configuration."""
        self._client, self._caches, self._settle = client, caches, settle
        self._now = asyncio.get_running_loop().time
        self._words: frozenset[str] = frozenset()
        self._told_since: float | None = None
        self._reading = asyncio.Lock()
        self._read_at, self._same = float("-inf"), False
        for store in (caches.secrets, caches.mutating, caches.validating):
            store.subscribe(lambda *_: self._look())

    def knows(self, word: str) -> bool:
        """Whether the API server was told that word, or is about to be."""
        return any(hmac.compare_digest(word.encode(), each.encode()) for each in self._words)

    async def may_be_one(self) -> bool:
        """Whether a request without a known word can be an API server's, that does not know it yet."""
        if self._told_since is None or self._now() - self._told_since < self._settle:
            return True
        return not await self._told_still()

    def _look(self) -> None:
        keyring = keyring_of(self._caches.secret)
        words = self._caches.words()
        self._words = frozenset(words - {""}) | ({word_of(keyring)} if keyring is not None else set())
        if keyring is None or words != {word_of(keyring)}:
            self._told_since = None
        elif self._told_since is None:
            self._told_since = self._now()

    async def _told_still(self) -> bool:
        """Whether a reading that began after this was asked finds what the caches have."""
        asked = self._now()
        async with self._reading:
            if self._read_at < asked:
                await asyncio.sleep(max(0.0, self._read_at + GAP - self._now()))
                self._read_at = self._now()
                try:
                    self._same = await self._unchanged()
                except RuntimeFault as error:
                    log.warning("cannot read the webhook configurations", error=str(error))
                    self._same = False
            return self._same

    async def _unchanged(self) -> bool:
        """Whether no configuration was written that the caches have not heard of. Lists: it may not get one by name."""
        query = {"fieldSelector": f"metadata.name={names.WEBHOOK_CONFIGURATION}"}
        cached = {kind: each.metadata.resource_version for kind, _, each in self._caches.configurations()}
        for kind in (MUTATING_WEBHOOK, VALIDATING_WEBHOOK):
            answer = await self._client.request("GET", kind.path(), query=query)
            found = [each.metadata.resource_version for each in adapter(Configurations).validate_json(answer).items]
            if found != [cached.get(kind)]:
                return False
        return True
