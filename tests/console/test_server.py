"""The loopback console over a real API server: what it answers, what it refuses, what it says in trouble."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import aiohttp
import pytest

from console.access import TICKET, OwnAccess
from console.channel import PATCHES_MAX
from controllers.api.resources import GPUDEVICE, GPUPOOL, NODE
from reliability.kit.apiserver import Server
from reliability.kit.fault_proxy import FaultProxy, anything
from tests.console.clusters import OURS, PODS, Admin, Console, console, shown
from tests.kit.objects import card, node, pool
from tests.kit.waiting import until

CARD = "n1-0000-17-00-0"


@pytest.fixture
async def own(server: Server, admin: Admin, proxy: FaultProxy, tmp_path: Path) -> AsyncIterator[Console]:
    """An administrator's, through the proxy."""
    await admin.put(node("n1"))
    await admin.put(card("n1"))
    async with console(server.kubeconfig(tmp_path / "own.kubeconfig", url=proxy.url), own=True) as made:
        yield made
    await admin.remove(GPUDEVICE, CARD)
    await admin.remove(NODE, "n1")


async def test_a_change_comes_as_a_patch_of_its_row_and_a_quiet_cluster_costs_no_byte(
    own: Console, admin: Admin
) -> None:
    async with own.browser().page("fleet") as page:
        await shown(page, lambda p: CARD in str(p.rows), "the card")
        assert page.events == ["snapshot", "fresh"]
        size = len(page.raw)
        await admin.put(card("n1", pool="train"))
        await shown(page, lambda p: "train" in str(p.rows), "the pool")
        assert page.events == ["snapshot", "fresh", "patch"]
        assert b"snapshot" not in page.raw[size:]
        size, turns = len(page.raw), own.hub.turns
        # Written, but nothing that a page shows; and a turn of the hub in which nothing has changed.
        await admin.client.merge(GPUDEVICE, CARD, {"metadata": {"labels": {"x.io/y": "z"}}}, manager="test")

        def turned() -> bool:
            own.hub._dirty.set()
            return own.hub.turns > turns + 1

        await until(turned, "two turns of the hub")
        assert len(page.raw) == size


async def test_a_page_goes_on_where_it_was(own: Console, admin: Admin) -> None:
    browser = own.browser()
    async with browser.page("fleet") as page:
        await shown(page, lambda p: CARD in str(p.rows), "the card")
    async with browser.page("fleet", after=page.ident) as again:
        await shown(again, lambda p: p.events == ["fresh"], "nothing but its age")
        await admin.put(card("n1", pool="train"))
        await shown(again, lambda p: "patch" in p.events, "the change")
        assert "snapshot" not in again.events
    async with browser.page("fleet", after="0-1") as other:
        await shown(other, lambda p: p.events[:1] == ["snapshot"], "all of it")


async def test_the_api_server_goes_away_and_comes_back(own: Console, admin: Admin, proxy: FaultProxy) -> None:
    browser = own.browser()
    async with browser.page("fleet") as page:
        await shown(page, lambda p: CARD in str(p.rows), "the card")
        before = time.time()
        await proxy.down()
        await shown(page, lambda p: p.stale, "that it is old")
        assert page.stale is not None
        assert "does not answer" in page.stale["reason"]
        assert page.stale["since"] <= time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(before + 3))
        assert CARD in str(page.rows), "the last state stays"
        # A second tab gets the last state with its age, too.
        async with browser.page("fleet") as second:
            await shown(second, lambda p: CARD in str(p.rows) and p.stale, "the last state")
        status, once = await browser.get("/api/rows/fleet")
        assert (status, once["stale"]["since"]) == (200, page.stale["since"])
        await admin.put(card("n1", pool="train"))
        await proxy.up()
        await shown(page, lambda p: p.stale is None and "train" in str(p.rows), "the present")


async def test_credentials_that_are_refused_are_said(own: Console, proxy: FaultProxy) -> None:
    async with own.browser().page("fleet") as page:
        await shown(page, lambda p: p.events, "a snapshot")
        proxy.fail(anything, 401)
        proxy.cut()
        await shown(page, lambda p: p.stale, "that it is old")
        assert page.stale is not None
        assert "does not accept your credentials" in page.stale["reason"]
        proxy.heal()
        await shown(page, lambda p: p.stale is None, "the present")


async def test_a_slow_reader_gets_a_fresh_snapshot_and_holds_nobody_up(own: Console) -> None:
    async with own.browser().page("fleet") as quick:
        await shown(quick, lambda p: p.events, "a snapshot")
        channel = next(iter(own.hub._channels.values()))
        behind = channel.position
        for number in range(PATCHES_MAX + 1):
            channel.take({**channel.rows, "x": {"n": number}})
        await shown(quick, lambda p: p.events.count("snapshot") == 2, "all of it, in place of what was too much")
        assert b"event: snapshot" in channel.since(behind)[:80]
        async with own.browser().page("fleet", after=behind) as slow:
            await shown(slow, lambda p: p.events[:1] == ["snapshot"], "all of it")


async def test_a_reader_that_takes_nothing_is_let_go(own: Console, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("console.stream.SLOW", 0.5)
    reader, writer = await asyncio.open_connection("127.0.0.1", own.server.port, limit=1024)
    head = f"GET /api/events/fleet HTTP/1.1\r\nHost: 127.0.0.1:{own.server.port}\r\n"
    writer.write(f"{head}Authorization: Bearer {own.access.secret}\r\n\r\n".encode())
    await until(lambda: own.hub._channels, "the page")
    channel = next(iter(own.hub._channels.values()))

    def more() -> bool:
        channel.take({"x": {"text": uuid.uuid4().hex + "x" * 300_000}})
        return channel.readers == 0

    await until(more, "the end of a connection that nobody reads")
    assert reader is not None
    writer.close()


@pytest.mark.parametrize("host", ["example.com", "127.0.0.1", "rebound.example:{port}", "127.0.0.1.example:{port}", ""])
async def test_a_wrong_host_is_refused(own: Console, host: str) -> None:
    for path in ("/api/rows/fleet", "/api/me", "/"):
        wrong = host.format(port=own.server.port)
        status, said = await own.browser().get(path, Host=wrong)
        assert status == 421
        assert "open the address that it prints" in said["error"]


async def test_other_sites_get_nothing(own: Console) -> None:
    browser, body = own.browser(), {"cards": [CARD], "pool": "train"}
    for headers in (
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Origin": "https://evil.example"},
    ):
        assert (await browser.get("/api/rows/fleet", **headers))[0] == 403
        assert (await browser.post("/api/confirm", body, **headers))[0] == 403
    # A link may open the page, and may not open what the page asks for.
    link = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}
    assert (await browser.get("/", **link))[0] == 200
    assert (await browser.get("/api/rows/fleet", **link))[0] == 403
    with_cookie = {"Cookie": f"{own.access.cookie}={own.access.secret}", "Authorization": ""}
    assert (await browser.get("/api/me", **with_cookie))[0] == 200
    assert (await browser.post("/api/confirm", body, **with_cookie))[0] == 403
    plain = {"Content-Type": "text/plain"}
    async with own.session.post(f"{own.url}/api/confirm", data="{}", headers=browser.headers | plain) as answer:
        assert answer.status == 415


async def test_the_secret_becomes_a_cookie_and_a_ticket_counts_once(own: Console) -> None:
    ticket = own.access.ticket()
    async with aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as session:
        ask = {"Authorization": f"Bearer {ticket}", "Origin": own.url}
        async with session.post(f"{own.url}/api/session", headers=ask) as answer:
            assert answer.status == 204
            cookie = answer.cookies[own.access.cookie]
            assert (cookie["samesite"], cookie["httponly"]) == ("Strict", True)
        async with session.get(f"{own.url}/api/me", headers={"Accept-Language": "ru,en;q=0.8"}) as answer:
            found = await answer.json()
            assert (found["language"], found["mode"], found["user"]) == ("ru", "loopback", "admin")
            assert found["mayConfirm"] is True
    async with own.session.post(f"{own.url}/api/session", headers=ask) as answer:
        assert answer.status == 401
    async with own.session.get(f"{own.url}/api/me") as answer:
        assert answer.status == 401
        assert "open the address that it prints" in (await answer.json())["error"]


async def test_a_page_a_pool_and_a_path_that_are_not_there(own: Console) -> None:
    browser = own.browser()
    status, said = await browser.get("/api/rows/flete")
    assert (status, said["error"]) == (
        404,
        "There is no page of that name; there are fleet, pool, pod, card, confirm, broken.",
    )
    assert (await browser.get("/api/events/flete"))[0] == 404
    assert (await browser.get("/api/else"))[0] == 404
    assert (await browser.get("/../server.py"))[0] == 404
    assert (await browser.get("/static/..%2fserver.py"))[0] == 404
    assert (await browser.get("/api/rows/pool?pool=" + "y" * 300))[0] == 400
    async with browser.page("pool?pool=none") as page:
        await shown(page, lambda p: p.rows, "a row")
        assert next(iter(page.rows.values()))["kind"] == "missing"


async def test_a_pool_that_comes_later_is_shown(own: Console, admin: Admin) -> None:
    async with own.browser().page("pool?pool=late") as page:
        await shown(page, lambda p: p.rows, "a row")
        await admin.put(pool("late"))
        await shown(page, lambda p: p.rows.get("pool"), "the pool")
        await admin.remove(GPUPOOL, "late")
        await shown(page, lambda p: "pool" not in p.rows, "its end")


async def test_what_is_no_parameter_of_a_page_makes_no_other_page(own: Console) -> None:
    browser, pages = own.browser(), ("fleet", "fleet?x=1", "fleet?x=2&pool=a", "pod?namespace=a", "pod?namespace=b")
    async with AsyncExitStack() as stack:
        for each in pages:
            page = await stack.enter_async_context(browser.page(each))
            await shown(page, lambda p: p.events, "a snapshot")
        assert {key[1:] for key in own.hub._channels} == {("fleet", ()), ("pod", ())}


async def test_no_viewer_has_more_open_pages_than_are_kept(own: Console, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("console.open_pages.EACH_MAX", 3)
    browser = own.browser()
    async with AsyncExitStack() as stack:
        pages = [await stack.enter_async_context(browser.page(f"pool?pool=p{number}")) for number in range(3)]
        await shown(pages[-1], lambda p: p.events, "a snapshot")
        status, said = await browser.get("/api/events/fleet")
        assert status == 429
        assert "close some" in said["error"]
        assert (await browser.get("/api/rows/fleet"))[0] == 200
    await until(lambda: not own.server._open_pages._open, "that no page counts as open")
    async with browser.page("fleet") as page:
        await shown(page, lambda p: p.events, "a snapshot")
    monkeypatch.setattr("console.open_pages.ALL_MAX", 0)
    assert (await browser.get("/api/events/fleet"))[0] == 429


async def test_who_asks_for_large_pages_again_and_again_is_told_to_wait(
    own: Console, monkeypatch: pytest.MonkeyPatch
) -> None:
    browser = own.browser()
    status, _ = await browser.get("/api/rows/fleet")
    assert status == 200
    monkeypatch.setattr("console.budgets.FULL", 1e-9)  # so that one page of the smallest is as much as anybody may have
    monkeypatch.setattr("console.budgets.SHARE", 1e-9)
    refused = [await browser.get(f"/api/{what}/fleet") for what in ("rows", "events")]
    assert {status for status, _ in refused} == {429}
    assert all("come again in" in said["error"] for _, said in refused)
    assert (await browser.get("/api/me"))[0] == 200
    monkeypatch.undo()
    assert (await browser.get("/api/rows/fleet"))[0] == 200


async def test_pages_that_are_left_are_kept_in_numbers(own: Console, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("console.hub.KEPT_MAX", 2)
    for number in range(5):
        async with own.browser().page(f"pool?pool=p{number}") as page:
            await shown(page, lambda p: p.events, "a snapshot")
    await until(lambda: len(own.hub._channels) == 2, "the end of the others")
    assert {dict(key[2])["pool"] for key in own.hub._channels} == {"p3", "p4"}


async def test_every_answer_tells_the_browser_what_it_may_do(own: Console) -> None:
    for path in ("/", "/api/me", "/api/rows/fleet", "/api/events/fleet", "/api/none", "/app.js"):
        async with own.session.get(own.url + path, headers=own.browser().headers) as answer:
            policy = answer.headers["Content-Security-Policy"]
            assert "default-src 'self'" in policy
            assert "frame-ancestors 'none'" in policy
            assert answer.headers["X-Content-Type-Options"] == "nosniff"
            if path.startswith("/api/"):
                assert answer.headers["Cache-Control"] == "no-store"


async def test_who_may_read_pods_of_one_namespace_sees_those(server: Server, admin: Admin, tmp_path: Path) -> None:
    name = f"one-{uuid.uuid4().hex[:6]}"
    token = await admin.somebody(name)
    await admin.grant(name, OURS)
    await admin.grant(name, PODS, namespace="people")
    path = server.kubeconfig(tmp_path / "one.kubeconfig", token=token)
    async with console(path, own=True, namespace="people") as made:
        status, found = await made.browser().get("/api/rows/fleet")
        assert status == 200
        assert found["rows"]["?/Node"] == {"kind": "refused", "of": "Node", "text": "You may not list nodes."}
        assert await made.browser().get("/api/me") == (200, made_of(name, made))


def made_of(name: str, made: Console) -> dict[str, object]:
    user = f"system:serviceaccount:people:{name}"
    return {"user": user, "language": "en", "mode": "loopback", "mayConfirm": False, "server": made.server._cluster}


async def test_a_ticket_counts_for_a_minute(own: Console, monkeypatch: pytest.MonkeyPatch) -> None:
    access = own.access
    assert isinstance(access, OwnAccess)
    now = 1000.0
    monkeypatch.setattr(access, "_clock", lambda: now)
    early, late = access.ticket(), access.ticket()
    now += TICKET
    assert access.begins(early)
    now += 1
    assert not access.begins(late)
    assert not access.begins(late), "it is used up"


async def test_an_address_that_is_no_file_is_not_the_page(own: Console) -> None:
    assert (await own.browser().get("/"))[0] == 200
    for path in ("/foo/bar", "/static/app.js", "/fleet"):
        assert (await own.browser().get(path))[0] == 404
