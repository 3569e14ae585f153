"""What a proxy calls requests and events, and that its faults reach the process."""

from __future__ import annotations

import asyncio
import ssl
import time
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import aiohttp
import orjson
import pytest
from aiohttp import web

from controllers.runtime.connections import ENDING
from reliability.faults import plans
from reliability.faults.injections import events, requests
from reliability.faults.injections.injection import Injection
from reliability.faults.process_proxy import ProcessProxy, spelled
from reliability.kit.fault_proxy import Exchange
from webhook.certs import pki

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from reliability.kit.fault_proxy import When


def tap_alone() -> ProcessProxy:
    """A tap that passes nothing on."""
    return ProcessProxy(SimpleNamespace(url=""), "gpupool")  # type: ignore[arg-type]


def watch(resource: str = "pods") -> Exchange:
    """An open watch."""
    return Exchange("GET", f"/api/v1/{resource}", {"watch": "1"}, b"", "test", time.monotonic(), resource=resource)


def event(name: str, kind: str = "MODIFIED", namespace: str = "team") -> bytes:
    """A line of a watch; a bookmark without a name."""
    meta = {"name": name, "namespace": namespace} if name else {"resourceVersion": "7"}
    return orjson.dumps({"type": kind, "object": {"kind": "Pod", "metadata": meta}}) + b"\n"


def armed(proxy: ProcessProxy, fault: str, at: str) -> Injection:
    """A fault of events, armed."""
    injection, environment = Injection(), SimpleNamespace(proxies={"gpupool": proxy})
    events.bend(environment, plans.Plan("pool", fault, at), injection)  # type: ignore[arg-type]
    return injection


async def settled(injection: Injection) -> None:
    """End what goes on beside."""
    for task in injection.tasks:
        task.cancel()
    await asyncio.gather(*injection.tasks, return_exceptions=True)


async def test_the_nth_event_of_an_object_is_called_so() -> None:
    proxy, stream = tap_alone(), watch()

    for line in (event("a"), event("b"), event("a"), event("a", "DELETED"), event("")):
        proxy._keep(stream, line)

    names = ("MODIFIED:team:a#1", "MODIFIED:team:b#1", "MODIFIED:team:a#2", "DELETED:team:a#1")
    assert proxy.heard == [f"pods:{name}" for name in names]
    assert proxy.seen_events == {"pods": 4}


async def test_from_the_nth_event_on_a_kind_is_held_with_its_bookmarks() -> None:
    proxy, stream = tap_alone(), watch()
    injection = armed(proxy, "hold", "gpupool:pods#2")

    held = [proxy._keep(stream, line) for line in (event(""), event("a"), event("b"), event(""), event("c"))]
    other = proxy._keep(watch("nodes"), event("n"))
    await settled(injection)

    assert held == [False, False, True, True, True]
    assert not other
    assert injection.what == "MODIFIED Pod b"


async def test_of_one_object_events_are_held_and_bookmarks_and_its_neighbours_pass() -> None:
    proxy, stream = tap_alone(), watch()
    injection = armed(proxy, "hold-one", "gpupool:pods:DELETED:team:a#1")

    lines = (event("a"), event("a", "DELETED"), event("b"), event(""), event("a", "ADDED"))
    held = [proxy._keep(stream, line) for line in lines]
    await settled(injection)

    assert held == [False, True, False, True, True]


async def test_what_was_held_of_one_object_is_listed_anew_where_its_watch_has_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(events, "HELD", 0.0)
    proxy, ended, fresh = tap_alone(), watch(), watch()
    proxy._open.add(fresh)
    injection = armed(proxy, "hold-one", "gpupool:pods:MODIFIED:team:a#1")

    proxy._keep(ended, event("a"))
    await asyncio.gather(*injection.tasks)

    assert b"410" in fresh.queue.get_nowait()


class Upstream:
    """A server that counts what reaches it, behind a proxy."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.seen: list[tuple[str, str]] = []
        self.meta: dict[str, Any] = {}
        """Of the object that is answered."""

    async def _answer(self, request: web.BaseRequest) -> web.Response:
        self.seen.append((request.method, request.path))
        return web.Response(body=orjson.dumps({"metadata": self.meta}))

    async def told(self, use: Callable[[ProcessProxy, aiohttp.ClientSession], Awaitable[None]]) -> None:
        """Use the proxy through a client whose connections last."""
        runner = web.ServerRunner(web.Server(self._answer))
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        proxy = ProcessProxy(self._server(runner.addresses[0][1]), "gpupool")
        await proxy.start()
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        try:
            async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=context, **ENDING)) as session:
                await (await session.get(f"{proxy.url}/api/v1/pods")).read()  # the connection is used from now on
                await use(proxy, session)
        finally:
            await proxy.close()
            await runner.cleanup()

    def _server(self, port: int) -> Any:
        now = time.time()
        authority, key = pki.make_authority(now, 86400.0)
        certificate, serving = pki.issue(authority, key, now, 3600.0)
        files = self._folder / "tap.crt", self._folder / "tap.key"
        for file, text in zip(files, (certificate, serving), strict=True):
            file.write_text(text)
        return SimpleNamespace(url=f"http://127.0.0.1:{port}", server_files=files, trust=ssl.create_default_context)


PATH = "/api/v1/namespaces/team/configmaps/one"
SPELLED = "update:configmaps:team:one#1"


@pytest.mark.parametrize(("when", "reached"), [("before", 0), ("after", 1)])
async def test_a_request_that_is_lost_is_lost_to_the_process_although_its_library_sends_it_again(
    tmp_path: Path, when: When, reached: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "reliability.faults.process_proxy.RESENT", 60.0
    )  # however long a busy machine takes for the library's resend
    upstream = Upstream(tmp_path)

    async def use(proxy: ProcessProxy, session: aiohttp.ClientSession) -> None:
        proxy.lose(lambda e: spelled(e) == SPELLED, when)
        with pytest.raises(aiohttp.ClientError):
            await session.put(f"{proxy.url}{PATH}", data=b"{}")

    await upstream.told(use)

    assert upstream.seen.count(("PUT", PATH)) == reached


async def test_a_plain_reset_would_be_hidden_by_the_library(tmp_path: Path) -> None:
    upstream = Upstream(tmp_path)

    async def use(proxy: ProcessProxy, session: aiohttp.ClientSession) -> None:
        proxy.reset(lambda e: spelled(e) == SPELLED, "before", times=1)
        async with session.put(f"{proxy.url}{PATH}", data=b"{}") as answer:
            assert answer.status == 200

    await upstream.told(use)

    assert upstream.seen.count(("PUT", PATH)) == 1


@pytest.mark.parametrize(("fault", "reached", "status"), [("500", 0, 500), ("500-after", 1, 500), ("429", 0, 429)])
async def test_an_error_is_answered_instead_of_the_write_or_after_it(
    tmp_path: Path, fault: str, reached: int, status: int
) -> None:
    upstream, injection = Upstream(tmp_path), Injection()

    async def use(proxy: ProcessProxy, session: aiohttp.ClientSession) -> None:
        environment: Any = SimpleNamespace(proxies={"gpupool": proxy})
        requests.answer(environment, plans.Plan.parse(f"pool/{fault}/gpupool:{SPELLED}"), injection)
        async with session.put(f"{proxy.url}{PATH}", data=b"{}") as answer:
            assert answer.status == status
        async with session.put(f"{proxy.url}{PATH}", data=b"{}") as answer:
            assert answer.status == 200
        assert proxy.made == [SPELLED, "update:configmaps:team:one#2"]

    await upstream.told(use)

    assert upstream.seen.count(("PUT", PATH)) == reached + 1
    assert injection.what == SPELLED


async def test_what_is_created_is_called_by_the_name_in_its_body(tmp_path: Path) -> None:
    async def use(proxy: ProcessProxy, session: aiohttp.ClientSession) -> None:
        for meta in ({"name": "one"}, {"generateName": "some-"}):
            async with session.post(f"{proxy.url}/api/v1/namespaces/team/pods", json={"metadata": meta}):
                pass
        assert proxy.made == ["create:pods:team:one#1", "create:pods:team:some-*#1"]
        assert proxy.read == ["list:pods#1"]

    await Upstream(tmp_path).told(use)


@pytest.mark.parametrize(
    ("verb", "meta", "told"),
    [
        ("put", {"resourceVersion": "8"}, "8"),
        ("put", {"resourceVersion": "8", "deletionTimestamp": "now", "finalizers": ["ours"]}, "8"),
        ("put", {"resourceVersion": "8", "deletionTimestamp": "now"}, ""),  # gone, and told as it was before
        ("delete", {"resourceVersion": "8"}, ""),
        ("put", {}, ""),
    ],
)
async def test_the_version_that_a_write_left_is_that_of_the_answer(
    tmp_path: Path, verb: str, meta: dict[str, Any], told: str
) -> None:
    upstream = Upstream(tmp_path)
    upstream.meta = meta

    async def use(proxy: ProcessProxy, session: aiohttp.ClientSession) -> None:
        async with session.request(verb, f"{proxy.url}{PATH}", data=b"{}"):
            pass
        (one,) = proxy.sent()
        assert one.version == told

    await upstream.told(use)


async def test_a_strike_without_an_effect_struck_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("reliability.faults.injections.injection.WITNESS", 0.0)
    void, real = Injection(), Injection()
    void.claim("people were refused", lambda: False)
    real.claim("people were refused", lambda: True)

    await void.heal()
    await real.heal()

    assert (void.what, real.what) == ("", "people were refused")


def test_what_a_killed_process_had_sent_is_told_from_what_its_successor_sends() -> None:
    proxy, killed = tap_alone(), time.monotonic()
    proxy.kills.append(killed)

    def wrote(opened: float, at: float) -> None:
        made = Exchange("PATCH", "/api/v1/nodes/n", {}, b"{}", "test", killed + at, resource="nodes", name="n")
        made.write, made.opened = 1, killed + opened  # type: ignore[attr-defined]
        proxy.trace.append(made)

    wrote(-1, -0.5)
    wrote(-1, 0.5)
    wrote(0.1, 0.1)  # a connection of its own, that waited while the proxy was busy with the kill
    wrote(0.5, 0.6)

    assert [one.orphan for one in proxy.sent()] == [False, True, True, False]
