"""How often hands are shaken: one address alone, many together, and what is remembered of them."""

from __future__ import annotations

import asyncio
import socket
import ssl

import pytest
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st

from controllers.runtime import handshakes, metrics, scraping
from controllers.runtime.handshakes import Handshakes, Rate
from controllers.runtime.readers import Access, Readers
from tests.runtime.metrics_port import open_port

EACH, TOGETHER = Rate(burst=4, per_second=2), Rate(burst=10, per_second=4)


def test_one_address_has_its_burst_and_then_its_rate_and_takes_nothing_from_another() -> None:
    made = Handshakes(EACH, TOGETHER)

    assert [made.allows("a", 0.0) for _ in range(6)] == [True] * 4 + [False] * 2
    assert made.allows("b", 0.0)
    assert not made.allows("a", 0.4)
    assert made.allows("a", 0.5)
    assert not made.allows("a", 0.6), "who was turned away has no claim on what comes later"
    assert [made.allows("a", 60.0) for _ in range(5)] == [True] * 4 + [False], "no more than a burst is saved up"


def test_many_addresses_together_have_their_bound() -> None:
    made = Handshakes(EACH, TOGETHER)

    assert sum(made.allows(str(n), 0.0) for n in range(100)) == TOGETHER.burst
    assert sum(made.allows(str(n), 1.0) for n in range(100, 200)) == TOGETHER.per_second


@pytest.mark.parametrize("strangers", [7, 8, 20, 200])
def test_however_many_addresses_come_without_end_a_newcomer_is_let_in(strangers: int) -> None:
    """Each comes 40 times a second, as who is turned away and tries again; the newcomer once in each scrape."""
    made, let_in, costs = Handshakes(scraping.EACH, scraping.TOGETHER), [], 0
    for tick in range(40 * 120):
        now = tick / 40
        costs += sum(made.allows(f"stranger-{each}", now) for each in range(strangers))
        if tick and tick % (40 * 10) == 0:
            let_in.append(made.allows("reader", now))
    assert all(let_in)
    assert costs <= scraping.TOGETHER.burst + scraping.TOGETHER.per_second * 120


def test_of_addresses_that_came_so_many_are_remembered() -> None:
    made = Handshakes(EACH, TOGETHER)
    for number in range(3 * handshakes.KNOWN_MAX):
        made.allows(str(number), 0.0)
    assert len(made._came) == handshakes.KNOWN_MAX


@given(st.lists(st.tuples(st.integers(0, 500), st.floats(0, 0.2)), max_size=300))
def test_within_any_time_no_more_than_the_rates_and_few_are_remembered(asked: list[tuple[int, float]]) -> None:
    made, now = Handshakes(EACH, TOGETHER), 0.0
    let_in: list[tuple[str, float]] = []
    for number, wait in asked:
        now += wait
        if made.allows(str(number), now):
            let_in.append((str(number), now))
        assert len(made) <= 2 + TOGETHER.burst + TOGETHER.per_second * EACH.burst / EACH.per_second

    for rate, one in ((TOGETHER, None), *((EACH, address) for address in {address for address, _ in let_in})):
        times = [time for address, time in let_in if one in (None, address)]
        for first in range(len(times)):
            for last in range(first, len(times)):
                most = rate.burst + rate.per_second * (times[last] - times[first])
                assert last - first + 1 <= most + 1e-6


async def test_a_stranger_who_shakes_hands_without_end_is_not_answered_and_a_reader_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Over real connections, from two addresses of loopback."""

    async def text() -> web.Response:
        return web.Response(text="figures")

    async def anybody(_self: Readers, token: str) -> Access:
        return Access.ALLOWED if token == "good" else Access.UNAUTHENTICATED

    monkeypatch.setattr(Readers, "authorize", anybody)
    # As good as no rate: whatever time this machine takes, no more than the bursts shake hands.
    monkeypatch.setattr(scraping, "EACH", scraping.EACH._replace(per_second=1e-3))
    port, task, tls = await open_port(text)

    def shakes_hands(source: str) -> bool:
        plain = socket.create_connection(("127.0.0.1", port.port), source_address=(source, 0))
        try:
            with tls.wrap_socket(plain):
                return True
        except (ssl.SSLError, ConnectionError):
            plain.close()
            return False

    before = metrics.READS_ENDED.labels("often")._value.get()
    shaken = [await asyncio.to_thread(shakes_hands, "127.0.0.2") for _ in range(60)]
    assert sum(shaken) == scraping.EACH.burst
    assert metrics.READS_ENDED.labels("often")._value.get() - before == 60 - scraping.EACH.burst

    reader, writer = await asyncio.open_connection("127.0.0.1", port.port, ssl=tls, local_addr=("127.0.0.3", 0))
    writer.write(b"GET /metrics HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer good\r\nConnection: close\r\n\r\n")
    assert (await reader.read()).endswith(b"figures")
    writer.close()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
