"""Reviews of pods that may wait: what is reserved at once, what waits instead, and what is left of a write in vain."""

from __future__ import annotations

import asyncio
import base64
from typing import TYPE_CHECKING, Any

import orjson
import pytest

from controllers.api import names
from controllers.api.settings import parse_settings
from controllers.runtime.errors import Busy, Conflict, NotFound
from tests.kit.clock import LoopClock
from tests.webhook import world
from tests.webhook.test_lanes import Server, reserver
from webhook import metrics
from webhook.handlers.pod_creation import PLACEMENTS_MAX, RESERVED_WITHIN, PodCreationHandler

if TYPE_CHECKING:
    from webhook.decision.review import Request
    from webhook.decision.verdict import Placed


class Answer:
    """What a pod's creator gets, and the API server's audit log."""

    def __init__(self, raw: dict[str, Any], response: dict[str, Any]) -> None:
        self.reason: str = response["auditAnnotations"]["reason"]
        self.request: str = response["auditAnnotations"]["request-id"]
        self.warnings: list[str] = response.get("warnings", [])
        patch = orjson.loads(base64.b64decode(response["patch"])) if "patch" in response else []
        self.pod = world.apply_patch(raw, patch)
        if response["allowed"]:
            assert self.pod["metadata"]["annotations"][names.REQUEST_ID] == self.request

    @property
    def gates(self) -> list[str]:
        return [gate["name"] for gate in self.pod["spec"].get("schedulingGates", ())]


class Replica:
    """A webhook with a pool `a`, whose cards a server keeps; it notes under which requests it reserves."""

    def __init__(self, cards: int = 4, **admission: Any) -> None:
        self.caches, settings = world.stores(), parse_settings({"admission": admission})
        self.server = Server(self.caches, *(world.device("n1", number) for number in range(cards)))
        self.reserver, self.requests = reserver(self.server), list[str]()
        nobody: Any = None
        itself: Any = self
        self.handler = PodCreationHandler(nobody, self.caches, self.server.snapshot, itself, lambda: settings)

    async def reserve(self, request: Request, placed: Placed, ttl: float) -> None:
        self.requests.append(placed.request_id)
        await self.reserver.reserve(request, placed, ttl)

    async def answer(self, units: int = 1, *, dry_run: bool = False, **spec: Any) -> Answer:
        raw = world.pod(units, **spec)
        body = orjson.dumps(world.review_of(raw, dryRun=dry_run))
        return Answer(raw, orjson.loads(await self.handler.handle(body, 10.0))["response"])

    def reserved(self) -> list[str]:
        """Requests for which the server keeps cards; nothing else is held once no review is under way."""
        assert all(each.in_flight == 0 for each in self.server.snapshot.view("a", "team", world.NOW).capacities)
        return sorted(request for name in self.server.objects for request in self.server.promised(name))


async def at_once(answer: asyncio.Future[Answer]) -> Answer:
    """An answer that waits for nothing but turns of the loop."""
    for _ in range(20):
        await asyncio.sleep(0)
    assert answer.done(), "it waits for a write"
    return await answer


@pytest.fixture(autouse=True)
async def clock(monkeypatch: pytest.MonkeyPatch) -> LoopClock:
    """No write is late unless a test says so."""
    return LoopClock(monkeypatch)


async def test_where_there_is_room_cards_are_reserved_at_once() -> None:
    replica = Replica()
    found = await replica.answer(2)
    assert (found.reason, found.gates, found.warnings) == ("Granted", [], [])
    assert replica.reserved() == [found.request] * 2


async def test_where_there_is_none_whoever_creates_the_pod_reads_that_it_waits() -> None:
    replica = Replica()
    before = metrics.REVIEWS.labels("queued", "Shortage")._value.get()
    found = await replica.answer(5)
    assert (found.reason, found.gates) == ("Queued", [names.CARDS_GATE])
    assert found.warnings == [
        "the pod waits for 5 of GPUPool a: there are not enough free ones. See kubectl gpu queue a"
    ]
    assert (replica.requests, replica.reserved()) == ([], [])
    assert metrics.REVIEWS.labels("queued", "Shortage")._value.get() == before + 1


async def test_behind_pods_that_wait_nothing_is_reserved() -> None:
    replica = Replica()
    gated = world.pods.pod("first", 9, schedulingGates=[{"name": names.CARDS_GATE}], meta={"resourceVersion": "1"})
    replica.caches.pods.on_watch_event(gated)
    found = await replica.answer()
    assert (found.reason, found.gates, found.warnings) == ("Queued", [names.CARDS_GATE], [])
    replica.caches.pods.on_watch_event(gated, deleted=True)
    assert (await replica.answer()).reason == "Granted"
    assert len(replica.requests) == 1


@pytest.mark.parametrize(("units", "reason"), [(1, "Granted"), (5, "Queued")])
async def test_a_dry_run_writes_nothing(units: int, reason: str) -> None:
    replica = Replica()
    found = await replica.answer(units, dry_run=True)
    assert (found.reason, bool(found.warnings)) == (reason, reason == "Queued")
    assert (replica.requests, replica.server.writes, replica.reserved()) == ([], 0, [])


def left_to_queue(why: str) -> float:
    return float(metrics.LEFT_TO_QUEUE.labels(why)._value.get())


async def test_beyond_so_many_writes_at_once_pods_wait_in_the_queue_and_not_here() -> None:
    replica, before = Replica(reservationsInFlight=2), left_to_queue("InFlight")
    replica.server.gate.clear()
    writing = [asyncio.ensure_future(replica.answer()) for _ in range(2)]
    await replica.server.busy.wait()
    assert len(replica.requests) == 2
    beyond = [await at_once(asyncio.ensure_future(replica.answer())) for _ in range(3)]
    assert {(found.reason, *found.gates) for found in beyond} == {("Queued", names.CARDS_GATE)}
    assert left_to_queue("InFlight") == before + 3
    assert (await at_once(asyncio.ensure_future(replica.answer(dry_run=True)))).reason == "Granted", "it writes nothing"
    replica.server.gate.set()
    granted = await asyncio.gather(*writing)
    assert {found.reason for found in granted} == {"Granted"}
    assert replica.reserved() == sorted(found.request for found in granted)
    assert (await replica.answer()).reason == "Granted", "there is room again"


async def test_a_write_in_time_is_waited_for(clock: LoopClock) -> None:
    replica = Replica()
    replica.server.gate.clear()
    answer = asyncio.ensure_future(replica.answer())
    await replica.server.busy.wait()
    clock.now += RESERVED_WITHIN - 0.01
    await asyncio.sleep(0)
    replica.server.gate.set()
    assert (await answer).reason == "Granted"


async def late(replica: Replica, clock: LoopClock, **pool: Any) -> Answer:
    """The answer of a review whose write is on its way when its time is over. `pool`: what that becomes meanwhile."""
    replica.server.gate.clear()
    answer = asyncio.ensure_future(replica.answer())
    await replica.server.busy.wait()
    if pool:
        replica.caches.pools.on_watch_event(world.pool(**pool, meta={"resource_version": "7"}))
    clock.now += RESERVED_WITHIN + 0.01
    return await at_once(answer)


async def test_a_late_write_is_taken_back_and_its_pod_waits_under_another_request(clock: LoopClock) -> None:
    replica, before = Replica(), left_to_queue("Slow")
    found = await late(replica, clock)
    assert (found.reason, found.gates, found.warnings) == ("Queued", [names.CARDS_GATE], [])
    assert left_to_queue("Slow") == before + 1
    replica.server.gate.set()  # what was on its way arrives now
    await replica.reserver.drain()
    assert (replica.server.writes, replica.reserved()) == (2, [])
    assert len(replica.requests) == 1
    assert found.request not in replica.requests, "what is taken back is never taken for what the queue reserves"


@pytest.mark.parametrize(
    ("pool", "reason"),
    [
        ({"conditions": {"Maintenance": "for a while."}}, names.POOL_IN_MAINTENANCE),
        ({"access": {"namespaces": ["other"]}, "conditions": {"Misconfigured": "x."}}, names.POOL_MISCONFIGURED),
        ({"queue": {"onShortage": "Refuse"}}, "ReservationNotWritten"),
    ],
    ids=["it closes", "it breaks", "it lets no pod wait any more"],
)
async def test_a_pool_that_changes_meanwhile_is_looked_at_anew(clock: LoopClock, pool: Any, reason: str) -> None:
    replica = Replica()
    found = await late(replica, clock, **pool)
    assert (found.reason, found.gates) == (reason, [])
    replica.server.gate.set()
    await replica.reserver.drain()
    assert replica.reserved() == []


@pytest.mark.parametrize(
    ("error", "tries"),
    [(Busy(429, "TooManyRequests", "later"), 1), (Conflict(409, "Conflict", "x"), PLACEMENTS_MAX)],
    ids=["the API server is busy", "others are always faster"],
)
async def test_a_write_that_fails_lets_the_pod_wait(error: Exception, tries: int) -> None:
    def meanwhile() -> None:
        raise error

    replica = Replica()
    replica.server.meanwhile = meanwhile
    found = await replica.answer()
    assert (found.reason, found.gates) == ("Queued", [names.CARDS_GATE])
    assert len(replica.requests) == tries
    assert found.request not in replica.requests
    assert replica.reserved() == []


@pytest.mark.parametrize(("cards", "reason"), [(1, "Queued"), (2, "Granted")])
async def test_a_card_that_is_gone_is_not_chosen_again(cards: int, reason: str) -> None:
    errors = [NotFound(404, "NotFound", "x", about="n1-0")]

    def meanwhile() -> None:
        if errors:
            raise errors.pop()

    replica = Replica(cards)
    replica.server.meanwhile = meanwhile
    assert (await replica.answer()).reason == reason
    assert (errors, len(replica.requests)) == ([], cards)


async def test_a_bug_is_no_shortage() -> None:
    def meanwhile() -> None:
        raise RuntimeError("a bug")

    replica = Replica()
    replica.server.meanwhile = meanwhile
    assert (await replica.answer()).reason == "InternalError"
