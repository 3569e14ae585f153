"""The reflector against a real API server, with faults on the way."""

from __future__ import annotations

import asyncio
import random
import signal
import time
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import orjson
import psutil
import pytest
from prometheus_client import REGISTRY
from structlog.testing import capture_logs

from controllers.api.meta import KubeObject
from controllers.api.record import record
from controllers.api.resources import CONFIGMAP, EVENT, Resource
from controllers.runtime import metrics
from controllers.runtime.errors import Unreachable
from controllers.runtime.events import Recorder
from controllers.runtime.reflector import Reflector, WatchSettings
from controllers.runtime.store import Store
from tests.kit.waiting import PATIENCE, until
from tests.runtime.helpers import LISTS, QUICK, WATCHES, Counted, following, watching

if TYPE_CHECKING:
    from controllers.runtime.client import Client
    from reliability.kit.apiserver import Server
    from reliability.kit.fault_proxy import FaultProxy
    from tests.runtime.helpers import Space


IN_PAGES = replace(QUICK, as_events=False)
ONE_A_SECOND, TWO_A_SECOND = 0.5, 0.25
"""Seconds between lists, jittered by half."""


async def test_lists_in_pages_then_follows_churn(client: Client, proxy: FaultProxy, space: Space) -> None:
    for n in range(12):
        await space.put(f"c{n}", v="0")

    async with following(client, space, settings=IN_PAGES) as store:
        await store.equals(space)
        assert len(proxy.seen(LISTS)) == 3  # pages of five
        assert store.reflector.synced.is_set()
        dice = random.Random(1)
        for step in range(60):
            name = f"c{dice.randrange(20)}"
            if dice.random() < 0.3 and name in (now := await space.all()) and now:
                await space.delete(name)
            else:
                await space.put(name, v=str(step))
            if step % 15 == 7:
                proxy.cut(reset=step % 2 == 0)
        await store.equals(space)

    assert len(proxy.seen(LISTS)) == 3, "a broken watch goes on where it was, without a list"


async def test_the_ends_of_a_watch_have_their_series_before_the_first(client: Client, space: Space) -> None:
    metrics.WATCH_ENDS.clear()
    async with following(client, space) as followed:
        await until(lambda: followed.store.synced, "the first list")
        labels = [{"kind": "ConfigMap", "reason": reason} for reason in ("ended", "gone", "Unreachable")]
        assert None not in [REGISTRY.get_sample_value("gpu_watch_ends_total", one) for one in labels]


async def test_churn_during_the_list_is_not_lost(client: Client, proxy: FaultProxy, space: Space) -> None:
    for n in range(8):
        await space.put(f"c{n}", v="0")
    second_page = proxy.gate(lambda e: LISTS(e) and "continue" in e.query, times=1)

    async with following(client, space, settings=IN_PAGES) as store:
        await until(lambda: len(proxy.seen(LISTS)) == 2, "the second page to be asked for")
        await space.delete("c1")
        await space.put("c7", v="1")
        await space.put("new", v="1")
        second_page.set()
        await store.equals(space)


async def test_410_after_compaction_lists_again_and_tells_of_what_vanished(
    client: Client, proxy: FaultProxy, space: Space, server: Server
) -> None:
    """Compaction and a new API server (whose watch cache is empty) make our version too old."""
    await space.put("gone", v="1")
    await space.put("stays", v="1")
    async with following(client, space) as store:
        await store.equals(space)
        await watching(proxy)
        await proxy.down()
        await space.delete("gone")
        await space.put("changed-unseen", v="1")
        await server.compact()
        await server.restart()
        store.heard.clear()
        await proxy.up()
        await store.equals(space)
        await until(lambda: ("gone", "gone") in store.heard, "the vanished key to be told")

        assert ("added", "changed-unseen") in store.heard
        assert ("changed", "stays") not in store.heard
        assert len(proxy.seen(LISTS)) == 2
        await space.put("later", v="1")
        await store.equals(space)


async def test_410_inside_a_watch_lists_again(client: Client, proxy: FaultProxy, space: Space) -> None:
    await space.put("a", v="1")
    status = {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old resource version"}
    async with following(client, space) as store:
        await store.equals(space)
        await watching(proxy)
        proxy.inject(orjson.dumps({"type": "ERROR", "object": status}) + b"\n")
        await until(lambda: len(proxy.seen(LISTS)) == 2, "a second list")
        await space.put("a", v="2")
        await store.equals(space)


async def test_a_server_that_always_says_410_is_not_hammered(client: Client, proxy: FaultProxy, space: Space) -> None:
    proxy.fail(WATCHES, 410)
    began = time.monotonic()
    async with following(client, space, settings=WatchSettings(list_gap=0.5)):
        await until(lambda: len(proxy.seen(LISTS)) >= 4, "some lists")
    _apart(began, proxy, TWO_A_SECOND)


async def test_half_open_connection_is_replaced_and_nothing_is_lost(
    client: Client, proxy: FaultProxy, space: Space
) -> None:
    async with following(client, space, settings=replace(QUICK, idle_seconds=1.0)) as store:
        await watching(proxy)
        before = len(proxy.seen(WATCHES))
        proxy.freeze()
        await space.put("while-frozen", v="1")
        await until(lambda: len(proxy.seen(WATCHES)) > before, "another watch")
        await store.equals(space)
        assert len(proxy.seen(LISTS)) == 1


async def test_api_server_killed_and_back(client: Client, proxy: FaultProxy, space: Space, server: Server) -> None:
    await space.put("a", v="1")
    settings = WatchSettings(page_size=5, idle_seconds=5)
    began = time.monotonic()
    async with following(client, space, settings=settings) as store:
        await store.equals(space)
        await server.restart(signal.SIGKILL)
        await space.put("a", v="2")
        await space.put("b", v="1")
        await store.equals(space)
    _apart(began, proxy, ONE_A_SECOND)


async def test_api_server_away_with_lists_failing(client: Client, proxy: FaultProxy, space: Space) -> None:
    """A long outage that ends in 410: retries are jittered, and lists at most one a second."""
    began = time.monotonic()
    async with following(client, space, settings=WatchSettings(list_gap=1.0)) as store:
        await watching(proxy)
        proxy.fail(WATCHES, 410, times=1)
        outage = proxy.fail(LISTS, 503)
        proxy.cut()
        await until(lambda: outage.hits >= 3, "three lists to fail")
        await space.put("a", v="1")
        proxy.heal()
        await store.equals(space)
    _apart(began, proxy, ONE_A_SECOND)


async def test_api_server_stopped_and_going_on(client: Client, proxy: FaultProxy, space: Space, server: Server) -> None:
    async with following(client, space, settings=replace(QUICK, idle_seconds=0.5)) as store:
        await space.put("a", v="1")
        await store.equals(space)
        await watching(proxy)
        server.send(signal.SIGSTOP)
        try:
            before = len(proxy.seen(WATCHES))
            await until(lambda: len(proxy.seen(WATCHES)) >= before + 2, "watches to be tried again")
        finally:
            server.send(signal.SIGCONT)
        await space.put("a", v="2")
        await store.equals(space)


async def test_a_watch_that_is_over_waits_for_nobody_to_end_its_connection(admin: Client, server: Server) -> None:
    """TLS says farewell, and a server that hangs would have 30 s to answer."""
    port = urlsplit(server.url).port

    def connections() -> int:
        return sum(one.raddr.port == port for one in psutil.Process().net_connections("tcp") if one.raddr)

    before = connections()
    async with admin.stream(CONFIGMAP.path(), query={"watch": "1"}, idle=PATIENCE) as batches:
        await anext(batches)
        assert connections() == before + 1
        server.send(signal.SIGSTOP)
    try:
        for _ in range(5):  # turns of the loop, no time
            await asyncio.sleep(0)
        assert connections() == before
    finally:
        server.send(signal.SIGCONT)


def _apart(began: float, proxy: FaultProxy, least: float) -> None:
    """That no list came before its time, counted from before the first: a busy machine makes it later, never sooner."""
    at = [e.at for e in proxy.seen(lambda e: LISTS(e) and "continue" not in e.query)]
    assert [number for number, one in enumerate(at) if one - began < number * least - 0.05] == []


async def test_reconnects_are_jittered(client: Client, proxy: FaultProxy, space: Space) -> None:
    async with following(client, space, settings=replace(QUICK, retry_min=0.1, retry_max=0.1)):
        await watching(proxy)
        failing = proxy.fail(WATCHES, 500)
        began = time.monotonic()
        proxy.cut()
        await until(lambda: failing.hits >= 8, "eight tries")
    at = [e.at for e in proxy.seen(WATCHES)][1:]
    gaps = [b - a for a, b in pairwise(at)]
    assert at[-1] - began > 7 * 0.05 - 0.02, "each try waits half of its time at least"
    assert max(gaps) - min(gaps) > 0.005


async def test_a_watch_that_ends_at_once_again_and_again_is_not_a_hot_loop(
    client: Client, proxy: FaultProxy, space: Space
) -> None:
    async with following(client, space, settings=replace(QUICK, retry_min=0.1, retry_max=1.0)):
        empty = proxy.answer(WATCHES, b"")
        await until(lambda: empty.hits >= 4, "some watches")
    at = [e.at for e in proxy.seen(WATCHES)]
    assert min(b - a for a, b in pairwise(at)) > 0.04


async def test_an_unreadable_object_is_isolated_reported_and_comes_back(
    client: Client, proxy: FaultProxy, space: Space, admin: Client
) -> None:
    await space.put("good", v="1")
    await space.put("bad-from-the-start", v="one")
    recorder = Recorder(admin, "test", "test")
    sending = asyncio.create_task(recorder.run())
    with capture_logs() as logs:
        async with following(client, space, record=Counted, recorder=recorder) as store:
            await store.has({"good": {"v": 1}})  # type: ignore[dict-item]
            await watching(proxy)
            await space.put("good", v="two")
            await space.put("other", v="3")
            await store.has({"good": {"v": 1}, "other": {"v": 3}})  # type: ignore[dict-item]
            assert _unreadable() == 2
            proxy.inject(b'{"type": "ERROR", "object": {"code": 410, "reason": "Expired"}}\n')
            await until(lambda: len(proxy.seen(LISTS)) == 2, "another list")
            await watching(proxy)
            await space.put("good", v="4")
            await space.put("bad-from-the-start", v="5")
            mended = {"good": {"v": 4}, "other": {"v": 3}, "bad-from-the-start": {"v": 5}}
            await store.has(mended)  # type: ignore[arg-type]
            assert _unreadable() == 0
            await space.put("other", v="broken")
            await until(lambda: _unreadable() == 1, "the third to be unreadable")
            await space.delete("other")
            await until(lambda: len(store.store) == 2, "the deletion of an unreadable object")
            assert _unreadable() == 0
    await recorder.drain(PATIENCE)
    sending.cancel()
    said = [e for e in logs if e["event"] == "an object cannot be read and is left out"]
    assert [e["object"] for e in said] == ["bad-from-the-start", "good", "other"], "each once, also after a list"
    assert "data.v" in said[0]["why"]
    events = orjson.loads(await admin.request("GET", EVENT.path(space.name)))["items"]
    assert {e["regarding"]["name"] for e in events} == {"bad-from-the-start", "good", "other"}
    assert all("data.v" in e["note"] for e in events)


def _unreadable() -> float:
    return metrics.UNREADABLE.labels("ConfigMap")._value.get()


@pytest.mark.parametrize(
    "line",
    [
        b"garbage\n",
        b"{}\n",
        b'{"type": "ADDED"}\n',
        b'{"type": "ADDED", "object": null}\n',
        b'{"type":"ADDED","object":',
    ],
)
async def test_a_line_of_garbage_breaks_one_watch_and_loses_nothing(
    client: Client, proxy: FaultProxy, space: Space, line: bytes
) -> None:
    async with following(client, space) as store:
        await watching(proxy)
        first = proxy.streams(WATCHES)
        proxy.inject(line)
        await space.put("a", v="1")
        await store.equals(space)
        await until(lambda: proxy.streams(WATCHES) not in ([], first), "another watch")
        assert len(proxy.seen(LISTS)) == 1


@pytest.mark.parametrize("body", [b"<html>a proxy's page</html>", b"[]", b"{}", b'{"metadata": {}, "items": [1]}'])
async def test_a_list_of_garbage_is_tried_again(client: Client, proxy: FaultProxy, space: Space, body: bytes) -> None:
    await space.put("a", v="1")
    garbage = proxy.answer(LISTS, body, times=2)
    async with following(client, space) as store:
        await store.equals(space)
    assert garbage.hits == 2


async def test_an_object_of_a_mebibyte(client: Client, proxy: FaultProxy, space: Space) -> None:
    async with following(client, space) as store:
        await watching(proxy)
        await space.put("huge", v="x" * ((1 << 20) - 100))  # with the rest of the event it is more
        await space.put("small", v="1")
        await store.equals(space)
        assert len(proxy.seen(WATCHES)) == 1


async def test_bookmarks_advance_the_version(client: Client, proxy: FaultProxy, space: Space) -> None:
    """Also for a record with fields that a bookmark's bare object lacks."""

    @record
    class Demanding(KubeObject):
        data: dict[str, str]

    async with following(client, space, record=Demanding) as store:
        await watching(proxy)
        bookmark = b'{"type":"BOOKMARK","object":{"kind":"ConfigMap","metadata":{"resourceVersion":"%d"}}}\n'
        at = store.store.observed + 1
        proxy.inject(bookmark % at)
        await until(lambda: store.store.observed == at, "the bookmark")
        proxy.cut()
        await until(lambda: len(proxy.seen(WATCHES)) == 2, "another watch")
        assert proxy.seen(WATCHES)[1].query["resourceVersion"] == str(at)


async def test_an_offer_outside_the_selectors_does_not_stay(
    client: Client, proxy: FaultProxy, space: Space, admin: Client
) -> None:
    async with following(client, space, labels="mine=yes") as store:
        await watching(proxy)
        body = {"metadata": {"name": "not-mine"}, "data": {"v": "1"}}
        made = await admin.create(CONFIGMAP, body, space.name, manager="test")
        store.store.on_own_write(store.reflector._decoder._one.validate_json(made))
        assert "not-mine" in store.content
        mine = {"metadata": {"name": "mine", "labels": {"mine": "yes"}}, "data": {"v": "1"}}
        await admin.create(CONFIGMAP, mine, space.name, manager="test")
        await store.has({"mine": {"v": "1"}})


def _is_mine(config: Counted) -> bool:
    return config.data.get("mine") == 1


@pytest.mark.parametrize("as_events", [True, False])
async def test_only_what_is_wanted_is_held(client: Client, proxy: FaultProxy, space: Space, *, as_events: bool) -> None:
    """Where no selector can say it: in lists of several pages or as events, and in what a watch tells."""
    for number in range(12):  # pages of five
        await space.put(f"before-{number:02}", mine="1" if number in (0, 11) else "0")
    settings = replace(QUICK, as_events=as_events)
    async with following(client, space, record=Counted, only=_is_mine, settings=settings) as store:
        await store.has({"before-00": {"mine": 1}, "before-11": {"mine": 1}})
        await watching(proxy)
        turnover = store.store.change_count
        await space.put("stranger", mine="0")
        await space.put("stranger", mine="0", more="1")
        await space.delete("stranger")
        await space.put("last", mine="1")
        await store.has({name: {"mine": 1} for name in ("before-00", "before-11", "last")})
        assert store.store.change_count == turnover + 1, "strangers come and go without a trace"
        await space.put("before-00", mine="0")
        await store.has({name: {"mine": 1} for name in ("before-11", "last")})
        await space.put("before-00", mine="1")
        await store.has({name: {"mine": 1} for name in ("before-00", "before-11", "last")})
        assert store.heard[-2:] == [("gone", "before-00"), ("added", "before-00")]
        assert len(proxy.seen(LISTS)) == (1 if as_events else 3)


async def test_an_optional_kind_that_does_not_exist(client: Client) -> None:
    """Counts as empty and ready; a kind that must be there does not."""
    unknown = Resource("nowhere.io", "v1", "things", "Thing", namespaced=False)
    tasks = []
    for optional in (True, False):
        reflector = Reflector(client, unknown, Counted, Store("Thing"), settings=QUICK, optional=optional)
        tasks.append((reflector, asyncio.create_task(reflector.run())))
    maybe, must = (reflector for reflector, _ in tasks)
    await until(lambda: not maybe.store.served and not must.store.served, "both to be found missing")
    assert maybe.synced.is_set()
    assert not must.synced.is_set()
    assert not any(task.done() for _, task in tasks)
    for _, task in tasks:
        task.cancel()
    await asyncio.gather(*(task for _, task in tasks), return_exceptions=True)


async def test_a_404_does_not_empty_the_cache_of_a_kind_that_must_exist(
    client: Client, proxy: FaultProxy, space: Space
) -> None:
    """An API server that starts may not know a custom kind yet: nothing of it is gone."""
    await space.put("a", v="1")
    async with following(client, space) as store:
        await store.equals(space)
        await watching(proxy)
        missing = proxy.fail(lambda e: LISTS(e) or WATCHES(e), 404, times=3)
        proxy.cut()
        await until(lambda: missing.hits == 3, "three times 404")
        await space.put("b", v="1")
        await store.equals(space)
        assert ("gone", "a") not in store.heard


async def test_a_watch_without_a_listener_is_an_error_of_the_tree(client: Client, proxy: FaultProxy) -> None:
    await proxy.down()
    with pytest.raises(Unreachable):
        async with client.stream("/api/v1/configmaps", query={"watch": "1"}, idle=1):
            raise AssertionError
