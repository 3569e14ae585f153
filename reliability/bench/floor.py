"""The floor: the same writes by the barest client there is.

A session of aiohttp of its own, and nothing of our runtime: no caches, no watches, no
records, no events, no lease. What this takes, the API server and the machine take; what the
module takes beyond it is ours. One client lives for one run of the benchmark.
"""

from __future__ import annotations

import asyncio
import ssl
import time
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import aiohttp
import orjson
import yaml

from tools.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from reliability.bench.fleet import Write

APPLY = "application/apply-patch+yaml"
OK = (200, 201)


@dataclass(frozen=True, slots=True)
class Took:
    """One run of the floor."""

    seconds: float
    cpu_seconds: float
    """Of this process, while it ran."""
    writes: int


class RawClient:
    """Applies under the identity of a kubeconfig with a token."""

    def __init__(self, kubeconfig: Path, manager: str) -> None:
        """Read the kubeconfig; the session is opened on entering."""
        config = yaml.safe_load(kubeconfig.read_text())
        cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
        self._server, self._query = cluster["server"], f"?fieldManager={manager}&force=true"
        self._tls = ssl.create_default_context(cafile=cluster["certificate-authority"])
        self._headers = {"Authorization": f"Bearer {user['token']}", "Content-Type": APPLY}

    async def __aenter__(self) -> Self:
        """Open the session."""
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(ssl=self._tls, limit=64),
            cookie_jar=aiohttp.DummyCookieJar(),
            headers=self._headers | {"Accept-Encoding": "identity", "Accept": "application/json"},
            auto_decompress=False,
        )
        return self

    async def __aexit__(self, kind: type[BaseException] | None, _: object, trace: TracebackType | None) -> None:
        """End the connections."""
        await self._session.close()

    async def write(
        self, nodes: Iterable[Sequence[Write]], *, at_once: int, done: Callable[[], None] = lambda: None
    ) -> Took:
        """Make the writes: of a node one after the other, of `at_once` nodes at a time."""
        queue, count = iter(nodes), 0

        async def work() -> None:
            nonlocal count
            for node in queue:
                await self._node(node)
                count += len(node)
                done()

        started, cpu = time.perf_counter(), time.process_time()
        async with asyncio.TaskGroup() as group:
            for _ in range(at_once):
                group.create_task(work())
        return Took(time.perf_counter() - started, time.process_time() - cpu, count)

    async def _node(self, node: Sequence[Write]) -> None:
        made: dict[str, dict[str, str]] = {}
        for write in node:
            body, key = write.body, f"{write.resource.kind}/{write.name}"
            if write.status:
                known = made[key]
                of = {"uid": known["uid"], "resourceVersion": known["resourceVersion"]}
                body = {**body, "metadata": {**body["metadata"], **of}}
            made[key] = orjson.loads(await self.apply(write.path, body))["metadata"]

    async def apply(self, path: str, body: dict[str, Any]) -> bytes:
        """One server-side apply; returns the answer's body."""
        async with self._session.patch(f"{self._server}{path}{self._query}", data=orjson.dumps(body)) as answer:
            content = await answer.read()
        if answer.status not in OK:
            raise UserError(f"the floor's write to {path} was refused: {content.decode()[:500]}")
        return content
