"""A console over a real API server, a browser's requests to it, and people with rights of their own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import orjson

from console.access import OwnAccess, TokenAccess
from console.feed import Feed
from console.hub import Hub
from console.reviews import Reviews
from console.server import Server
from console.views import VIEWS
from controllers.api import names
from controllers.api.meta import KubeObject
from controllers.api.resources import NAMESPACE, POD
from controllers.runtime.client import Client
from controllers.runtime.errors import AlreadyExists, NotFound
from tests.kit import manifests
from tests.kit.pods import pod_body
from tests.kit.waiting import until

RBAC = "/apis/rbac.authorization.k8s.io/v1"
GROUP = "rbac.authorization.k8s.io"
OURS = {"apiGroups": [names.GROUP], "resources": ["*"], "verbs": ["list", "watch"]}
NODES = {"apiGroups": [""], "resources": ["nodes"], "verbs": ["list", "watch"]}
PODS = {"apiGroups": [""], "resources": ["pods"], "verbs": ["list", "watch"]}
ASSIGNS = {"apiGroups": [names.GROUP], "resources": ["gpudevices"], "verbs": ["patch"]}


@dataclass
class Admin:
    """Writes objects as they are, status and all; there is nobody else who would."""

    client: Client

    async def put(self, obj: KubeObject) -> None:
        """Create an object, or replace its status."""
        kind = manifests.resource(obj)
        with suppress(AlreadyExists):
            await self.client.create(kind, manifests.manifest(obj), manager="test")
        if status := manifests.status(obj):
            body = {"status": status}
            await self.client.merge(kind, obj.name, body, manager="test", subresource="status")

    async def remove(self, kind: Any, name: str, namespace: str | None = None) -> None:
        with suppress(NotFound):
            await self.client.request("DELETE", kind.path(namespace, name), body={"gracePeriodSeconds": 0})

    async def namespace(self, name: str) -> None:
        with suppress(AlreadyExists):
            await self.client.create(NAMESPACE, {"metadata": {"name": name}}, manager="test")
        with suppress(AlreadyExists):  # nobody makes it here, and no pod is let in without
            path = f"/api/v1/namespaces/{name}/serviceaccounts"
            await self.client.request("POST", path, body={"metadata": {"name": "default"}})

    async def pod(self, namespace: str, name: str, pool: str) -> None:
        """A pod that a pool admitted, and that waits."""
        await self.namespace(namespace)
        body = pod_body(name, pool=pool, meta={"namespace": namespace})
        body["spec"]["containers"][0]["image"] = "none"
        body["metadata"].pop("uid")
        await self.client.create(POD, body, namespace, manager="test")

    async def somebody(self, name: str) -> str:
        """A token of a ServiceAccount without rights."""
        await self.namespace("people")
        path = "/api/v1/namespaces/people/serviceaccounts"
        with suppress(AlreadyExists):
            await self.client.request("POST", path, body={"metadata": {"name": name}})
        asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
        answer = await self.client.request("POST", f"{path}/{name}/token", body=asked)
        return str(orjson.loads(answer)["status"]["token"])

    async def grant(self, name: str, *rules: Mapping[str, Any], namespace: str | None = None) -> str:
        """A role for somebody; returns what `withdraw` takes."""
        made = f"{name}-{namespace or 'all'}"
        where = f"{RBAC}/namespaces/{namespace}" if namespace else RBAC
        kind = "Role" if namespace else "ClusterRole"
        about = {"apiGroup": GROUP, "kind": kind, "name": made}
        who = {"kind": "ServiceAccount", "name": name, "namespace": "people"}
        role = {"metadata": {"name": made}, "rules": list(rules)}
        binding = {"metadata": {"name": made}, "roleRef": about, "subjects": [who]}
        await self.client.request("POST", f"{where}/{kind.lower()}s", body=role)
        await self.client.request("POST", f"{where}/{kind.lower()}bindings", body=binding)
        return f"{where}/{kind.lower()}bindings/{made}"

    async def withdraw(self, granted: str) -> None:
        await self.client.request("DELETE", granted)


@dataclass
class Page:
    """What a page has: rows by key, and what else it was sent."""

    raw: bytearray = field(default_factory=bytearray)
    events: list[str] = field(default_factory=list)
    rows: dict[str, Any] = field(default_factory=dict)
    order: list[str] = field(default_factory=list)
    ident: str = ""
    stale: dict[str, str] | None = None
    end: dict[str, Any] | None = None

    def take(self, block: bytes) -> None:
        fields = dict(line.split(b": ", 1) for line in block.split(b"\n"))
        kind, data = fields[b"event"].decode(), orjson.loads(fields[b"data"])
        self.ident = fields.get(b"id", self.ident.encode()).decode()
        self.events.append(kind)
        if kind == "snapshot":
            self.rows, self.order = data["rows"], data["order"]
        elif kind == "patch":
            self._patch(data)
        elif kind in {"stale", "fresh"}:
            self.stale = data or None
        else:
            self.end = data

    def _patch(self, data: dict[str, Any]) -> None:
        before = self.rows
        self.rows = merged(before, data["rows"])
        left = [key for key in self.order if key in self.rows]
        self.order = data.get("order") or left + [key for key in data["rows"] if key in self.rows and key not in left]


def merged(target: Any, patch: Any) -> Any:
    """RFC 7396."""
    if not isinstance(patch, dict):
        return patch
    made = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            made.pop(key, None)
        else:
            made[key] = merged(made.get(key), value)
    return made


@dataclass
class Browser:
    """Somebody's requests to a console."""

    session: aiohttp.ClientSession
    url: str
    headers: dict[str, str]

    async def get(self, path: str, **headers: str) -> tuple[int, Any]:
        async with self.session.get(self.url + path, headers={**self.headers, **headers}) as answer:
            body = await answer.read()
            return answer.status, orjson.loads(body) if body[:1] in b"{[" else body

    async def post(self, path: str, body: Any, **headers: str) -> tuple[int, Any]:
        async with self.session.post(self.url + path, json=body, headers={**self.headers, **headers}) as answer:
            found = await answer.read()
            return answer.status, orjson.loads(found) if found else None

    @asynccontextmanager
    async def page(self, path: str, after: str = "") -> AsyncIterator[Page]:
        """An open page, which takes what comes."""
        found = Page()
        headers = self.headers | ({"Last-Event-ID": after} if after else {})
        async with self.session.get(f"{self.url}/api/events/{path}", headers=headers) as answer:
            assert answer.status == 200, await answer.text()
            assert answer.content_type == "text/event-stream"
            reading = asyncio.create_task(_read(answer, found))
            try:
                yield found
            finally:
                reading.cancel()
                with suppress(asyncio.CancelledError, aiohttp.ClientError):
                    await reading


async def _read(answer: aiohttp.ClientResponse, page: Page) -> None:
    rest = b""
    async for piece in answer.content.iter_any():
        page.raw += piece
        *blocks, rest = (rest + piece).split(b"\n\n")
        for block in blocks:
            page.take(block)


@dataclass
class Console:
    """A console that runs, and whoever looks at it."""

    feed: Feed
    hub: Hub
    server: Server
    access: OwnAccess | TokenAccess
    session: aiohttp.ClientSession

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.port}"

    def browser(self, token: str | None = None) -> Browser:
        """Of whoever has that token; on loopback of the person."""
        shown = self.access.secret if isinstance(self.access, OwnAccess) else token
        return Browser(self.session, self.url, {"Authorization": f"Bearer {shown}"} if shown else {})


@asynccontextmanager
async def console(kubeconfig: Path, *, own: bool, namespace: str | None = None) -> AsyncIterator[Console]:
    """A console under a kubeconfig: that person's own, or the cluster's, with the rights of that file."""
    async with AsyncExitStack() as stack:
        client = await Client.connect(kubeconfig, user_agent="gpu-console")
        stack.push_async_callback(client.close)
        feed = Feed(client, namespace=namespace)
        reviews = Reviews(client, own=own)
        access: OwnAccess | TokenAccess
        if own:
            access = OwnAccess(client, reviews, feed)
        else:
            bare = client.anonymous()
            stack.push_async_callback(bare.close)
            access = TokenAccess(client, bare, reviews, feed)
        hub = Hub(feed, VIEWS)
        server = Server(feed, hub, access)
        await server.start("127.0.0.1", 0, own_host=own)
        stack.push_async_callback(server.stop)
        tasks = [asyncio.create_task(feed.run()), asyncio.create_task(hub.run())]

        async def end() -> None:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

        stack.push_async_callback(end)
        session = await stack.enter_async_context(aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar()))
        yield Console(feed, hub, server, access, session)


async def shown(page: Page, check: Callable[[Page], Any], what: str) -> None:
    """Wait until a page shows something."""
    await until(lambda: check(page), lambda: f"{what}; the page has {page.rows}, after {page.events[-5:]}")
