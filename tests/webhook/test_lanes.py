"""Pods that share a card: their reservations are written one after the other, and none over another's."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from controllers.api import names
from controllers.api.gpudevice import GPUDevice
from controllers.api.record import adapter, to_json
from controllers.api.settings import Settings
from controllers.domain.placement.choice import Placement, Share
from controllers.domain.request import PoolRequest
from controllers.runtime.errors import Busy, Conflict
from tests.kit.objects import allocation, reservation
from tests.webhook import world
from webhook.decision.verdict import Placed
from webhook.handlers.pod_creation import PodCreationHandler
from webhook.metrics import CONFLICTS
from webhook.reservations.reserve import Reserver
from webhook.reservations.write_coalescer import WRITES_MAX

if TYPE_CHECKING:
    from collections.abc import Callable

    from controllers.runtime.plan import Merge

REQUEST = world.request_of(world.pod())
SHARED = {"mode": "TimeSlice", "timeSlice": {"maxSlicesPerDevice": 64}}


def granted(request: str, *devices: GPUDevice) -> Placed:
    shares = tuple(Share(device, 1) for device in devices)
    return Placed(PoolRequest("a", len(shares)), request, Placement("n1", shares), ())


class Server:
    """Keeps cards with their versions as the API server does, and gives what it wrote to the cache."""

    def __init__(self, caches: Any, *cards: GPUDevice) -> None:
        self.caches, self.objects = caches, {card.name: card for card in cards}
        self.writes, self.conflicts, self.reads = 0, 0, 0
        self.failures: list[Exception] = []
        """Of the next reads."""
        self.busy, self.gate = asyncio.Event(), asyncio.Event()
        self.gate.set()
        self.meanwhile: Callable[[], None] = lambda: None
        """What happens on the server while a write is on its way."""
        self.snapshot = world.snapshot(caches)
        caches.pools.on_watch_event(world.pool(allocation=SHARED))
        caches.nodes.on_watch_event(world.node("n1"))
        for card in cards:
            caches.devices.on_watch_event(card)

    def change(self, name: str, **status: Any) -> None:
        """Somebody else writes; the watch tells it at once."""
        card = self.objects[name]
        version = str(int(card.metadata.resource_version) + 1)
        fields = to_json(card.status) | status
        made = replace(
            card,
            metadata=replace(card.metadata, resource_version=version),
            status=adapter(GPUDevice).validate_python({"status": fields}).status,
        )
        self.objects[name] = made
        self.caches.devices.on_watch_event(made)

    async def execute(self, actions: list[Merge]) -> None:
        (merge,) = actions
        self.busy.set()
        await self.gate.wait()
        self.meanwhile()
        self.writes += 1
        if merge.resource_version != self.objects[merge.ref.name].metadata.resource_version:
            self.conflicts += 1
            raise Conflict(409, "Conflict", "another version")
        self.change(merge.ref.name, **merge.body["status"])

    async def get(self, _resource: Any, name: str) -> bytes:
        self.reads += 1
        if self.failures:
            raise self.failures.pop()
        return adapter(GPUDevice).dump_json(self.objects[name], by_alias=True, exclude_none=True)

    def promised(self, name: str) -> list[str]:
        return [entry.request_id for entry in self.objects[name].status.reservations]


def reserver(server: Server) -> Reserver:
    anything: Any = server
    made = server.snapshot
    return Reserver(
        anything,
        anything,
        server.caches.devices,
        is_bound=made.is_bound,
        still_fits=made.still_fits,
        clock=lambda: world.NOW,
    )


async def one_and_then_more(server: Server, made: Reserver, card: GPUDevice, more: int) -> list[BaseException | None]:
    """What becomes of pods that all chose the same version, when the write of the first is on its way already."""
    server.gate.clear()
    first = asyncio.ensure_future(made.reserve(REQUEST, granted("r0", card), 15))
    await server.busy.wait()
    rest = [asyncio.ensure_future(made.reserve(REQUEST, granted(f"r{n + 1}", card), 15)) for n in range(more)]
    await asyncio.sleep(0)  # each of them chooses, and waits for the card
    server.gate.set()
    return await asyncio.gather(first, *rest, return_exceptions=True)


async def test_many_pods_that_choose_one_card_at_once_are_one_write() -> None:
    caches, card = world.stores(), world.device("n1", 1, slots=64)
    server = Server(caches, card)
    made = reserver(server)
    await asyncio.gather(*(made.reserve(REQUEST, granted(f"r{n}", card), 15) for n in range(64)))

    assert sorted(server.promised("n1-1")) == sorted(f"r{n}" for n in range(64))
    assert (server.writes, server.conflicts) == (1, 0)
    assert len(made._writes) == 0


async def test_pods_over_two_cards_in_any_order_all_come_through() -> None:
    caches, one, two = world.stores(), world.device("n1", 1, slots=8), world.device("n1", 2, slots=8)
    server = Server(caches, one, two)
    made = reserver(server)
    orders = [(one, two), (two, one)] * 4
    await asyncio.gather(*(made.reserve(REQUEST, granted(f"r{n}", *cards), 15) for n, cards in enumerate(orders)))

    assert len(server.promised("n1-1")) == len(server.promised("n1-2")) == 8
    assert server.conflicts == 0


@pytest.mark.parametrize(
    "change",
    [
        {"reservations": [reservation("other", slots=8)]},
        {"published": {"pool": "a", "configVersion": "2", "slots": 1}},
        {"allocations": [allocation(slots=7)]},
    ],
)
async def test_who_finds_no_room_when_its_turn_comes_has_to_choose_again(change: Any) -> None:
    caches, card = world.stores(), world.device("n1", 1, slots=8)
    server = Server(caches, card)
    made, times = reserver(server), iter([None])

    def meanwhile() -> None:
        if server.writes == 1 and next(times, "done") is None:
            server.change("n1-1", **change)

    server.meanwhile = meanwhile
    found = await one_and_then_more(server, made, card, 3)

    assert [type(result) for result in found] == [type(None), Conflict, Conflict, Conflict]
    assert server.promised("n1-1") == (["other"] if "reservations" in change else ["r0"])


async def test_a_card_that_went_to_another_pool_meanwhile_gets_no_promise_of_the_old_one() -> None:
    caches, card = world.stores(), world.device("n1", 1, slots=8)
    server = Server(caches, card)
    caches.pools.on_watch_event(world.pool("b", allocation=SHARED))
    caches.nodes.on_watch_event(world.node("n1", **{names.pool_node_label("b"): ""}))
    made, times = reserver(server), iter([None])

    def meanwhile() -> None:
        if next(times, "done") is None:
            server.objects["n1-1"] = world.device("n1", 1, pool="b", slots=8)
            server.change("n1-1")

    server.meanwhile = meanwhile
    found = await one_and_then_more(server, made, card, 2)

    assert [type(result) for result in found] == [Conflict] * 3
    assert (server.promised("n1-1"), server.writes) == ([], 1)


async def test_a_lost_race_is_counted_once() -> None:
    caches, card = world.stores(), world.device("n1", 1)
    server = Server(caches, card)
    nobody: Any = None
    made = PodCreationHandler(nobody, caches, server.snapshot, reserver(server), Settings)
    server.meanwhile = lambda: server.change("n1-1", reservations=[reservation("other")])
    before = CONFLICTS._value.get()

    assert await made._reserve(REQUEST, granted("r0", card)) is False
    assert CONFLICTS._value.get() - before == 1 == server.conflicts


@pytest.mark.parametrize(
    "change",
    [
        {"allocations": [allocation(slots=3)]},
        {"reservations": [reservation("r0"), reservation("other", slots=3)]},
        {"state": "Assigned"},
    ],
)
async def test_what_somebody_else_changes_is_no_matter_while_there_is_room(change: Any) -> None:
    caches, card = world.stores(), world.device("n1", 1, slots=8)
    server = Server(caches, card)
    made, times = reserver(server), iter([None])

    def meanwhile() -> None:
        if server.writes == 1 and next(times, "done") is None:
            server.change("n1-1", **change)

    server.meanwhile = meanwhile
    found = await one_and_then_more(server, made, card, 3)

    assert found == [None] * 4
    assert (server.writes, server.conflicts) == (3, 1)
    assert [name for name in server.promised("n1-1") if name != "other"] == ["r0", "r1", "r2", "r3"]


async def test_who_always_conflicts_gives_up_and_the_next_goes_on() -> None:
    caches, card = world.stores(), world.device("n1", 1, slots=8)
    server = Server(caches, card)
    made = reserver(server)
    broken = iter(range(WRITES_MAX))

    def meanwhile() -> None:
        if next(broken, None) is not None:
            raise Conflict(409, "Conflict", "lost on the way")

    server.meanwhile = meanwhile
    found = await one_and_then_more(server, made, card, 2)

    assert [result is None for result in found] == [False, True, True]
    assert server.promised("n1-1") == ["r1", "r2"]
    assert len(made._writes) == 0


async def test_those_that_do_not_fit_together_are_taken_first_come_first() -> None:
    caches, card = world.stores(), world.device("n1", 1, slots=3)
    server = Server(caches, card)
    found = await one_and_then_more(server, reserver(server), card, 4)

    assert [result is None for result in found] == [True, True, True, False, False]
    assert server.promised("n1-1") == ["r0", "r1", "r2"]


async def test_a_review_that_runs_out_of_time_takes_nobody_with_it() -> None:
    caches, card = world.stores(), world.device("n1", 1, slots=8)
    server = Server(caches, card)
    made = reserver(server)
    server.gate.clear()
    tasks = [asyncio.ensure_future(made.reserve(REQUEST, granted(f"r{n}", card), 15)) for n in range(3)]
    await server.busy.wait()
    tasks[0].cancel()
    await asyncio.sleep(0)
    server.gate.set()
    found = await asyncio.gather(*tasks, return_exceptions=True)
    await made.drain()

    assert [result is None for result in found] == [False, True, True]
    assert set(server.promised("n1-1")) == {"r1", "r2"}
    assert len(made._writes) == 0


async def test_a_write_that_is_on_its_way_when_its_review_gives_up_is_taken_back() -> None:
    caches, card = world.stores(), world.device("n1", 1)
    server = Server(caches, card)
    made = reserver(server)
    server.gate.clear()
    task = asyncio.ensure_future(made.reserve(REQUEST, granted("r0", card), 15))
    await server.busy.wait()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    looked = server.reads
    for _ in range(20):  # turns of the loop: whoever does not wait for the write looks now, and finds nothing
        await asyncio.sleep(0)
    assert server.reads == looked
    server.gate.set()
    await made.drain()

    assert server.promised("n1-1") == []
    assert server.writes == 2


async def test_a_promise_is_taken_back_although_the_server_fails_meanwhile() -> None:
    caches, cards = world.stores(), [world.device("n1", number) for number in (1, 2)]
    server = Server(caches, *cards)
    made = reserver(server)
    server.failures = [Busy(503, "ServiceUnavailable", "soon")] * 2
    await made.reserve(REQUEST, granted("r0", *cards), 15)
    assert server.promised("n1-1") == ["r0"]
    await made.take_back_later(granted("r0", *cards), ["n1-1"])

    assert (server.promised("n1-1"), server.failures) == ([], [])
    assert server.promised("n1-2") == ["r0"]
