"""Teams that create pods as their ServiceAccounts, over plain connections, and try again as client-go does.

Not as administrator: the API server's own fairness exempts `system:masters`, and nobody who creates a thousand pods
is one. There is no controller manager on the bed, so what it makes of a namespace is made here.
"""

from __future__ import annotations

import asyncio
import ssl
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import aiohttp
import orjson

from controllers.api.names import resource_name
from controllers.api.resources import POD
from controllers.runtime.errors import AlreadyExists
from reliability.bench.environment import MANAGER
from reliability.bench.gpu_pool import POOL
from reliability.kit.actors import create_namespace
from tools.errors import UserError

if TYPE_CHECKING:
    from types import TracebackType

    from controllers.runtime.client import Client
    from sim.controlplane import ControlPlane

TEAMS = tuple(f"team-{number}" for number in range(10))
PLAIN = "example.com/card"
"""What a pod asks for that no webhook hears of: as large, and nothing else differs."""
CARD = resource_name(POOL)
CREATED, TRIES = 201, 10
OPEN_SECONDS = 8
"""So long each of many connections is kept busy, that all of them are open at once."""


@dataclass(frozen=True, slots=True)
class Creation:
    """One pod's creation, its repetitions included."""

    seconds: float
    answered: float
    """Since the epoch."""
    tries: int
    pod: dict[str, Any]
    """As the API server made it; empty where it was refused."""
    refusal: str


class Creators:
    """Ten teams in their namespaces."""

    def __init__(self, plane: ControlPlane, admin: Client) -> None:
        """Prepare; namespaces, accounts and connections are made on entering."""
        self._plane, self._admin, self._made = plane, admin, 0
        self._tokens: dict[str, str] = {}

    async def __aenter__(self) -> Self:
        """Make what is needed."""
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(ssl=ssl.create_default_context(cafile=self._plane.ca), limit=0),
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(total=60),
        )
        role: dict[str, Any] = {"metadata": {"name": "bench-creators"}}
        rules = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["create", "list", "watch"]}]
        roles = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
        await self._admin.request("POST", roles, body=role | {"rules": rules})
        for team in TEAMS:
            await self.enrol(team)
        return self

    async def enrol(self, team: str) -> None:
        """Make a team's namespace and its account."""
        await create_namespace(self._admin, team, manager=MANAGER)
        accounts = f"/api/v1/namespaces/{team}/serviceaccounts"
        with suppress(AlreadyExists):  # where a controller manager runs
            await self._admin.request("POST", accounts, body={"metadata": {"name": "default"}})
        binding = {
            "metadata": {"name": "bench-creators"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "bench-creators"},
            "subjects": [{"kind": "ServiceAccount", "name": "default", "namespace": team}],
        }
        bindings = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{team}/rolebindings"
        await self._admin.request("POST", bindings, body=binding)
        asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 7200}}
        answer = orjson.loads(await self._admin.request("POST", f"{accounts}/default/token", body=asked))
        self._tokens[team] = answer["status"]["token"]

    async def __aexit__(self, kind: type[BaseException] | None, _: object, trace: TracebackType | None) -> None:
        """End the connections."""
        await self._session.close()

    async def open(self, connections: int) -> None:
        """Open so many connections, and keep them: a burst is to measure creations, not handshakes."""

        async def one(number: int) -> None:
            team = TEAMS[number % len(TEAMS)]
            url = f"{self._plane.server}{POD.path(team)}?watch=1&timeoutSeconds={OPEN_SECONDS}&resourceVersion=0"
            async with self._session.get(url, headers=self.headers(team)) as answer:
                await answer.read()

        await asyncio.gather(*(one(number) for number in range(connections)))

    async def create(self, team: str, resource: str) -> Creation:
        """Create a pod that asks for one of a resource."""
        self._made += 1
        pod = pod_of(resource)
        pod["metadata"] |= {"name": f"p-{self._made}"}
        body = orjson.dumps(pod)
        url, headers = f"{self._plane.server}{POD.path(team)}?fieldManager={MANAGER}", self.headers(team)
        began, tries = time.perf_counter(), 0
        while True:
            tries += 1
            async with self._session.post(url, data=body, headers=headers) as answer:
                content, status = await answer.read(), answer.status
                again = answer.headers.get("Retry-After")
            if status == CREATED:
                return Creation(time.perf_counter() - began, time.time(), tries, orjson.loads(content), "")
            if again is None or tries > TRIES:
                why = content.decode()[:1000]
                return Creation(time.perf_counter() - began, time.time(), tries, {}, why)
            await asyncio.sleep(float(again))

    async def several(self, count: int, resource: str, at_once: int) -> list[Creation]:
        """Create pods of all teams, so many at once; raises UserError at the first refusal."""
        queue, made = iter(range(count)), list[Creation]()

        async def work() -> None:
            for number in queue:
                made.append(done := await self.create(TEAMS[number % len(TEAMS)], resource))
                if not done.pod:
                    raise UserError(f"a pod that asks for {resource} was refused: {done.refusal}")

        await asyncio.gather(*(work() for _ in range(at_once)))
        return made

    async def clear(self) -> None:
        """Remove every pod."""
        for team in TEAMS:
            await self._admin.request("DELETE", POD.path(team), query={"gracePeriodSeconds": "0"}, timeout=60)

    def headers(self, team: str) -> dict[str, str]:
        """With which a team's requests come."""
        return {"Authorization": f"Bearer {self._tokens[team]}", "Content-Type": "application/json"}


def pod_of(resource: str) -> dict[str, Any]:
    """A pod that asks for one of a resource."""
    amounts = {"cpu": "8", "memory": "64Gi", resource: "1"}
    container = {
        "name": "main",
        "image": "registry.example.com/team/train:1.4.2",
        "command": ["python", "-m", "train"],
        "args": ["--config=/etc/train/config.yaml", "--epochs=10", "--checkpoint-every=500"],
        "env": [{"name": "NCCL_DEBUG", "value": "WARN"}],
        "resources": {"limits": amounts},
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"generateName": "p-", "labels": {"app": "train"}},
        "spec": {"containers": [container], "automountServiceAccountToken": False},
    }
