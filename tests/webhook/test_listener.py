"""Connections over real TLS: which are ended, and which are not."""

from __future__ import annotations

import asyncio
import ssl
import time
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

from controllers.runtime import listener
from controllers.runtime.health import Health
from tests.kit.sockets import ended
from tests.kit.waiting import PATIENCE, until
from webhook import metrics, server
from webhook.certs import pki
from webhook.server import Server

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

Peer = tuple[asyncio.StreamReader, asyncio.StreamWriter]
POST = b"POST /mutate-pods HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s"
QUICK = 0.3


class Asked:
    """Answers when it is told to; knows how many wait."""

    def __init__(self) -> None:
        self.go, self.waiting, self.most = asyncio.Event(), 0, 0
        self.go.set()

    async def handle(self, _body: bytes, _deadline: float) -> bytes:
        self.waiting += 1
        self.most = max(self.most, self.waiting)
        await self.go.wait()
        self.waiting -= 1
        return b"{}"


class Port:
    """A server with a certificate, and clients that trust it."""

    def __init__(self, folder: Path) -> None:
        now = time.time()
        authority, key = pki.make_authority(now, 86400.0)
        certificate, serving = pki.issue(authority, key, now, 3600.0)
        (file := folder / "server.pem").write_text(certificate + serving)
        self.tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.tls.load_cert_chain(file)
        self.trust = ssl.create_default_context(cadata=authority)
        self.asked = Asked()
        to: Any = self.asked
        self.server = Server(to, to, Health("127.0.0.1", 0), host="127.0.0.1", port=0)

    def limit(self, **limits: int) -> None:
        """Let it have so many connections in these states."""
        assert self.server._listener is not None
        self.server._listener._limits = server.LIMITS._replace(**limits)

    async def plain(self) -> Peer:
        """Connects, and shakes no hands."""
        return await asyncio.open_connection("127.0.0.1", self.server.port)

    async def peer(self, says: bytes = b"") -> Peer:
        """Shakes hands, and says something."""
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", self.server.port, ssl=self.trust, server_hostname="localhost"
        )
        writer.write(says)
        return reader, writer


@pytest.fixture
async def port(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Port]:
    monkeypatch.setattr(listener, "STEP_TIMEOUT", QUICK)
    monkeypatch.setattr(listener, "SWEEP", QUICK / 10)
    async with serving(tmp_path) as made:
        yield made


@asynccontextmanager
async def serving(folder: Path) -> AsyncIterator[Port]:
    """A port, inside the block."""
    made = Port(folder)
    await made.server.start(made.tls)
    try:
        yield made
    finally:
        made.asked.go.set()
        await made.server.stop()


async def over(peer: Peer) -> bool:
    """Wait until the server ends a connection; whatever it says first is read."""
    reader, writer = peer
    try:
        async with asyncio.timeout(PATIENCE):
            while await reader.read(65536):
                pass
    except ConnectionError:
        pass
    await ended(writer)
    return True


async def answered(peer: Peer, body: bytes = b"{}") -> int:
    """The status of a request."""
    reader, writer = peer
    writer.write(POST % (len(body), body))
    status = int((await reader.readline()).split()[1])
    length = 0
    while (line := await reader.readline()) != b"\r\n":
        if line.lower().startswith(b"content-length:"):
            length = int(line.split(b":")[1])
    await reader.readexactly(length)
    return status


def count(why: str) -> float:
    return metrics.CONNECTIONS_ENDED.labels(why)._value.get()


@pytest.mark.parametrize(
    ("says", "why"),
    [(None, "handshake"), (b"POST", "silent"), (b"POST /mutate-pods HTTP/1.1\r\nHost: x\r\n", "silent")],
    ids=["no handshake", "a word", "half a head"],
)
async def test_who_does_not_ask_is_ended(port: Port, says: bytes | None, why: str) -> None:
    before = count(why)
    assert await over(await port.plain() if says is None else await port.peer(says))
    assert count(why) == before + 1


async def test_who_has_yet_to_ask_is_ended_as_late_as_who_has_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "KEEPALIVE", QUICK)
    async with serving(tmp_path) as made:
        unused, kept = await made.peer(), await made.peer()
        assert await answered(kept) == 200
        assert await over(unused)
        assert await over(kept)


async def test_who_comes_slowly_to_the_end_of_a_second_request_is_ended(port: Port) -> None:
    for half in (b"POST /mutate", b"POST /mutate-pods HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n{"):
        peer = await port.peer()
        assert await answered(peer) == 200
        before = count("silent")
        peer[1].write(half)
        assert await over(peer)
        assert count("silent") == before + 1


async def test_who_reads_no_answer_is_ended(port: Port) -> None:
    peer = await port.peer()
    peer[1].transport.pause_reading()  # type: ignore[attr-defined]
    before = count("silent")

    async def is_ended() -> bool:
        if not peer[1].is_closing():
            peer[1].write(POST % (2, b"{}") * 1000)
        return count("silent") > before

    await until(is_ended, "the connection to be ended")
    await ended(peer[1])


async def test_who_waits_for_an_answer_or_for_a_request_to_send_is_not_ended(port: Port) -> None:
    """Go's clients, as the API server, open connections that they find no need of yet."""
    unused, kept, waits = [await port.peer() for _ in range(3)]
    assert await answered(kept) == 200
    port.asked.go.clear()
    answer = asyncio.create_task(answered(waits))
    await until(lambda: port.asked.waiting == 1, "the request to wait")
    assert await over(await port.peer(b"POST")), "one that came later and says no more: the time has passed for all"
    port.asked.go.set()
    assert await answer == 200
    for each in (unused, kept, waits):
        assert await answered(each) == 200
    await ended(unused[1], kept[1], waits[1])


async def test_of_too_many_the_one_that_has_been_so_for_longest_gives_way_and_never_the_newest(
    port: Port, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listener, "STEP_TIMEOUT", PATIENCE)
    port.limit(awaiting_request=4, idle=2)
    waits, *kept = [await port.peer() for _ in range(4)]
    for each in kept:
        assert await answered(each) == 200
    port.asked.go.clear()
    answer = asyncio.create_task(answered(waits))
    await until(lambda: port.asked.waiting == 1, "the request to wait")
    assert await over(kept[0]), "the longest quiet of three that were kept"
    before = count("crowded")
    peers = [await port.peer() for _ in range(10)]
    for first in peers[:6]:
        assert await over(first)
    assert count("crowded") == before + 6
    port.asked.go.set()
    assert await answer == 200
    assert await answered(peers[9]) == 200, "a newcomer among those that ask nothing"
    await ended(waits[1], *(writer for _, writer in (*kept[1:], *peers[6:])))


async def test_one_that_asks_again_and_again_is_kept_among_many_that_asked_once(
    port: Port,
) -> None:
    port.limit(idle=2)
    busy = await port.peer()
    strangers = []
    for _ in range(6):
        assert await answered(busy) == 200
        strangers.append(await port.peer())
        assert await answered(strangers[-1]) == 200
    assert await answered(busy) == 200
    await ended(busy[1], *(writer for _, writer in strangers))


async def test_many_who_never_shake_hands_keep_nobody_out(port: Port, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listener, "STEP_TIMEOUT", PATIENCE)
    port.limit(handshaking=4)
    monkeypatch.setattr(listener, "GRACE", 0.01)
    silent = [await port.plain() for _ in range(40)]
    peer = await port.peer()
    assert await answered(peer) == 200
    for first in silent[:36]:
        assert await over(first)
    await ended(peer[1], *(writer for _, writer in silent[36:]))


async def test_a_handshake_has_its_time_however_many_come(port: Port, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listener, "STEP_TIMEOUT", PATIENCE)
    port.limit(handshaking=4)
    before, began = count("crowded"), time.monotonic()
    silent = [await port.plain() for _ in range(12)]
    for first in silent[:8]:
        assert await over(first)
    assert time.monotonic() - began >= 2 * listener.GRACE, "two rounds of four"
    assert count("crowded") == before + 8
    await ended(*(writer for _, writer in silent[8:]))


async def test_who_is_refused_needs_the_connection_no_more(port: Port, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listener, "STEP_TIMEOUT", PATIENCE)
    for request, status in (
        (b"GET /mutate-pods HTTP/1.1\r\nHost: x\r\n\r\n", 405),
        (b"GET /nowhere HTTP/1.1\r\nHost: x\r\n\r\n", 404),
        (b"POST /mutate-pods HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n{", 408),
    ):
        reader, writer = await port.peer(request)
        assert int((await reader.readline()).split()[1]) == status
        assert await over((reader, writer))


async def test_few_large_bodies_are_in_hand_at_once_and_small_ones_pass_them(port: Port) -> None:
    port.asked.go.clear()
    large, small = b"x" * (server.LARGE + 1), b"{}"
    peers = [await port.peer() for _ in range(6)]
    tasks = [asyncio.create_task(answered(peer, large)) for peer in peers[:5]]
    await until(lambda: port.asked.waiting == server.LARGE_MAX, "so many large ones to be in hand")
    tasks.append(asyncio.create_task(answered(peers[5], small)))
    await until(lambda: port.asked.waiting == server.LARGE_MAX + 1, "the small one to be in hand")
    port.asked.go.set()
    assert set(await asyncio.gather(*tasks)) == {200}
    assert port.asked.most == server.LARGE_MAX + 1
    await ended(*(writer for _, writer in peers))
