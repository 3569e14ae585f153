"""The same race with and without the precondition: without it cards are promised twice, so these tests can fail.

Two webhooks in this process, under the webhook's own identity, whose caches have heard of the same card and of nothing
since: what each decides the other does not know. Only the write can tell them.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import orjson
import pytest

from controllers.api import names
from controllers.api.gpudevice import GPUDevice
from controllers.api.gpupool import GPUPool
from controllers.api.kube import Node
from controllers.api.record import adapter
from controllers.api.resources import GPUDEVICE, GPUPOOL, NODE
from controllers.api.settings import Settings
from controllers.runtime.client import Client
from controllers.runtime.events import Recorder
from controllers.runtime.executor import Executor
from tests.kit.waiting import until
from tests.webhook import world
from tests.webhook.plane import Api, Plane
from webhook.handlers.pod_creation import PodCreationHandler
from webhook.reservations.reserve import Reserver

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

pytestmark = pytest.mark.cluster
ROUNDS = 5


class Careless:
    """A client whose merge patches carry no resourceVersion."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def merge(self, resource: Any, name: str, body: dict[str, Any], **more: Any) -> bytes:
        meta = {key: value for key, value in body["metadata"].items() if key != "resourceVersion"}
        return await self._client.merge(resource, name, {**body, "metadata": meta}, **more)


@pytest.fixture
async def client(plane: Plane) -> AsyncIterator[Client]:
    made = await Client.connect(plane.account, user_agent="test")
    yield made
    await made.close()


async def webhook(client: Client, node: str, pool: str, *, careless: bool) -> PodCreationHandler:
    """One that knows what there is now, and learns only of its own writes."""
    caches = world.stores()
    snapshot = world.snapshot(caches)
    for store, kind, resource, name in (
        (caches.pools, GPUPool, GPUPOOL, pool),
        (caches.nodes, Node, NODE, node),
    ):
        answer = await client.request("GET", resource.path(), query={"fieldSelector": f"metadata.name={name}"})
        (found,) = orjson.loads(answer)["items"]
        store.on_watch_event(adapter(kind).validate_python(found))  # type: ignore[attr-defined]
    for item in orjson.loads(await client.request("GET", GPUDEVICE.path()))["items"]:
        if item["metadata"]["name"].startswith(f"{node}-"):
            caches.devices.on_watch_event(adapter(GPUDevice).validate_python(item))
    writer: Any = Careless(client) if careless else client
    executor = Executor(writer, names.MANAGER_ADMISSION, Recorder(client, "test", "test"))
    executor.register_cache(GPUDEVICE, GPUDevice, caches.devices)
    reserver = Reserver(client, executor, caches.devices, is_bound=snapshot.is_bound, still_fits=snapshot.still_fits)
    return PodCreationHandler(client, caches, snapshot, reserver, Settings)


async def race(plane: Plane, api: Api, client: Client, slots: int, *, careless: bool) -> tuple[int, int]:
    """Two pods at two webhooks for one card: how many are granted it, and how many of them it knows of."""
    pool, node = plane.unique("pool"), plane.unique("node")
    mode = {"mode": "TimeSlice", "timeSlice": {"maxSlicesPerDevice": slots}} if slots > 1 else {"mode": "Exclusive"}
    await api.pool(pool, allocation=mode)
    (card,) = await api.node(node, pool, 1)
    await api.status(GPUDEVICE, card, {"published": {"pool": pool, "configVersion": "1", "slots": slots}})
    await api.shows(node, pool, slots)
    await until(lambda: api.ready_node(node), "the node to be ready")
    pair = [await webhook(client, node, pool, careless=careless) for _ in range(2)]
    body = orjson.dumps(world.review_of(world.pod(pool=pool, tolerations=[{"operator": "Exists"}])))
    answers = [orjson.loads(text) for text in await asyncio.gather(*(one.handle(body, 4) for one in pair))]
    granted = sum(answer["response"]["allowed"] for answer in answers)
    stored = len(await api.reservations(pool))
    await api.client.request("DELETE", NODE.path(name=node))
    return granted, stored


async def test_a_card_is_promised_once(plane: Plane, api: Api, client: Client) -> None:
    for _ in range(ROUNDS):
        assert await race(plane, api, client, 1, careless=False) == (1, 1)


async def test_without_the_precondition_a_card_is_promised_twice(plane: Plane, api: Api, client: Client) -> None:
    rounds = [await race(plane, api, client, 1, careless=True) for _ in range(ROUNDS)]
    # Two pods have the card, and it knows of the second only.
    assert (2, 1) in rounds


async def test_a_shared_card_knows_of_all_its_pods(plane: Plane, api: Api, client: Client) -> None:
    for _ in range(ROUNDS):
        assert await race(plane, api, client, 4, careless=False) == (2, 2)


async def test_without_the_precondition_a_shared_card_forgets_one(plane: Plane, api: Api, client: Client) -> None:
    assert (2, 1) in [await race(plane, api, client, 4, careless=True) for _ in range(ROUNDS)]
