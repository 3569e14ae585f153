"""Reviews sent straight to a replica, as the API server sends them."""

from __future__ import annotations

import asyncio
import base64
import io
import ssl
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import aiohttp
import orjson

from controllers.api import names
from controllers.api.resources import MUTATING_WEBHOOK
from tests.webhook import world

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.webhook.plane import Api


async def trust(api: Api) -> ssl.SSLContext:
    """Verifies the webhook by the caBundle that the API server has."""
    found = await api.get(MUTATING_WEBHOOK.path(name=names.WEBHOOK_CONFIGURATION))
    bundle = base64.b64decode(found["webhooks"][0]["clientConfig"]["caBundle"]).decode()
    return ssl.create_default_context(cadata=bundle)


def review(pool: str, *, units: int = 1, namespace: str = "team", dry_run: bool = False, uid: str = "u") -> bytes:
    """A review of a pod of the size that real ones have (2.6 kB)."""
    managed = {
        "manager": "kube-controller-manager",
        "operation": "Update",
        "fieldsV1": {f"f:{n}": {} for n in range(90)},
    }
    pod = world.pod(
        units,
        pool=pool,
        meta={"name": "", "generateName": "train-", "labels": {"app": "train"}, "managedFields": [managed]},
        serviceAccountName="default",
        # A new node carries a taint for a moment after it is ready.
        tolerations=[{"operator": "Exists"}, {"key": "node.kubernetes.io/not-ready", "effect": "NoExecute"}],
        volumes=[{"name": "kube-api-access", "projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}}],
    )
    return orjson.dumps(world.review_of(pod, uid=uid, namespace=namespace, dryRun=dry_run))


async def send(session: aiohttp.ClientSession, port: int, body: bytes) -> dict[str, Any]:
    """The `response` of the answer."""
    async with session.post(f"https://127.0.0.1:{port}/mutate-pods", data=io.BytesIO(body)) as answer:
        content = await answer.read()
        assert answer.status == 200, content
        response: dict[str, Any] = orjson.loads(content)["response"]
        return response


def word(response: dict[str, Any]) -> str:
    """Granted, or the first word of the refusal."""
    return "Granted" if response["allowed"] else response["status"]["message"].partition(":")[0]


@dataclass
class Load:
    """Latencies in seconds and outcomes of a load in which each of a few clients sends when its last is answered.

    A machine that is slow is asked less in a second, and falls behind by nothing.
    """

    seconds: list[float] = field(default_factory=list)
    outcomes: list[str] = field(default_factory=list)

    @classmethod
    async def run(
        cls, session: aiohttp.ClientSession, port: int, clients: int, count: int, body: Callable[[], bytes]
    ) -> Load:
        """Send `count` reviews, at most `clients` at once."""
        load, left = cls(), iter(range(count))

        async def client() -> None:
            for _ in left:
                began = time.perf_counter()
                try:
                    response = await send(session, port, body())
                except (aiohttp.ClientError, TimeoutError) as error:
                    load.outcomes.append(type(error).__name__)
                    continue
                load.seconds.append(time.perf_counter() - began)
                load.outcomes.append(word(response))

        async with asyncio.TaskGroup() as group:
            for _ in range(clients):
                group.create_task(client())
        return load
