"""The resources of one pool: for each a service on a socket of its own, registered with kubelet while it is wanted.

A pool has one resource, or under a mixed MIG layout one for each profile. The socket that has the pool's name is there
in both cases: it keeps a second plugin of the pool off the node.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING

from nodeagent.deviceplugin import metrics
from nodeagent.deviceplugin.session import Sessions
from nodeagent.deviceplugin.wire import HEALTHY, UNHEALTHY

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from nodeagent.deviceplugin.devices.records import Listed
    from nodeagent.deviceplugin.kubelet import Sockets
    from nodeagent.deviceplugin.service import Service


class Resources:
    """The services of a process, by what stands after `gpu.deckhouse.io/` in their resource (`suffix`)."""

    def __init__(
        self,
        sockets: Sockets,
        make: Callable[[str], Service],
        check: float,
        *,
        before: Callable[[], Awaitable[None]],
        decided: asyncio.Event,
    ) -> None:
        """Prepare; `sockets` are the pool's; `make` makes the service of a suffix; the rest is as in `Sessions`."""
        self._sockets, self._make, self._check = sockets, make, check
        self._before, self._decided = before, decided
        self._wanted = frozenset({sockets.pool})
        self._changed = asyncio.Event()
        self.services = {sockets.pool: make(sockets.pool)}
        self._sessions = {sockets.pool: self._of(sockets.pool)}

    @property
    def serving(self) -> asyncio.Event:
        """Set once the pool's socket has been ours."""
        return self._sessions[self._sockets.pool].serving

    @property
    def listening(self) -> bool:
        """Whether kubelet has the list of every resource that it is to know."""
        return all(suffix in self._sessions and self._sessions[suffix].listening for suffix in self._wanted)

    def listing(self, suffix: str) -> tuple[Listed, ...]:
        """What kubelet was told last of a resource."""
        return self.services[suffix].listing if suffix in self.services else ()

    async def show(self, listing: Iterable[Listed], wanted: frozenset[str]) -> None:
        """Tell kubelet of every resource; returns when it has been told, or does not listen.

        `wanted`: the resources that it is to know; one that is no longer among them ends with an empty list.
        """
        devices = list(listing)
        if wanted != self._wanted:
            self._wanted = wanted
            self._changed.set()
        for suffix in wanted - self.services.keys():
            self.services[suffix] = self._make(suffix)
            self._sessions[suffix] = self._of(suffix)
            self._changed.set()
        await asyncio.gather(
            *(
                service.show(tuple(device for device in devices if (device.suffix or self._sockets.pool) == suffix))
                for suffix, service in list(self.services.items())
            )
        )
        healthy = sum(device.healthy for device in devices)
        metrics.DEVICES.labels(HEALTHY).set(healthy)
        metrics.DEVICES.labels(UNHEALTHY).set(len(devices) - healthy)

    async def run(self) -> None:
        """Serve until cancelled; raises SocketTaken."""
        tasks: dict[str, asyncio.Task[None]] = {}
        async with asyncio.TaskGroup() as group:
            while True:
                for suffix in self._sessions.keys() - tasks.keys():
                    tasks[suffix] = group.create_task(self._sessions[suffix].run(), name=f"sessions {suffix}")
                for suffix in tasks.keys() - self._wanted - {self._sockets.pool}:
                    await self._end(suffix, tasks.pop(suffix))
                await self._changed.wait()
                self._changed.clear()

    async def _end(self, suffix: str, task: asyncio.Task[None]) -> None:
        """Close the socket of a resource that is not wanted any more: kubelet then offers nothing of it."""
        # First of all: whoever wants it again meanwhile makes another one, which begins when the socket is closed.
        self.services.pop(suffix, None)
        self._sessions.pop(suffix, None)
        task.cancel()
        await asyncio.wait([task])

    def _of(self, suffix: str) -> Sessions:
        sockets = replace(self._sockets, suffix=suffix)
        return Sessions(
            sockets,
            self.services[suffix],
            self._check,
            before=self._before,
            decided=self._decided,
            is_wanted=lambda: suffix in self._wanted,
        )
