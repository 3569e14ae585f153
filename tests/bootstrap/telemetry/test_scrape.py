"""The scraper against real servers on loopback: good, slow, broken, gone and back."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter

import pytest
from aiohttp import web

from controllers.bootstrap.telemetry import fetch
from controllers.bootstrap.telemetry import scrape as module
from controllers.bootstrap.telemetry.fetch import MAX_BYTES, Scrape
from controllers.bootstrap.telemetry.scrape import SCRAPES, Scraper
from tests.kit.waiting import PATIENCE

GOOD = b'# HELP x y\nDCGM_FI_DEV_GPU_TEMP{gpu="0",UUID="GPU-1"} 41\n'


class Bed:
    """Servers, a scraper and what it told."""

    def __init__(self) -> None:
        self.urls: dict[str, str] = {}
        self.told: list[Scrape] = []
        self.requests: Counter[str] = Counter()
        self.connections: set[tuple[str, object]] = set()
        self.eager: set[str] = set()
        self._news = asyncio.Event()
        self._stack = contextlib.AsyncExitStack()

    async def node(self, name, body=GOOD, *, status=200, port=0, content_type="text/plain", answer=None):
        """A server of its own; gives the call that ends it."""

        async def handle(request):
            self.requests[name] += 1
            self.connections.add((name, request.transport.get_extra_info("peername")))
            if answer is not None:
                return await answer(request)
            return web.Response(body=body, status=status, content_type=content_type)

        app = web.Application()
        app.router.add_get("/metrics", handle)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await runner.setup()
        self._stack.push_async_callback(runner.cleanup)
        await web.TCPSite(runner, "127.0.0.1", port).start()
        self.urls[name] = f"http://127.0.0.1:{runner.addresses[0][1]}/metrics"
        return runner

    async def raw(self, name, talk):
        """A server that speaks what it likes."""
        server = await asyncio.start_server(talk, "127.0.0.1", 0)
        self._stack.callback(server.close)
        self.urls[name] = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/metrics"

    def start(self, **options) -> Scraper:
        options = {"period": 0.2, "timeout": 20, "eager": self.eager.__contains__, "eager_pause": 0.01} | options
        scraper = Scraper(lambda: self.urls, self.receive, **options)
        task = asyncio.create_task(scraper.run())
        self._stack.push_async_callback(self.stop, task)
        self.task = task
        return scraper

    async def stop(self, task):
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task

    def receive(self, scrape):
        self.told.append(scrape)
        self._news.set()

    async def until(self, condition):
        async with asyncio.timeout(PATIENCE):
            while not condition():
                self._news.clear()
                await self._news.wait()

    def results(self, node):
        return [one.result for one in self.told if one.node == node]

    async def close(self):
        await self._stack.aclose()


@pytest.fixture
async def bed():
    made = Bed()
    yield made
    await made.close()


async def test_every_node_is_scraped_again_and_again_over_one_connection(bed):
    for name in ("a", "b", "c"):
        await bed.node(name)
    bed.start()
    await bed.until(lambda: all(bed.results(name).count("ok") >= 5 for name in "abc"))
    assert {one.cards[0].temperature for one in bed.told} == {41}
    assert len(bed.connections) == 3


async def test_bad_nodes_are_named_and_disturb_no_other(bed, monkeypatch):
    monkeypatch.setattr(fetch, "MAX_BYTES", 200_000)

    async def hang(_):
        await asyncio.sleep(30)

    async def drip(request):
        response = web.StreamResponse()
        await response.prepare(request)
        with contextlib.suppress(ConnectionError):
            while True:
                await response.write(b"# x\n")
                await asyncio.sleep(0.05)
        return response

    async def move(_):
        raise web.HTTPFound(bed.urls["good"])

    async def cut(_, writer):
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n\r\n" + GOOD)
        await writer.drain()
        writer.close()

    async def nonsense(_, writer):
        writer.write(b"\x00\x01 not http at all\r\n\r\n")
        await writer.drain()
        writer.close()

    await bed.node("good")
    await bed.node("hangs", answer=hang)
    await bed.node("drips", answer=drip)
    await bed.node("fails", status=500)
    await bed.node("moved", answer=move)
    await bed.node("garbage", body=bytes(range(256)) * 50)
    await bed.node("html", body=b"<html>DCGM_FI_DEV_GPU_TEMP{</html>", content_type="text/html")
    await bed.node("huge", body=GOOD * 4000)
    await bed.node("odd-type", content_type="application/octet-stream")
    await bed.raw("cut", cut)
    await bed.raw("nonsense", nonsense)
    bed.urls["refuses"] = "http://127.0.0.1:1/metrics"
    bed.urls["no-url"] = "this is no url"
    before = SCRAPES.labels("timeout")._value.get()
    bed.start(timeout=2.0)
    expected = {
        "good": "ok", "odd-type": "ok", "hangs": "timeout", "drips": "timeout", "fails": "http", "moved": "http",
        "garbage": "no_cards", "html": "no_cards", "huge": "too_large", "cut": "broken", "nonsense": "broken",
        "refuses": "unreachable", "no-url": "broken",
    }  # fmt: skip
    await bed.until(lambda: all(len(bed.results(name)) >= 2 for name in expected))
    assert {name: set(bed.results(name)) for name in expected} == {name: {end} for name, end in expected.items()}
    assert all(one.error for one in bed.told if not one.fresh)
    assert all(not one.error for one in bed.told if one.fresh)
    assert len(bed.results("good")) >= 4  # while others hung twice
    assert SCRAPES.labels("timeout")._value.get() >= before + 4


async def test_a_server_that_comes_back_is_scraped_again(bed):
    runner = await bed.node("a")
    port = runner.addresses[0][1]
    bed.start()
    await bed.until(lambda: len(bed.told) >= 2)
    await runner.cleanup()
    await bed.until(lambda: "unreachable" in bed.results("a"))
    bed.told.clear()
    await bed.node("a", port=port)
    await bed.until(lambda: bed.results("a").count("ok") >= 2)


async def test_a_node_that_is_waited_for_is_scraped_at_once_and_quickly(bed):
    await bed.node("new")
    await bed.node("old")
    bed.eager.add("new")
    bed.start(period=3600, eager_pause=0.01)
    await bed.until(lambda: len(bed.results("new")) >= 3)
    bed.eager.clear()
    assert bed.results("old") == []


async def test_a_node_that_is_waited_for_in_vain_is_asked_ever_less(bed):
    await bed.node("new", status=503)
    bed.eager.add("new")
    loop = asyncio.get_running_loop()
    bed.start(period=3600, eager_pause=0.01)
    began = loop.time()
    await bed.until(lambda: len(bed.told) >= 6)
    assert loop.time() - began >= 0.01 * (2 + 4 + 8 + 16 + 32)


async def test_targets_come_go_and_move(bed, monkeypatch):
    monkeypatch.setattr(module, "TARGETS_SECONDS", 0.05)
    await bed.node("a")
    await bed.node("b")
    bed.start()
    await bed.until(lambda: len(bed.results("a")) >= 2 and len(bed.results("b")) >= 2)
    del bed.urls["a"]
    await bed.node("b", body=GOOD.replace(b"41", b"55"))
    await bed.until(lambda: bed.told[-1].node == "b" and bed.told[-1].cards[0].temperature == 55)
    bed.told.clear()
    await bed.until(lambda: len(bed.told) >= 4)
    assert {(one.node, one.cards[0].temperature) for one in bed.told} == {("b", 55)}
    await bed.node("a")
    await bed.until(lambda: bed.results("a"))


async def test_a_moved_node_that_is_waited_for_is_scraped_at_once(bed, monkeypatch):
    monkeypatch.setattr(module, "TARGETS_SECONDS", 0.05)
    await bed.node("a")
    bed.eager.add("a")
    bed.start(period=3600, eager_pause=1800)
    await bed.until(lambda: bed.told)
    await bed.node("a", body=GOOD.replace(b"41", b"55"))
    await bed.until(lambda: len(bed.told) == 2)
    assert bed.told[-1].cards[0].temperature == 55


async def test_what_a_former_target_answers_is_dropped(bed, monkeypatch):
    monkeypatch.setattr(module, "TARGETS_SECONDS", 0.05)
    asked, gone = asyncio.Event(), asyncio.Event()

    async def late(_):
        asked.set()
        await gone.wait()
        return web.Response(body=GOOD)

    await bed.node("a", answer=late)
    await bed.node("b")
    scraper = bed.start(timeout=20)
    async with asyncio.timeout(PATIENCE):
        await asked.wait()
    del bed.urls["a"]
    scraper.refresh()
    gone.set()
    await bed.until(lambda: "a" not in scraper._tasks and bed.results("b"))
    assert bed.results("a") == []


async def test_an_error_of_the_receiver_ends_nothing(bed):
    await bed.node("a")
    calls = []

    def fail(scrape):
        calls.append(scrape)
        bed.receive(scrape)
        raise RuntimeError("of the test")

    scraper = Scraper(lambda: bed.urls, fail, period=0.05)
    task = asyncio.create_task(scraper.run())
    await bed.until(lambda: len(calls) >= 3)
    await bed.stop(task)


async def test_when_it_ends_nothing_is_left(bed):
    async def hang(_):
        await asyncio.sleep(30)

    await bed.node("a", answer=hang)
    await bed.node("b")
    scraper = bed.start(timeout=20)
    await bed.until(lambda: bed.results("b") and bed.requests["a"])
    await bed.stop(bed.task)
    count = len(bed.told)
    assert not [task for task in asyncio.all_tasks() if task.get_name().startswith("scrape ")]
    assert not scraper._tasks
    assert len(bed.told) == count


async def test_moments_are_spread_over_the_period(bed):
    scraper = Scraper(dict, bed.receive, period=15)
    tenths = Counter(int(scraper._moment(f"worker-{number:04}", 1000.0) - 1000) for number in range(1500))
    assert set(tenths) == set(range(15))
    assert max(tenths.values()) < 150
    assert scraper._moment("worker-0001", 1000.0) == pytest.approx(scraper._moment("worker-0001", 1015.0) - 15)


def test_the_limit_of_a_text_is_five_mebibytes():
    assert MAX_BYTES == 5 * 1024 * 1024
