"""A list of more than a page against a real API server: as events, and in pages where that fails."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import orjson
import pytest
from pydantic import Field

from controllers.api.meta import KubeObject, ObjectMeta, keeping
from controllers.api.record import record
from controllers.runtime import metrics
from tests.kit.waiting import until
from tests.runtime.helpers import AS_EVENTS, LISTS, QUICK, WATCHES, Counted, following, watching

if TYPE_CHECKING:
    from collections.abc import Callable

    from controllers.runtime.client import Client
    from reliability.kit.fault_proxy import FaultProxy
    from tests.runtime.helpers import Space

MORE = 12
"""Objects; a page has five."""


@pytest.fixture
async def full(space: Space) -> Space:
    """A namespace with more than a page."""
    for n in range(MORE):
        await space.put(f"c{n:02}", v="0")
    return space


async def test_more_than_a_page_comes_as_events(client: Client, proxy: FaultProxy, full: Space) -> None:
    async with following(client, full) as store:
        await store.equals(full)
        assert len(proxy.seen(LISTS)) == 1, "the first page says that there are more"
        assert len(proxy.seen(AS_EVENTS)) == 1
        await full.put("c03", v="1")
        await full.delete("c04")
        await store.equals(full)
        assert store.heard[-2:] == [("changed", "c03"), ("gone", "c04")]
        assert len(proxy.seen(WATCHES)) == 2, "what follows is a watch from the list's version"
    followed = proxy.seen(WATCHES)[1].query
    assert int(followed["resourceVersion"]) > 0
    assert "sendInitialEvents" not in followed


async def test_one_page_is_no_watch_more(client: Client, proxy: FaultProxy, space: Space) -> None:
    await space.put("a", v="1")
    async with following(client, space) as store:
        await store.equals(space)
    assert proxy.seen(AS_EVENTS) == []


async def test_a_record_that_keeps_no_annotation_sees_the_end(client: Client, full: Space) -> None:
    """The end is an annotation of a bookmark."""

    @record
    class Plain(KubeObject):
        metadata: Annotated[ObjectMeta, keeping(frozenset())] = Field(default_factory=ObjectMeta)
        data: dict[str, str] = Field(default_factory=dict)

    async with following(client, full, record=Plain) as store:
        await store.equals(full)


async def test_half_a_list_is_never_taken_as_whole(client: Client, proxy: FaultProxy, full: Space) -> None:
    """Neither at the first list, nor where it replaces what is there."""
    held = proxy.hold(lambda e: e.type == "BOOKMARK" or e.name == "c09")
    async with following(client, full) as store:
        await until(lambda: len(held.lines) >= 2, "all but one object, and the end, to be told")
        assert (len(store.store), store.heard, store.reflector.synced.is_set()) == (0, [], False)
        held.release()
        await store.equals(full)
        await watching(proxy)

        for name in ("c01", "c02"):
            await full.put(name, v="1")
        await full.delete("c00")
        await until(lambda: len(store.content) == MORE - 1, "the watch to tell")
        store.heard.clear()
        held = proxy.hold(lambda e: e.type == "BOOKMARK" or e.name == "c09")
        proxy.inject(b'{"type": "ERROR", "object": {"code": 410, "reason": "Expired"}}\n')
        await until(lambda: len(held.lines) >= 2, "the second list to be told but for its end")
        assert len(store.store) == MORE - 1
        assert store.heard == []
        before = {item.name: item for item in store.store}
        held.release()
        await until(lambda: len(proxy.seen(WATCHES)) == 4, "the watch after it")
        await store.equals(full)
        assert store.heard == [], "nothing has changed"
        assert all(before[item.name] is item for item in store.store), "what is as it was is not held twice"


async def test_what_changes_while_it_is_told_is_not_lost(client: Client, proxy: FaultProxy, full: Space) -> None:
    held = proxy.hold(lambda e: e.type == "BOOKMARK")
    async with following(client, full) as store:
        await until(lambda: held.lines, "the end")
        await full.delete("c01")
        await full.put("c07", v="1")
        await full.put("new", v="1")
        held.release()
        await store.equals(full)


def _refused(proxy: FaultProxy) -> None:
    """As Kubernetes 1.31 and 1.33 do: the feature is off."""
    proxy.fail(AS_EVENTS, 422)


def _unknown(proxy: FaultProxy) -> None:
    """An old etcd: `the required storage feature RequestWatchProgress is disabled`."""
    error = {"type": "ERROR", "object": {"kind": "Status", "code": 500, "reason": "InternalError"}}
    proxy.answer(AS_EVENTS, orjson.dumps(error) + b"\n")


def _filling(proxy: FaultProxy) -> None:
    """`storage is (re)initializing`: pages come from etcd meanwhile."""
    proxy.fail(AS_EVENTS, 429, retry_after=5)


def _empty(proxy: FaultProxy) -> None:
    proxy.answer(AS_EVENTS, b"")


def _broken(proxy: FaultProxy) -> None:
    proxy.hold(lambda e: e.type == "BOOKMARK", drop=True)

    async def cut() -> None:
        await until(lambda: proxy.streams(AS_EVENTS), "the list")
        proxy.cut(AS_EVENTS, reset=True)

    proxy.cutting = asyncio.create_task(cut())  # type: ignore[attr-defined]


@pytest.mark.parametrize("broken", [_refused, _unknown, _filling, _empty, _broken])
async def test_where_events_fail_the_pages_are_read_on(
    client: Client, proxy: FaultProxy, full: Space, broken: Callable[[FaultProxy], None]
) -> None:
    broken(proxy)
    async with following(client, full) as store:
        await store.equals(full)
    assert len(proxy.seen(AS_EVENTS)) == 1
    assert len(proxy.seen(LISTS)) == 3


async def test_410_between_two_pages_lists_again(client: Client, proxy: FaultProxy, full: Space) -> None:
    proxy.fail(lambda e: LISTS(e) and "continue" in e.query, 410, times=1)
    async with following(client, full, settings=replace(QUICK, as_events=False)) as store:
        await store.equals(full)
        assert [("added", f"c{n:02}") for n in range(MORE)] == sorted(store.heard), "once each"
    assert len(proxy.seen(LISTS)) == 5


async def test_an_unreadable_object_among_events_is_left_out_and_told_once(
    client: Client, proxy: FaultProxy, full: Space
) -> None:
    await full.put("c00", v="none")  # of the first page, which is read first
    await full.put("c11", v="none")
    expected = {f"c{n:02}": {"v": 0} for n in range(1, MORE - 1)}
    async with following(client, full, record=Counted) as store:
        await store.has(expected)  # type: ignore[arg-type]
        assert metrics.UNREADABLE.labels("ConfigMap")._value.get() == 2
        await watching(proxy)
        await full.put("c01", v="none")
        await until(lambda: metrics.UNREADABLE.labels("ConfigMap")._value.get() == 3, "a third")
        proxy.inject(b'{"type": "ERROR", "object": {"code": 410, "reason": "Expired"}}\n')
        await until(lambda: len(proxy.seen(AS_EVENTS)) == 2, "a second list")
        await watching(proxy)
        await full.put("c11", v="7")
        await store.has(expected | {"c11": {"v": 7}})  # type: ignore[arg-type]
        assert metrics.UNREADABLE.labels("ConfigMap")._value.get() == 2, "the one that was readable counts as it was"
