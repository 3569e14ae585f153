"""What is written for a reservation, and what an admission answers when writing goes wrong."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import orjson
import pytest

from controllers.api.settings import Settings
from controllers.domain.clock import seconds
from controllers.domain.placement.choice import Placement, Share
from controllers.domain.request import PoolRequest
from controllers.runtime.errors import Busy, Conflict, NotFound
from tests.kit.objects import condition, reservation
from tests.webhook import world
from webhook.decision.verdict import Placed
from webhook.handlers.pod_creation import PLACEMENTS_MAX, PodCreationHandler
from webhook.reservations.reserve import Reserver, status_with

if TYPE_CHECKING:
    from controllers.runtime.plan import Merge

REQUEST = world.request_of(world.pod())


def granted(*devices: Any) -> Placed:
    shares = tuple(Share(device, 1) for device in devices)
    return Placed(PoolRequest("a", len(shares)), "r9", Placement("n1", shares), ())


class Written:
    """Stands where the executor would write."""

    def __init__(self) -> None:
        self.merges: list[Merge] = []

    async def execute(self, actions: list[Merge]) -> None:
        self.merges += actions


def reserver(caches: Any, written: Written) -> Reserver:
    unused: Any = None
    executor: Any = written
    made = world.snapshot(caches)
    return Reserver(
        unused, executor, caches.devices, is_bound=made.is_bound, still_fits=made.still_fits, clock=lambda: world.NOW
    )


async def test_a_reservation_is_conditional_on_what_was_seen() -> None:
    caches, written = world.stores(), Written()
    card = world.device("n1", 1)
    caches.devices.on_watch_event(card)
    await reserver(caches, written).reserve(REQUEST, granted(card), 15)
    (merge,) = written.merges
    assert (merge.ref.name, merge.ref.uid, merge.resource_version, merge.subresource) == (
        "n1-1",
        "u-n1-1",
        "1",
        "status",
    )
    (entry,) = merge.body["status"]["reservations"]
    assert merge.body["status"]["state"] == "Reserved"
    assert (entry["requestID"], entry["namespace"], entry["pod"], entry["slots"]) == ("r9", "team", "p", 1)
    assert (entry["seen"], seconds(entry["since"]), seconds(entry["expiresAt"])) == (False, world.NOW, world.NOW + 15)


async def test_a_newer_version_of_the_same_card_is_used() -> None:
    caches, written = world.stores(), Written()
    seen = world.device("n1", 1)
    caches.devices.on_watch_event(replace(seen, metadata=replace(seen.metadata, resource_version="7")))
    await reserver(caches, written).reserve(REQUEST, granted(seen), 15)
    assert written.merges[0].resource_version == "7"


async def test_the_promise_to_a_pod_that_is_bound_is_replaced() -> None:
    caches, written = world.stores(), Written()
    kept = [reservation("r1"), reservation("r2")]
    card = world.device("n1", 1, slots=4, reservations=kept)
    caches.devices.on_watch_event(card)
    caches.pods.on_watch_event(world.stored_pod("elsewhere", "n2", request="r1"))
    caches.pods.on_watch_event(world.stored_pod("waits", None, request="r2"))
    await reserver(caches, written).reserve(REQUEST, granted(card), 15)
    entries = written.merges[0].body["status"]["reservations"]
    assert [entry["requestID"] for entry in entries] == ["r2", "r9"]


async def test_what_changes_after_the_decision_is_not_written_over() -> None:
    caches, written = world.stores(), Written()
    card = world.device("n1", 1)
    caches.devices.on_watch_event(card)
    task = asyncio.ensure_future(reserver(caches, written).reserve(REQUEST, granted(card), 15))
    await asyncio.sleep(0)
    # Another replica was faster, and the watch tells it just before our write leaves.
    taken = world.device("n1", 1, reservations=[reservation("r1")])
    caches.devices.on_watch_event(replace(taken, metadata=replace(taken.metadata, resource_version="8")))
    await task
    assert written.merges[0].resource_version == "1"


STATUS: dict[str, tuple[dict[str, Any], str, list[str]]] = {
    "free": ({}, "Assigned", []),
    "reserved": ({"reservations": [reservation("r1")]}, "Reserved", ["r1"]),
    "expired": ({"reservations": [reservation("r1", until=world.NOW - 1)]}, "Assigned", []),
    "one of two": (
        {"reservations": [reservation("r1", until=world.NOW - 1), reservation("r2")]}, "Reserved", ["r2"],
    ),
    "faulted": (
        {"conditions": [condition("Faulted")], "reservations": [reservation("r1")]},
        "Faulted", ["r1"],
    ),
    "in no pool": ({"pool_ref": None}, "Unassigned", []),
}  # fmt: skip


@pytest.mark.parametrize(("status", "state", "kept"), STATUS.values(), ids=STATUS.keys())
def test_state_and_reservations_are_written_together(status: dict[str, Any], state: str, kept: list[str]) -> None:
    device = world.device("n1", 1, **status)
    written = status_with(device, device.status.reservations, world.NOW)
    assert written["state"] == state
    assert [entry["requestID"] for entry in written["reservations"]] == kept


class Failing:
    """A reserver that fails as it is told."""

    def __init__(self, *errors: BaseException | None) -> None:
        self.errors, self.tries = list(errors), []

    async def reserve(self, _request: Any, granted: Placed, _ttl: float) -> None:
        self.tries.append([share.device.name for share in granted.placement.shares])
        error = self.errors.pop(0) if len(self.errors) > 1 else self.errors[0]
        if isinstance(error, asyncio.TimeoutError):
            await asyncio.sleep(60)
        if error is not None:
            raise error


async def answered(failing: Failing, cards: int = 2) -> dict[str, Any]:
    caches = world.stores()
    snapshot = world.snapshot(caches)
    caches.pools.on_watch_event(world.refusing_pool())
    caches.nodes.on_watch_event(world.node("n1"))
    for number in range(cards):
        caches.devices.on_watch_event(world.device("n1", number))
    client: Any = None
    stub: Any = failing
    admission = PodCreationHandler(client, caches, snapshot, stub, Settings)
    response = orjson.loads(await admission.handle(orjson.dumps(world.review_of(world.pod())), 0.2))["response"]
    # Whatever happened, nothing is held any more.
    assert sum(shelf.in_flight for shelf in snapshot.view("a", "team", world.NOW).capacities) == 0
    return response


async def test_a_conflict_is_tried_again() -> None:
    failing = Failing(Conflict(409, "Conflict", "x"), Conflict(409, "Conflict", "x"), None)
    assert (await answered(failing))["allowed"]
    assert len(failing.tries) == 3


async def test_a_card_that_is_gone_is_not_chosen_again() -> None:
    failing = Failing(NotFound(404, "NotFound", "x", about="n1-0"), None)
    # The watch has not told it yet: the cache still shows the card.
    assert (await answered(failing, cards=1))["status"]["message"].startswith("InsufficientCapacity: ")
    assert failing.tries == [["n1-0"]]


@pytest.mark.parametrize(
    ("error", "word", "code"),
    [
        (Busy(429, "TooManyRequests", "later"), "ReservationNotWritten", 503),
        (Conflict(409, "Conflict", "x"), "ReservationNotWritten", 503),
        (TimeoutError(), "ReservationNotWritten", 503),
        (RuntimeError("a bug"), "InternalError", 500),
    ],
    ids=["busy", "always a conflict", "too slow", "a bug"],
)
async def test_what_goes_wrong_is_told_under_the_uid(error: Exception, word: str, code: int) -> None:
    failing = Failing(error)
    response = await answered(failing)
    assert response["uid"] == REQUEST.uid
    assert not response["allowed"]
    assert response["status"]["message"].startswith(f"{word}: ")
    assert response["status"]["code"] == code
    assert len(failing.tries) <= PLACEMENTS_MAX
