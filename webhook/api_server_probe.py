"""Readiness by whether the API server answers: a replica that it does not answer can reserve nothing.

A watch that hangs says nothing for a minute and more. So every `period` the Lease of the certificates is read, by
connections of its own; a refusal counts as an answer, too. Without one for `timeout` seconds the replica is not ready,
whoever balances sends pods to another, and the connections that the API server keeps to this one are ended.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

import structlog

from controllers.api import names
from controllers.api.resources import LEASE
from controllers.runtime.errors import ApiError, RuntimeFault

if TYPE_CHECKING:
    from collections.abc import Callable

    from controllers.runtime.client import Client

log = structlog.get_logger()
SERVER_ERROR = 500


class ApiServerProbe:
    """Reads a Lease again and again, and knows when the last answer came; times in seconds."""

    def __init__(
        self,
        client: Client,
        on_change: Callable[[bool], None],
        *,
        period: float,
        timeout: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Prepare; until the first answer there is no contact. `on_change` is called at every change."""
        self._client, self._on_change = client, on_change
        self._period, self._timeout, self._clock = period, timeout, clock
        self._answered = float("-inf")
        self.reachable = False
        """Whether the last answer is young enough; changes when `on_change` is called, and not by itself."""

    async def run(self) -> None:
        """Ask, for ever."""
        while True:
            # Counted from before the question, as for a process that was stopped in between.
            asked = self._clock()
            if await self._is_answered():
                self._answered = asked
            reachable = self._clock() - self._answered <= self._timeout
            if reachable is not self.reachable:
                self.reachable = reachable
                log.warning("the API server answers" if reachable else "the API server does not answer")
                self._on_change(reachable)
            await asyncio.sleep(self._period)

    async def _is_answered(self) -> bool:
        path = LEASE.path(names.NAMESPACE, names.WEBHOOK)
        try:
            await self._client.request("GET", path, timeout=self._period)
        except ApiError as error:
            return error.status < SERVER_ERROR
        except RuntimeFault:
            return False
        return True
