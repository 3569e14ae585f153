"""What a review of a pod resolves once, and what it resolves anew when the caches have changed while it waited."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import Any

import orjson
import pytest

from controllers.api.settings import Settings
from controllers.runtime.errors import Conflict
from tests.webhook import world
from webhook.decision.access import AccessReview
from webhook.handlers.pod_creation import PodCreationHandler
from webhook.reservations.concurrency import IN_FLIGHT_MAX

CLOSED = {"namespaces": ["other"]}


class Reviews:
    """RBAC, which allows jane everything."""

    def __init__(self) -> None:
        self.asked = 0

    async def review_unlisted(self, *_: Any) -> AccessReview:
        self.asked += 1
        return AccessReview("jane", ("jane",))


class Reserver:
    """Is too late as often as it is told to."""

    def __init__(self, conflicts: int = 0) -> None:
        self.left, self.tries = conflicts, 0

    async def reserve(self, *_: Any) -> None:
        self.tries += 1
        if self.tries <= self.left:
            raise Conflict(409, "Conflict", "another version")


class Replica:
    """A webhook with a pool `a` of one card, for which no pod waits in a queue."""

    def __init__(self, conflicts: int = 0, **pool: Any) -> None:
        self.caches, self.reviews, self.reserver = world.stores(), Reviews(), Reserver(conflicts)
        snapshot = world.snapshot(self.caches)
        self.caches.pools.on_watch_event(world.refusing_pool(**pool))
        self.caches.nodes.on_watch_event(world.node("n1"))
        self.caches.devices.on_watch_event(world.device("n1", 0))
        nobody: Any = None
        reviews: Any = self.reviews
        reserver: Any = self.reserver
        self.handler = PodCreationHandler(nobody, self.caches, snapshot, reserver, Settings, access_reviews=reviews)

    async def answer(self) -> str:
        """`Granted`, or the error code of the refusal."""
        answer = orjson.loads(await self.handler.handle(orjson.dumps(world.review_of(world.pod())), 5.0))["response"]
        return "Granted" if answer["allowed"] else answer["status"]["message"].partition(":")[0]


async def test_access_is_resolved_once_however_often_cards_are_chosen_anew() -> None:
    replica = Replica(conflicts=3, access=CLOSED)
    assert await replica.answer() == "Granted"
    assert (replica.reserver.tries, replica.reviews.asked) == (4, 1)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"conditions": {"Maintenance": "for a while"}}, "PoolInMaintenance"),
        ({"access": CLOSED}, "Granted"),
        ({"allocation": {"mode": "Exclusive"}}, "Granted"),
    ],
    ids=["it closes", "RBAC has to allow it now", "something else changes"],
)
async def test_a_pool_that_changes_while_a_review_waits_is_looked_at_anew(change: Any, expected: str) -> None:
    replica = Replica()
    async with AsyncExitStack() as inside:
        for _ in range(IN_FLIGHT_MAX):
            await inside.enter_async_context(replica.handler._limiter.acquire())
        answer = asyncio.create_task(replica.answer())
        await asyncio.sleep(0.01)
        asked = replica.reviews.asked
        replica.caches.pools.on_watch_event(world.refusing_pool(**change, meta={"resource_version": "7"}))
    assert await answer == expected
    assert replica.reviews.asked == asked + (expected == "Granted")
