"""Performs a cycle's planned requests: each begins at its time and is retried until it is accepted.

People and ReplicaSets come again where they are refused, which a full pool does not do (its pods wait); how often, and
why, is counted.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from controllers.api import names, resources
from controllers.runtime.errors import AlreadyExists, ApiError, RuntimeFault
from reliability.kit.actors import create_pool, delete
from reliability.soak.environment import MANAGER, Environment, brief_spec, join
from reliability.soak.snapshot import TEAM
from reliability.soak.workload_plan import Act
from sim.nodes.leaving import remove_node
from sim.nodes.names import FAULT
from sim.workload import gpu_pod

if TYPE_CHECKING:
    from controllers.runtime.client import Client

PATIENCE, LONG_PATIENCE = 8.0, 60.0
"""Seconds for which a pod's creation is tried, and any other act, which a later one builds on, or which undoes one."""
PODS = ("pod", "strand")
AGAIN = 0.25
DENIED = re.compile(r"denied the request: (\w+)")


@dataclass
class Actors:
    """Acts in an environment, and what came of them."""

    environment: Environment
    done: Counter[str] = field(default_factory=Counter)
    """By verb."""
    refused: Counter[str] = field(default_factory=Counter)
    """Answers that meant "come again", by their first word."""
    given_up: list[str] = field(default_factory=list)
    """Acts that were not taken in time, each with the last answer."""
    latest: float = 0.0
    """Seconds by which an act began after its time, at most: the soak's own share."""

    @property
    def _client(self) -> Client:
        return self.environment.client

    async def play(self, acts: Iterable[Act], start: float) -> None:
        """Do them all; `start`: the cycle's begin by the monotonic clock."""
        locks: dict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        async with asyncio.TaskGroup() as group:
            for act in acts:
                await asyncio.sleep(max(0.0, start + act.at - time.monotonic()))
                self.latest = max(self.latest, time.monotonic() - start - act.at)
                group.create_task(self._in_turn(act, locks[act.subject]))

    async def _in_turn(self, act: Act, lock: asyncio.Lock) -> None:
        async with lock:
            await self._tried(act)

    async def _tried(self, act: Act) -> None:
        limit = time.monotonic() + (PATIENCE if act.verb in PODS else LONG_PATIENCE)
        while True:
            try:
                await self._verbs[act.verb](act)
            except RuntimeFault as error:
                self.refused[_word(error)] += 1
                if time.monotonic() > limit:
                    self.given_up.append(f"{act.verb} {act.subject} {act.value}: {error}")
                    return
                await asyncio.sleep(AGAIN)
            else:
                self.done[act.verb] += 1
                return

    @property
    def _verbs(self) -> dict[str, Callable[[Act], Awaitable[None]]]:
        return {
            "pod": self._pod,
            "strand": self._pod,
            "unpod": self._unpod,
            "assign": self._assign,
            "break": self._break,
            "pool": self._pool,
            "resize": self._resize,
            "unpool": self._unpool,
            "leave": self._leave,
            "join": self._join,
            "settings": self._settings,
        }

    async def _pod(self, act: Act) -> None:
        spec: dict[str, Any] = {"schedulerName": "nobody"} if act.verb == "strand" else {}
        body = gpu_pod(act.subject, act.value, **spec)
        with suppress(AlreadyExists):
            await self._client.create(resources.POD, body, TEAM, manager=MANAGER)

    async def _unpod(self, act: Act) -> None:
        await delete(self._client, resources.POD, act.subject, TEAM)

    async def _assign(self, act: Act) -> None:
        node, _, position = act.subject.partition("/")
        card, _ = self.environment.cards[node][int(position)]
        body = {"metadata": {"annotations": {names.ASSIGNMENT: act.value or None}}}
        await self._client.merge(resources.GPUDEVICE, card, body, manager=MANAGER)

    async def _break(self, act: Act) -> None:
        """A card falls off the bus, or all of the node is mended."""
        word = f"card-lost:{self.environment.cards[act.subject][int(act.value)][1]}" if act.value else None
        body = {"metadata": {"annotations": {FAULT: word}}}
        await self._client.merge(resources.NODE, act.subject, body, manager=MANAGER)

    async def _pool(self, act: Act) -> None:
        with suppress(AlreadyExists):
            await create_pool(self._client, act.subject, manager=MANAGER, **brief_spec(act.value))

    async def _resize(self, act: Act) -> None:
        spec = {"deviceSelector": brief_spec(act.value)["deviceSelector"]}
        await self._client.merge(resources.GPUPOOL, act.subject, {"spec": spec}, manager=MANAGER)

    async def _unpool(self, act: Act) -> None:
        await delete(self._client, resources.GPUPOOL, act.subject)

    async def _leave(self, act: Act) -> None:
        await remove_node(self._client, act.subject)

    async def _join(self, act: Act) -> None:
        with suppress(AlreadyExists):
            await join(self._client, act.subject, act.value)

    async def _settings(self, act: Act) -> None:
        body = {"spec": {"settings": {"scheduling": {"defaultStrategy": act.value}}}}
        await self._client.merge(resources.MODULECONFIG, names.MODULE, body, manager=MANAGER)


def _word(error: RuntimeFault) -> str:
    """The first word of a refusal: the webhook's, else the API server's reason."""
    if not isinstance(error, ApiError):
        return type(error).__name__
    found = DENIED.search(error.message)
    return found.group(1) if found else error.reason
