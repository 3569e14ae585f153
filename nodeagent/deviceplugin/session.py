"""The plugin's registration with kubelet: serve, register, and register again when kubelet restarts.

A session is one server on the pool's socket. It ends when the socket's file is gone or another's: kubelet
removes all sockets when it starts. Within it the plugin registers as often as kubelet's own
socket is a new one, and when kubelet does not listen though it should.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import structlog

from nodeagent.deviceplugin import metrics
from nodeagent.deviceplugin.kubelet import KubeletUnavailable, inode, register

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from nodeagent.deviceplugin.kubelet import Sockets
    from nodeagent.deviceplugin.service import Service

log = structlog.get_logger()
DEAF_SECONDS = 10.0
RETRY_MAX = 10.0


class Sessions:
    """All sessions of a process."""

    def __init__(
        self,
        sockets: Sockets,
        service: Service,
        check: float,
        *,
        before: Callable[[], Awaitable[None]],
        decided: asyncio.Event,
        is_wanted: Callable[[], bool] = lambda: True,
    ) -> None:
        """Prepare; `check`: seconds between two looks at the sockets; `before` each registration is awaited.

        `is_wanted`: whether kubelet is to know the resource; where not, the socket is there all the same. There is no
        registration before it is `decided` what the list is: an empty one would take from kubelet, for a while, what
        it has.
        """
        self._sockets, self._service, self._check = sockets, service, check
        self._before, self._decided, self._is_wanted = before, decided, is_wanted
        self.serving = asyncio.Event()
        """Set once the pool's socket has been ours."""
        self._registered: tuple[int, int] | None = None
        self._registered_at = self._next_try = float("-inf")
        self._retry, self._why = check, ""

    @property
    def listening(self) -> bool:
        """Whether kubelet has the list."""
        return self._service.streams > 0

    async def run(self) -> None:
        """Serve until cancelled; raises SocketTaken."""
        while True:
            self._sockets.claim()
            try:
                await self._service.start(self._sockets.own)
                self._registered = None
                await self._session()
            finally:
                await self._service.stop()

    async def _session(self) -> None:
        self.serving.set()
        while self._service.placed:
            if self._decided.is_set() and self._is_wanted():
                await self._register_where_due()
            elif self._decided.is_set() and self._registered is not None:
                log.info("the resource is offered no more; its socket is made anew", pool=self._sockets.pool)
                return  # kubelet lets go of a resource whose socket is closed
            await asyncio.sleep(self._check)
        log.info("the pool's socket was removed, as kubelet does when it starts; serving anew")

    async def _register_where_due(self) -> None:
        now, kubelet = asyncio.get_running_loop().time(), inode(self._sockets.kubelet)
        deaf = not self.listening and now >= self._registered_at + DEAF_SECONDS
        if kubelet is None or now < self._next_try or (kubelet == self._registered and not deaf):
            return
        await self._before()
        try:
            await register(self._sockets)
        except KubeletUnavailable as silence:
            metrics.REGISTRATIONS.labels("failed").inc()
            if str(silence) != self._why:
                self._why = str(silence)
                log.warning("kubelet does not take the registration; trying again", why=self._why)
            self._retry = min(self._retry * 2, RETRY_MAX)
            self._next_try = now + self._retry
            return
        metrics.REGISTRATIONS.labels("ok").inc()
        log.info("registered with kubelet", pool=self._sockets.pool, socket=self._sockets.own.name)
        self._registered, self._registered_at = kubelet, now
        self._retry, self._next_try, self._why = self._check, float("-inf"), ""
