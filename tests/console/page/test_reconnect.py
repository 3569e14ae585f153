"""What the page makes of connections that end, are silent or are refused midway: it goes on, and says what is old."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import pytest
from aiohttp import web

from console.viewers import NotAskedError, Viewer
from tests.console.page.serving import Fed, FixedAccess, served
from tests.console.page.test_page import FREE, fed, go, put
from tests.kit.browser import Page
from tests.kit.objects import card
from tests.kit.waiting import until

pytestmark = pytest.mark.asyncio(loop_scope="module")
BANNERS = """window.banners = []; new MutationObserver(() => {
    const said = document.querySelector('.stale'); if (said) window.banners.push(said.innerText); })
    .observe(document.body, {subtree: true, childList: true, attributes: true, characterData: true})"""


class Proxy:
    """What stands between a page and its console: ends streams, or carries nothing more."""

    def __init__(self) -> None:
        self.target = self.port = 0
        self.streams: list[asyncio.StreamWriter] = []
        self.spoken = 0
        """Streams that have said something, which the page has before their end."""
        self.deaf = False
        self._awaited: set[asyncio.StreamWriter] = set()
        self._silent: set[asyncio.StreamWriter] = set()

    async def carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection("127.0.0.1", self.target)
        with suppress(OSError):
            await asyncio.gather(self._copy(reader, back, writer), self._copy(there, writer, writer))

    async def _copy(self, reader: asyncio.StreamReader, to: asyncio.StreamWriter, page: asyncio.StreamWriter) -> None:
        while data := await reader.read(1 << 16):
            if b"GET /api/events" in data:
                self.streams.append(page)
                self._awaited.add(page)
                if self.deaf:
                    self._silent.add(page)
            if page not in self._silent:
                to.write(data)
                if to is page and b"event:" in data and page in self._awaited:
                    self._awaited.discard(page)
                    self.spoken += 1
        to.close()

    def cut(self) -> None:
        """End the streams that are open."""
        for each in self.streams:
            each.close()
        self.streams.clear()

    def silence(self) -> None:
        """Carry nothing more for the streams that are open, which stay so."""
        self._silent.update(self.streams)


@asynccontextmanager
async def proxied(feed: Fed, access: FixedAccess) -> AsyncIterator[tuple[Proxy, str]]:
    proxy = Proxy()
    server = await asyncio.start_server(proxy.carry, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with served(feed, access, hosts=(f"127.0.0.1:{port}",)) as address:
        proxy.target = int(address.rsplit(":", 1)[1].strip("/"))
        try:
            yield proxy, f"http://127.0.0.1:{port}/"
        finally:
            server.close()
            proxy.cut()


def withdrawn(feed: Fed) -> None:
    """Change one card."""
    put(feed, card("gpu-2", 3, pool="training", published=None))


async def test_a_quiet_stream_that_a_proxy_ends_is_followed_without_a_word(page: Page) -> None:
    feed = fed()
    async with proxied(feed, FixedAccess()) as (proxy, address):
        await go(page, address, "#/fleet")
        await page.evaluate(BANNERS)
        for _ in range(2):
            before = proxy.spoken
            proxy.cut()
            await until(lambda before=before: proxy.spoken > before, "another stream to say something")
        withdrawn(feed)
        await page.until(f"document.querySelector('{FREE}.NotOffered')")
        assert await page.evaluate("window.banners.filter(Boolean)") == []


async def test_a_stream_that_died_is_found_out_when_the_network_is_back(page: Page) -> None:
    feed = fed()
    async with proxied(feed, FixedAccess()) as (proxy, address):
        await go(page, address, "#/fleet")
        proxy.silence()
        withdrawn(feed)
        await page.evaluate("dispatchEvent(new Event('online'))")
        await page.until(f"document.querySelector('{FREE}.NotOffered')")


async def test_a_stream_that_died_is_found_out_when_the_tab_is_looked_at(page: Page) -> None:
    feed = fed()
    async with proxied(feed, FixedAccess()) as (proxy, address):
        await go(page, address, "#/fleet")
        proxy.silence()
        withdrawn(feed)
        await page.evaluate("(() => { const now = Date.now; Date.now = () => now() + 60_000; })()")
        await page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
        await page.until(f"document.querySelector('{FREE}.NotOffered')")


async def test_a_console_that_takes_a_question_and_says_nothing_is_said_to_be_away(page: Page) -> None:
    feed = fed()
    async with proxied(feed, FixedAccess()) as (proxy, address):
        await go(page, address, "#/fleet")
        proxy.deaf = True
        proxy.cut()
        await page.sees("The console does not answer")
        proxy.deaf = False
        proxy.cut()
        await page.until("!document.querySelector('.stale')")


async def test_a_token_that_ends_while_there_is_a_fresh_one_leaves_the_page_as_it_is(
    page: Page, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("console.stream.AGAIN", 1.0)
    feed, access = fed(), FixedAccess(confirms=True)
    async with served(feed, access) as address:
        await go(page, address, "#/confirm")
        await page.click("tbody input[type=checkbox]")
        await page.sees("1 chosen")
        await page.evaluate(
            "window.torn = 0; new MutationObserver(() => {"
            " if (!document.querySelector('main tbody')) window.torn += 1; })"
            ".observe(document.body, {subtree: true, childList: true})"
        )
        asked = Passing(access)
        await until(lambda: asked.again, "the next stream")
        feed.fill(pools=[])  # anything that a page hears of
        await page.until("document.querySelector('tbody input:checked')")
        assert await page.evaluate("window.torn") == 0
        assert "1 chosen" in await page.text()


class Passing:
    """The token of open pages ends once; the next one that is shown is accepted."""

    def __init__(self, access: FixedAccess) -> None:
        self.again = False
        self._ended = False
        known = access.viewer

        async def viewer(request: web.Request) -> Viewer:
            if not self._ended:
                self._ended = True
                access.known = False
                try:
                    return await known(request)
                finally:
                    access.known = True
            self.again = self.again or request.path.startswith("/api/events")
            return await known(request)

        access.viewer = viewer  # type: ignore[method-assign]


async def test_a_token_that_ends_for_good_says_so_and_takes_the_loss_back(page: Page) -> None:
    feed, access = fed(), FixedAccess()
    async with served(feed, access) as address:
        await go(page, address, "#/fleet")
    await page.sees("The console does not answer")
    access.known = False
    async with served(feed, access, port=int(address.rsplit(":", 1)[1].strip("/"))):
        await page.sees("You are not logged in any more.")
        assert not await page.evaluate("document.querySelector('.stale')")


async def test_who_looks_is_asked_again_after_a_refusal(page: Page) -> None:
    feed, access = fed(), FixedAccess(confirms=True)
    access.known = False
    async with served(feed, access) as address:
        await page.open(address + "#/confirm")
        await page.sees("You are not logged in any more.")
        access.known = True
        await page.click("tbody input[type=checkbox]")
        await page.until("document.querySelector('button.main')")
        await page.sees("as anna")


async def test_nothing_is_said_of_rights_that_are_not_known_yet(page: Page) -> None:
    class Unsure(FixedAccess):
        sure = False

        async def viewer(self, request: web.Request) -> Viewer:
            if request.path == "/api/me" and not self.sure:
                raise NotAskedError("The API server does not answer.")
            return await super().viewer(request)

    access = Unsure(confirms=True)
    async with served(fed(), access) as address:
        await page.open(address + "#/confirm")
        await page.click("tbody input[type=checkbox]")
        await page.sees("1 chosen")
        assert "may only read" not in await page.text()
        access.sure = True
        await page.until("document.querySelector('button.main')")
