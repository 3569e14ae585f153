"""What the scheduler says of pods, as a watch brings it."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final

import orjson

from controllers.api.resources import POD
from controllers.runtime.errors import ApiError, Unreachable
from reliability.agreement.fleet import NAMESPACE
from reliability.agreement.records import Outcome
from tools.errors import UserError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterator

    from controllers.runtime.client import Client

Json = dict[str, Any]
PATIENCE: Final = 120.0
"""Seconds until the scheduler is taken for one that says nothing."""
IDLE: Final = 3600.0


class Answers:
    """The pods of which an answer is expected, by name; no name is used twice."""

    def __init__(self, client: Client) -> None:
        """`client`: of who may read pods."""
        self._client = client
        self._expected: dict[str, asyncio.Future[tuple[Json, Outcome]]] = {}
        self._follower: asyncio.Task[None]

    @asynccontextmanager
    async def following(self) -> AsyncIterator[None]:
        """Follow the pods inside the block."""
        self._follower = asyncio.create_task(self._follow())
        try:
            yield
        finally:
            self._follower.cancel()
            await asyncio.gather(self._follower, return_exceptions=True)

    @contextmanager
    def expecting(self, name: str) -> Iterator[Callable[[], Awaitable[tuple[Json, Outcome]]]]:
        """Note from now on what becomes of a pod; what is given waits for it, and raises UserError."""
        answer: asyncio.Future[tuple[Json, Outcome]] = asyncio.get_running_loop().create_future()
        self._expected[name] = answer

        async def come() -> tuple[Json, Outcome]:
            await asyncio.wait((answer, self._follower), timeout=PATIENCE, return_when=asyncio.FIRST_COMPLETED)
            if answer.done():
                return answer.result()
            if self._follower.done():
                self._follower.result()  # it ends by an error alone, which is to be seen
            raise UserError(
                f"the scheduler said nothing of pod {name} in {PATIENCE:.0f} s",
                do="look into its log in the directory of the control plane",
            )

        try:
            yield come
        finally:
            del self._expected[name]

    async def _follow(self) -> None:
        """Follow the pods for ever: a watch that is too slow for what happens is ended by the API server."""
        while True:
            listed = orjson.loads(await self._client.request("GET", POD.path(NAMESPACE)))
            for pod in listed["items"]:
                self._take(pod)
            query = {"watch": "true", "resourceVersion": listed["metadata"]["resourceVersion"]}
            with suppress(ApiError, Unreachable):
                async with self._client.stream(POD.path(NAMESPACE), query=query, idle=IDLE) as pieces:
                    await self._read(pieces)

    async def _read(self, pieces: AsyncIterator[list[bytes]]) -> None:
        async for piece in pieces:
            for line in piece:
                event = orjson.loads(line)
                if event["type"] == "ERROR":
                    return
                if event["type"] != "DELETED":
                    self._take(event["object"])

    def _take(self, pod: Json) -> None:
        waits = self._expected.get(pod["metadata"]["name"])
        outcome = outcome_of(pod)
        if waits is not None and outcome is not None and not waits.done():
            waits.set_result((pod, outcome))


def outcome_of(pod: Json) -> Outcome | None:
    """What the scheduler has said of a pod; None where it has not come to it yet."""
    if node := pod.get("spec", {}).get("nodeName"):
        return Outcome(node=node)
    for condition in pod.get("status", {}).get("conditions", ()):
        if condition["type"] == "PodScheduled" and condition.get("reason") == "Unschedulable":
            return Outcome(message=condition.get("message", ""))
    return None
