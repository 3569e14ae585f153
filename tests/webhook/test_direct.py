"""What is sent straight to a replica: garbage, giants, slow clients, races, and load."""

from __future__ import annotations

import asyncio
import io
import ssl
import sys
import time
from collections import Counter
from typing import TYPE_CHECKING, Any

import aiohttp
import orjson
import psutil
import pytest

from controllers.api.resources import GPUDEVICE
from controllers.runtime.connections import ENDING
from tests.kit.sockets import ended
from tests.kit.waiting import PATIENCE, until
from tests.webhook import direct, world
from tests.webhook.direct import Load, review, send, word
from tests.webhook.plane import Api, Plane, Replica

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

pytestmark = pytest.mark.cluster


@pytest.fixture
async def session(api: Api, pair: list[Replica]) -> AsyncIterator[aiohttp.ClientSession]:
    """Trusts what the API server trusts."""
    del pair
    connector = aiohttp.TCPConnector(ssl=await direct.trust(api), limit=200, **ENDING)
    async with aiohttp.ClientSession(connector=connector, timeout=aiohttp.ClientTimeout(total=PATIENCE)) as made:
        yield made


async def pool_of(
    plane: Plane, api: Api, session: aiohttp.ClientSession, pair: list[Replica], nodes: int, cards: int
) -> str:
    """A pool that both replicas know."""
    pool = await api.pool(plane.unique("pool"))
    created = [plane.unique("node") for _ in range(nodes)]
    for first in range(0, nodes, 8):
        await asyncio.gather(*(api.node(name, pool, cards) for name in created[first : first + 8]))

    async def known() -> bool:
        answers = [await send(session, replica.port, review(pool, units=999, dry_run=True)) for replica in pair]
        return all(f"free {nodes * cards})" in answer["status"]["message"] for answer in answers)

    await until(known, f"the replicas to know {nodes * cards} cards of {pool}")
    return pool


def tell(figures: str) -> None:
    """For a person who runs this with `-s`."""
    sys.stdout.write(f"\n{figures}\n")


async def conflicts(pair: list[Replica]) -> float:
    """Reservations that came too late, so far."""
    return sum([await asyncio.to_thread(replica.metric, "gpu_webhook_conflicts_total") for replica in pair])


async def test_what_is_no_review_gets_a_sentence(session: aiohttp.ClientSession, pair: list[Replica]) -> None:
    url = f"https://127.0.0.1:{pair[0].port}/mutate-pods"
    for body, status, part in (
        (b"hello", 400, "is not JSON"),
        (b"{}", 400, "no AdmissionReview"),
        (b"x" * ((8 << 20) + 1), 413, "larger than 8388608 bytes"),
    ):
        async with session.post(url, data=io.BytesIO(body)) as answer:
            text = await answer.text()
            assert (answer.status, part in text) == (status, True), text
    async with session.get(url) as answer:
        assert answer.status == 405
    assert pair[0].process.poll() is None


async def test_a_review_of_many_megabytes_is_answered(
    plane: Plane, api: Api, session: aiohttp.ClientSession, pair: list[Replica]
) -> None:
    pool = await pool_of(plane, api, session, pair, 1, 1)
    for size in (2 << 20, 7 << 20):
        pod = world.pod(pool=pool, meta={"annotations": {"big": "x" * size}}, tolerations=[{"operator": "Exists"}])
        body = orjson.dumps(world.review_of(pod, uid="big", dryRun=True))
        response = await send(session, pair[0].port, body)
        assert (response["uid"], word(response)) == ("big", "Granted")


async def test_slow_clients_delay_nobody(
    plane: Plane, api: Api, session: aiohttp.ClientSession, pair: list[Replica]
) -> None:
    port, tls = pair[0].port, await direct.trust(api)
    pool = await pool_of(plane, api, session, pair, 1, 1)
    slow = [await asyncio.open_connection("127.0.0.1", port, ssl=tls, server_hostname="localhost") for _ in range(20)]
    for _, writer in slow:
        writer.write(b"POST /mutate-pods HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n{")
    load = await Load.run(session, port, 4, 100, lambda: review(pool, dry_run=True))
    assert set(load.outcomes) == {"Granted"}
    answers = await asyncio.gather(*(reader.readline() for reader, _ in slow))
    assert {answer.split()[1] for answer in answers} == {b"408"}
    await ended(*(writer for _, writer in slow))


async def test_only_current_tls_is_spoken(api: Api, pair: list[Replica]) -> None:
    old = await direct.trust(api)
    old.minimum_version = ssl.TLSVersion.MINIMUM_SUPPORTED
    old.set_ciphers("ALL:@SECLEVEL=0")
    with pytest.warns(DeprecationWarning, match="TLSv1_1"):
        old.maximum_version = ssl.TLSVersion.TLSv1_1
    with pytest.raises((ssl.SSLError, ConnectionError)):
        await asyncio.open_connection("127.0.0.1", pair[0].port, ssl=old, server_hostname="localhost")


async def _free(api: Api, pool: str) -> None:
    """Take all reservations away, as the pool controller does when they end."""
    for card in await api.cards(pool):
        if card["status"].get("reservations"):
            await api.status(GPUDEVICE, card["metadata"]["name"], {"state": "Assigned", "reservations": []})


async def _settled(session: aiohttp.ClientSession, pair: list[Replica], pool: str, free: int) -> None:
    async def known() -> bool:
        answers = [await send(session, replica.port, review(pool, units=999, dry_run=True)) for replica in pair]
        return all(f"free {free})" in answer["status"]["message"] for answer in answers)

    await until(known, f"the replicas to see {free} free cards")


async def test_of_many_who_race_for_the_last_card_one_wins(
    plane: Plane, api: Api, session: aiohttp.ClientSession, pair: list[Replica]
) -> None:
    pool = await pool_of(plane, api, session, pair, 1, 1)
    for _ in range(15):
        await _settled(session, pair, pool, 1)
        responses = await asyncio.gather(
            *(send(session, replica.port, review(pool)) for _ in range(4) for replica in pair)
        )
        assert Counter(map(word, responses)) == {"Granted": 1, "InsufficientCapacity": 7}
        assert len(await api.reservations(pool)) == 1
        await _free(api, pool)
    # Some lost at the API server, not in their own cache: the precondition was needed.
    assert await conflicts(pair) > 0


async def test_all_cards_of_a_pod_or_none(
    plane: Plane, api: Api, session: aiohttp.ClientSession, pair: list[Replica]
) -> None:
    pool = await pool_of(plane, api, session, pair, 1, 8)
    for round_number in range(6):
        await _settled(session, pair, pool, 8)
        responses = await asyncio.gather(
            *(send(session, replica.port, review(pool, units=3)) for _ in range(3) for replica in pair)
        )
        reserved = await api.reservations(pool)
        by_request = Counter(entry["requestID"] for entry in reserved)
        granted = Counter(map(word, responses))["Granted"]
        assert set(by_request.values()) <= {3}, (round_number, by_request)
        assert len(by_request) == granted
        assert len({entry["card"] for entry in reserved}) == len(reserved)
        assert granted in (1, 2)
        await _free(api, pool)


async def test_a_burst_over_two_replicas_fills_the_pool_exactly(
    plane: Plane, api: Api, session: aiohttp.ClientSession, pair: list[Replica]
) -> None:
    pool = await pool_of(plane, api, session, pair, 8, 8)
    before, began = await conflicts(pair), time.perf_counter()

    async def round_of(numbers: list[int]) -> dict[int, str]:
        asked = (send(session, pair[n % 2].port, review(pool, namespace=f"team-{n % 9}")) for n in numbers)
        return dict(zip(numbers, map(word, await asyncio.gather(*asked)), strict=True))

    # Whoever is refused comes again, as controllers do: a replica that gets no processor for three seconds gives up.
    waiting, granted = list(range(72)), 0
    while waiting and granted < 64:
        answers = await round_of(waiting)
        found = Counter(answers.values())
        assert found["InsufficientCapacity"] <= 8 + found["ReservationNotWritten"], "refused while there were cards"
        assert set(answers.values()) <= {"Granted", "InsufficientCapacity", "ReservationNotWritten"}
        assert time.perf_counter() - began < PATIENCE, answers
        waiting = [n for n, answer in answers.items() if answer != "Granted"]
        granted = 72 - len(waiting)
    tell(
        f"72 at once for 64 cards: {time.perf_counter() - began:.2f} s, {await conflicts(pair) - before:.0f} conflicts"
    )
    assert granted == 64
    assert set((await round_of(waiting)).values()) == {"InsufficientCapacity"}
    reserved = await api.reservations(pool)
    assert len({entry["card"] for entry in reserved}) == len(reserved) == 64


async def test_a_namespace_whose_pods_never_appear_is_held_back(
    plane: Plane, api: Api, session: aiohttp.ClientSession, pair: list[Replica]
) -> None:
    pool = await pool_of(plane, api, session, pair, 5, 8)
    taken = await asyncio.gather(*(send(session, pair[0].port, review(pool, namespace="loop")) for _ in range(32)))
    assert Counter(map(word, taken)) == {"Granted": 32}

    async def held_back() -> Any:
        response = await send(session, pair[1].port, review(pool, namespace="loop", dry_run=True))
        return not response["allowed"] and response["status"]["message"]

    message = await until(held_back, "the namespace to be held back")
    assert message.startswith("InsufficientCapacity: namespace loop has 32 reservations whose pods never appeared")
    others = await send(session, pair[1].port, review(pool, namespace="calm", dry_run=True))
    assert word(others) == "Granted"


async def test_a_decision_costs_no_more_in_a_fleet_than_on_a_node(
    plane: Plane, api: Api, session: aiohttp.ClientSession, pair: list[Replica]
) -> None:
    """In the processor's time, which is the same however many others want it; `make bench` has the milliseconds."""
    few, many = [await pool_of(plane, api, session, pair, nodes, 8) for nodes in (1, 125)]
    process, count = psutil.Process(pair[0].process.pid), 500

    async def cpu(pool: str) -> float:
        before = process.cpu_times()
        load = await Load.run(session, pair[0].port, 4, count, lambda: review(pool, dry_run=True))
        after = process.cpu_times()
        assert set(load.outcomes) == {"Granted"}
        return 1000 * (after.user + after.system - before.user - before.system) / count

    await cpu(few)  # connections are made, and the interpreter is warm
    # A cold cache doubles one figure of several: the least of each is the work itself.
    turns = [(await cpu(few), await cpu(many)) for _ in range(5)]
    floor, full = map(min, zip(*turns, strict=True))
    tell(f"CPU of a review: {floor:.2f} ms among 8 cards, {full:.2f} ms among 1,000")
    assert full < 3 * floor, f"125 times the nodes: {turns}"
