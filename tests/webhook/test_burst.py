"""Two hundred pods at once for as many cards, over two replicas and a balancer, by teams that the API server queues."""

from __future__ import annotations

import asyncio
import sys
import time
from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, Any

import aiohttp
import orjson
import pytest

from controllers.api import names
from controllers.api.resources import POD
from controllers.domain.clock import seconds
from controllers.runtime.client import Client
from controllers.runtime.errors import AlreadyExists, ApiError, Unreachable
from tests.kit.waiting import PATIENCE, until
from tests.webhook import direct
from tests.webhook.plane import Api, Plane, Replica, pod

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

pytestmark = pytest.mark.cluster
NODES, CARDS, TEAMS = 25, 8, 5
ANYWHERE: dict[str, Any] = {"tolerations": [{"operator": "Exists"}]}
LEVEL, FULL = "gpu-admission-webhook", 'reason="queue-full"'


@pytest.fixture
async def pool(plane: Plane, api: Api, pair: list[Replica]) -> AsyncIterator[str]:
    """Known to both replicas, with all its cards."""
    name = await api.pool(plane.unique("pool"))
    nodes = [plane.unique("node") for _ in range(NODES)]
    for first in range(0, NODES, 5):
        await asyncio.gather(*(api.node(node, name, CARDS) for node in nodes[first : first + 5]))
    asked = direct.review(name, units=NODES * CARDS + 1, dry_run=True)
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=await direct.trust(api))) as session:

        async def known() -> bool:
            told = [await direct.send(session, replica.port, asked) for replica in pair]
            whole = f"free {NODES * CARDS})"
            return all(not one["allowed"] and whole in one["status"]["message"] for one in told)

        await until(known, "both replicas to know every card")
    yield name
    for node in nodes:
        await api.client.request("DELETE", f"/api/v1/nodes/{node}")


async def team(plane: Plane, api: Api) -> tuple[str, Client]:
    """A namespace, and its ServiceAccount: no administrator, whom the API server's fairness lets pass."""
    namespace = await api.namespace(plane.unique("team"))
    binding = {
        "metadata": {"name": "creators"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "admin"},
        "subjects": [{"kind": "ServiceAccount", "name": "default", "namespace": namespace}],
    }
    await api.create(f"/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}/rolebindings", binding)
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts/default/token"
    asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 3600}}
    answer = await api.client.request("POST", path, body=asked)
    text = orjson.loads(answer)["status"]["token"]

    async def token() -> str:
        return str(text)

    return namespace, api.client.anonymous().with_token(token)


async def create(client: Client, namespace: str, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
    """The pod, and how many tries were in vain.

    It is tried again, as controllers do: on a busy machine the API server gives up, some of the time after it wrote.
    """
    tries, limit = 0, time.monotonic() + PATIENCE
    while True:
        try:
            answer = await client.request("POST", POD.path(namespace), body=body, timeout=PATIENCE)
        except AlreadyExists:
            answer = await client.request("GET", POD.path(namespace, body["metadata"]["name"]))
        except (ApiError, Unreachable) as error:
            if time.monotonic() > limit:
                raise
            tries += 1
            await asyncio.sleep(getattr(error, "retry_after", None) or 1.0)
            continue
        return tries, orjson.loads(answer)


async def has_reserved(replica: Replica) -> bool:
    return await asyncio.to_thread(replica.metric, "gpu_webhook_reservations_total") > 0


async def level(api: Api, metric: str, label: str = "") -> float:
    """A counter of the API server for the webhook's own priority level; `label`: of one of its series."""
    text = (await api.client.request("GET", "/metrics")).decode()
    lines = [line for line in text.splitlines() if line.startswith(f"apiserver_flowcontrol_{metric}{{")]
    return sum(
        float(line.rpartition(" ")[2]) for line in lines if f'priority_level="{LEVEL}"' in line and label in line
    )


async def test_all_are_admitted_and_no_card_is_given_twice(
    plane: Plane, api: Api, pair: list[Replica], pool: str
) -> None:
    teams = [await team(plane, api) for _ in range(TEAMS)]
    dispatched = await level(api, "dispatched_requests_total")
    turned_away = await level(api, "rejected_requests_total", FULL)
    body = {names.resource_name(pool): "1"}
    began = time.perf_counter()
    try:
        made = await asyncio.gather(
            *(
                create(client, namespace, pod(f"p-{number}", body, **ANYWHERE))
                for number in range(NODES * CARDS // TEAMS)
                for namespace, client in teams
            )
        )
    finally:
        for _, client in teams:
            await client.close()
    took = time.perf_counter() - began
    sys.stdout.write(f"\n{len(made)} pods at once: {took:.1f} s, {sum(tries for tries, _ in made)} refusals\n")
    given = Counter(item["metadata"]["annotations"][names.DEVICES] for _, item in made)
    assert set(given.values()) == {1}, [card for card, times in given.items() if times > 1]

    ends = {entry["requestID"]: seconds(entry["expiresAt"]) for entry in await api.reservations(pool)}
    for _, item in made:
        # One whose pod is bound already may have been dropped; one that is there was good when its pod was made.
        created = seconds(item["metadata"]["creationTimestamp"])
        assert ends.get(item["metadata"]["annotations"][names.REQUEST_ID], created) >= created
    for replica in pair:
        await until(partial(has_reserved, replica), f"replica {replica.port} to have reserved cards, too")
    # The reservations went through a level of their own, and that level had room for them.
    assert await level(api, "dispatched_requests_total") >= dispatched + NODES * CARDS
    assert await level(api, "rejected_requests_total", FULL) == turned_away
