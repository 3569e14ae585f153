"""Clients that connect and say little, over real TLS: they hold nothing that others need, and are told to go."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

import aiohttp
import psutil
import pytest

from controllers.runtime.connections import ENDING
from controllers.runtime.listener import GRACE
from tests.kit.pace import Stretch
from tests.kit.sockets import ended
from tests.kit.waiting import PATIENCE, until
from tests.webhook import direct
from tests.webhook.direct import Load, review, send, word
from tests.webhook.plane import Api, Plane, Replica

if TYPE_CHECKING:
    import ssl
    from collections.abc import AsyncIterator, Awaitable, Callable

pytestmark = pytest.mark.cluster
SLOW = 100
NOTICED = 3.0
"""Seconds; the API server gives up after five, and one of these clients is told to go after two."""
CLIENTS, REVIEWS = 4, 75
HEAD = b"POST /mutate-pods HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n"
Peer = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@pytest.fixture
async def session(api: Api, pair: list[Replica]) -> AsyncIterator[aiohttp.ClientSession]:
    """Trusts what the API server trusts."""
    del pair
    connector = aiohttp.TCPConnector(ssl=await direct.trust(api), limit=200, **ENDING)
    async with aiohttp.ClientSession(connector=connector, timeout=aiohttp.ClientTimeout(total=PATIENCE)) as made:
        yield made


@pytest.fixture
async def pool(plane: Plane, api: Api, session: aiohttp.ClientSession, pair: list[Replica]) -> str:
    """A pool with cards, which the first replica knows."""
    name = await api.pool(plane.unique("pool"))
    await api.node(plane.unique("node"), name, 4)

    async def known() -> bool:
        return word(await send(session, pair[0].port, review(name, dry_run=True))) == "Granted"

    await until(known, "the replica to know the pool")
    return name


async def silent(port: int, _: ssl.SSLContext) -> Peer:
    """Connects, and never shakes hands."""
    return await asyncio.open_connection("127.0.0.1", port)


async def idle(port: int, tls: ssl.SSLContext) -> Peer:
    """Shakes hands, and says nothing."""
    return await asyncio.open_connection("127.0.0.1", port, ssl=tls, server_hostname="localhost")


async def headless(port: int, tls: ssl.SSLContext) -> Peer:
    """Never comes to the end of its headers."""
    reader, writer = await idle(port, tls)
    writer.write(HEAD)
    return reader, writer


async def bodiless(port: int, tls: ssl.SSLContext) -> Peer:
    """Sends a body byte by byte."""
    reader, writer = await headless(port, tls)
    writer.write(b"\r\n{")
    return reader, writer


@pytest.mark.parametrize("connect", [silent, idle, headless, bodiless])
async def test_who_is_slow_delays_nobody(
    api: Api,
    session: aiohttp.ClientSession,
    pair: list[Replica],
    pool: str,
    connect: Callable[[int, ssl.SSLContext], Awaitable[Peer]],
) -> None:
    port, tls = pair[0].port, await direct.trust(api)
    peers = [await connect(port, tls) for _ in range(SLOW)]
    dripping = asyncio.create_task(_drip(peers)) if connect in (headless, bodiless) else None
    with Stretch() as machine:
        load = await Load.run(session, port, CLIENTS, REVIEWS, lambda: review(pool, dry_run=True))
    assert set(load.outcomes) == {"Granted"}
    assert pair[0].get("/readyz") == "ok\n"
    if connect is bodiless:
        answers = await asyncio.gather(*(reader.readline() for reader, _ in peers))
        assert {answer.split()[1] for answer in answers} == {b"408"}
    if dripping is not None:
        dripping.cancel()
    await ended(*(writer for _, writer in peers))
    machine.judge("the slowest review", max(load.seconds), NOTICED)


async def _drip(peers: list[Peer]) -> None:
    """A byte of a header, or of a body, now and then: whoever waits for silence waits for ever."""
    while True:
        for _, writer in peers:
            with contextlib.suppress(OSError):
                writer.write(b"x")
        await asyncio.sleep(0.5)


async def test_one_that_reads_no_answer_holds_up_nobody(
    api: Api, session: aiohttp.ClientSession, pair: list[Replica], pool: str
) -> None:
    port, tls = pair[0].port, await direct.trust(api)
    body = review(pool, dry_run=True)
    head = b"POST /mutate-pods HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(body)
    peers = [await idle(port, tls) for _ in range(10)]
    for _, writer in peers:
        writer.transport.pause_reading()  # type: ignore[attr-defined]
        writer.write((head + body) * 20)
    with Stretch() as machine:
        load = await Load.run(session, port, CLIENTS, REVIEWS, lambda: review(pool, dry_run=True))
    assert set(load.outcomes) == {"Granted"}
    await ended(*(writer for _, writer in peers))
    machine.judge("the slowest review", max(load.seconds), NOTICED)


async def test_a_thousand_connections_that_say_nothing_take_little_memory(
    api: Api, session: aiohttp.ClientSession, pair: list[Replica], pool: str
) -> None:
    """1,200 took 330 MB, and a replica has 512."""
    port, tls, process = pair[0].port, await direct.trust(api), psutil.Process(pair[0].process.pid)
    await Load.run(session, port, CLIENTS, REVIEWS, lambda: review(pool, dry_run=True))
    before = process.memory_info().rss
    peers: list[Peer] = []
    for _ in range(20):
        peers += await asyncio.gather(*(idle(port, tls) for _ in range(50)))
    with Stretch() as machine:
        load = await Load.run(session, port, CLIENTS, REVIEWS, lambda: review(pool, dry_run=True))
    grown = (process.memory_info().rss - before) / 1e6
    await ended(*(writer for _, writer in peers))
    assert set(load.outcomes) == {"Granted"}
    assert grown < 100, f"{grown:.0f} MB"
    machine.judge("the slowest review", max(load.seconds), NOTICED)


@pytest.mark.parametrize("connect", [silent, idle])
async def test_a_flood_of_connections_keeps_no_newcomer_out(
    api: Api,
    session: aiohttp.ClientSession,
    pair: list[Replica],
    pool: str,
    connect: Callable[[int, ssl.SSLContext], Awaitable[Peer]],
) -> None:
    """What is kept of the API server's stays where it asks again, and each new one of its gets its answer."""
    port, tls = pair[0].port, await direct.trust(api)
    peers: list[Peer] = []

    async def flood() -> None:
        for _ in range(30):
            with contextlib.suppress(OSError):
                peers.extend(await asyncio.gather(*(connect(port, tls) for _ in range(40))))

    flooding = asyncio.create_task(flood())
    found: list[tuple[str | None, Stretch]] = []
    try:
        while not flooding.done():
            async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=tls, **ENDING)) as fresh:
                found.append(await _asked(fresh, port, pool))
            found.append(await _asked(session, port, pool))
    finally:
        await flooding
        await ended(*(writer for _, writer in peers))
    assert {answer for answer, _ in found} - {None} == {"Granted"}
    for answer, machine in found:
        if answer is None:  # a handshake that the machine delays gives way after `GRACE`, as a stranger's does
            assert machine.seconds >= GRACE, f"a newcomer was ended after {machine.seconds:.3g} s"
            machine.judge("a newcomer's request, which got no answer,", machine.seconds, GRACE)


async def _asked(session: aiohttp.ClientSession, port: int, pool: str) -> tuple[str | None, Stretch]:
    """What a review comes to, None where the connection was ended; and the stretch in which it did."""
    answer = None
    with Stretch() as machine, contextlib.suppress(aiohttp.ClientError, TimeoutError):
        answer = word(await send(session, port, review(pool, dry_run=True)))
    return answer, machine
