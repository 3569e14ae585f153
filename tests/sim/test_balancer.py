"""The balancer before the webhook's replicas: whom it asks, whom it leaves out, and what it does to those connected."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

import pytest
from aiohttp import web

from sim.module.balancer import HOST, Backend, Balancer, Probing
from tests.kit.sockets import ended
from tests.kit.waiting import PATIENCE

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    Connect = Callable[[], Awaitable["Peer"]]

FAST = Probing(period=0.02, timeout=2.0, misses=2)


class Replica:
    """Tells its name to whoever sends a line; its readiness is what a test says."""

    def __init__(self, name: str) -> None:
        self.name, self.status = name, 200
        self.backend = Backend(0)
        self._server: asyncio.Server
        self._runner: web.AppRunner

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._serve, HOST, 0)
        app = web.Application()
        app.router.add_get("/readyz", self._ready)
        self._runner = web.AppRunner(app)
        await self._runner.setup()
        await web.TCPSite(self._runner, HOST, 0).start()
        health = self._runner.addresses[0][1]
        self.backend = Backend(self._server.sockets[0].getsockname()[1], f"http://{HOST}:{health}/readyz")

    async def stop_health(self) -> None:
        await self._runner.cleanup()

    async def stop_serving(self) -> None:
        self._server.close()
        await asyncio.sleep(0)

    async def _ready(self, _: web.Request) -> web.Response:
        return web.Response(status=self.status)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while await reader.readline():
                writer.write(self.name.encode() + b"\n")
        writer.close()


@pytest.fixture
async def two() -> AsyncIterator[tuple[Replica, Replica]]:
    """Two replicas."""
    pair = Replica("a"), Replica("b")
    for replica in pair:
        await replica.start()
    yield pair
    for replica in pair:
        await replica.stop_health()
        await replica.stop_serving()


@pytest.fixture
async def balancer(two: tuple[Replica, Replica]) -> AsyncIterator[tuple[Balancer, int]]:
    """A balancer that knows both as ready, and its port."""
    made = Balancer([replica.backend for replica in two], FAST)
    port = await made.start()
    await until(lambda: len(made.ready) == 2)
    yield made, port
    await made.stop()


@pytest.fixture
async def connect(balancer: tuple[Balancer, int]) -> AsyncIterator[Connect]:
    """Connections to that balancer, which end with the test."""
    async with contextlib.AsyncExitStack() as ends:

        async def connected() -> Peer:
            peer = await Peer.connect(balancer[1])
            ends.push_async_callback(ended, peer.writer)
            return peer

        yield connected


async def until(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not true():  # noqa: ASYNC110 - nothing tells of it
            await asyncio.sleep(0.01)


class Peer:
    """A connection to the balancer."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    @classmethod
    async def connect(cls, port: int) -> Peer:
        return cls(*await asyncio.open_connection(HOST, port))

    async def ask(self) -> str:
        """Who is at the other end; empty where the connection has ended."""
        self.writer.write(b"who\n")
        with contextlib.suppress(ConnectionError):
            return (await asyncio.wait_for(self.reader.readline(), PATIENCE)).decode().strip()
        return ""


async def asked(port: int, times: int) -> list[str]:
    found = []
    for _ in range(times):
        peer = await Peer.connect(port)
        found.append(await peer.ask())
        await ended(peer.writer)
    return found


async def test_connections_go_to_replicas_in_turn(balancer: tuple[Balancer, int]) -> None:
    assert sorted(await asked(balancer[1], 6)) == ["a"] * 3 + ["b"] * 3


async def test_where_one_refuses_the_other_is_asked(
    balancer: tuple[Balancer, int], two: tuple[Replica, Replica]
) -> None:
    await two[0].stop_serving()
    assert two[0].backend.state == "ready"
    assert await asked(balancer[1], 4) == ["b"] * 4


async def test_one_that_is_not_ready_keeps_its_connections_and_gets_no_more(
    balancer: tuple[Balancer, int], two: tuple[Replica, Replica], connect: Connect
) -> None:
    made, port = balancer
    peers = [await connect() for _ in range(2)]
    before = [await peer.ask() for peer in peers]
    two[0].status = 503
    await until(lambda: made.ready == [two[1].backend])
    assert [await peer.ask() for peer in peers] == before
    assert await asked(port, 4) == ["b"] * 4
    two[0].status = 200
    await until(lambda: len(made.ready) == 2)
    assert set(await asked(port, 4)) == {"a", "b"}


async def test_one_that_does_not_answer_loses_its_connections(
    balancer: tuple[Balancer, int], two: tuple[Replica, Replica], connect: Connect
) -> None:
    made, _ = balancer
    peers = {await peer.ask(): peer for peer in [await connect() for _ in range(2)]}
    await two[0].stop_health()
    await until(lambda: two[0].backend.state == "gone")
    assert (await peers["a"].ask(), await peers["b"].ask()) == ("", "b")
    assert made.ready == [two[1].backend]


async def test_without_a_ready_replica_a_connection_ends(
    balancer: tuple[Balancer, int], two: tuple[Replica, Replica]
) -> None:
    made, port = balancer
    for replica in two:
        replica.status = 503
    await until(lambda: not made.ready)
    assert await asked(port, 1) == [""]


async def test_what_is_held_arrives_when_it_is_let_go(
    balancer: tuple[Balancer, int], two: tuple[Replica, Replica], connect: Connect
) -> None:
    made, _ = balancer
    made.remove(two[1].backend)
    peer = await connect()
    assert await peer.ask() == "a"
    two[0].backend.hold()
    answer = asyncio.create_task(peer.ask())
    assert not (await asyncio.wait([answer], timeout=0.1))[0]
    two[0].backend.hold(hold=False)
    assert await answer == "a"


async def test_much_passes_whole(two: tuple[Replica, Replica]) -> None:
    async def mirror(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
        writer.close()

    server = await asyncio.start_server(mirror, HOST, 0)
    made = Balancer([Backend(server.sockets[0].getsockname()[1])])
    reader, writer = await asyncio.open_connection(HOST, await made.start())
    sent = bytes(range(256)) * 40_000
    writer.write(sent)
    assert await asyncio.wait_for(reader.readexactly(len(sent)), PATIENCE) == sent
    await ended(writer)
    await made.stop()
    server.close()
