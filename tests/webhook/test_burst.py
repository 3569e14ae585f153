"""Two hundred pods at once for as many cards, over two replicas and a balancer, by teams that the API server queues."""

from __future__ import annotations

import asyncio
import sys
import time
from collections import Counter
from typing import TYPE_CHECKING, Any

import orjson
import pytest

from controllers.api import names
from controllers.api.resources import POD
from controllers.domain.clock import seconds
from controllers.runtime.client import Client
from controllers.runtime.errors import ApiError
from tests.kit.waiting import PATIENCE, until
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
    asked = pod("all", {names.resource_name(name): str(NODES * CARDS + 1)}, **ANYWHERE)
    namespace = await api.namespace(plane.unique("probe"))

    async def known() -> bool:
        told = [str(await refused(api, namespace, asked)) for _ in range(2 * len(pair))]
        return all(f"free {NODES * CARDS})" in one for one in told)

    await until(known, "both replicas to know every card")
    yield name
    for node in nodes:
        await api.client.request("DELETE", f"/api/v1/nodes/{node}")


async def refused(api: Api, namespace: str, body: dict[str, Any]) -> str:
    try:
        await api.make_pod(namespace, body, {"dryRun": "All"})
    except ApiError as error:
        return error.message
    return ""


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


async def create(client: Client, namespace: str, body: dict[str, Any]) -> tuple[float, int, dict[str, Any]]:
    """When it was created (since the epoch), after how many refusals, and the pod.

    It is tried again, as controllers do: on a busy machine the API server gives up.
    """
    refusals, limit = 0, time.monotonic() + PATIENCE
    while True:
        try:
            answer = await client.request("POST", POD.path(namespace), body=body, timeout=PATIENCE)
        except ApiError as error:
            if time.monotonic() > limit:
                raise
            refusals += 1
            await asyncio.sleep(error.retry_after or 1.0)
        else:
            return time.time(), refusals, orjson.loads(answer)


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
    refusals = sum(times for _, times, _ in made)
    sys.stdout.write(f"\n{len(made)} pods at once: {took:.1f} s, {refusals} refusals\n")
    assert len(made) == NODES * CARDS
    given = Counter(item["metadata"]["annotations"][names.DEVICES] for _, _, item in made)
    assert set(given.values()) == {1}, [card for card, times in given.items() if times > 1]

    ends = {entry["requestID"]: seconds(entry["expiresAt"]) for entry in await api.reservations(pool)}
    for answered, _, item in made:
        # One whose pod is bound already may have been dropped; one that is there was good when its pod was made.
        assert ends.get(item["metadata"]["annotations"][names.REQUEST_ID], answered) >= answered
    served = [await asyncio.to_thread(replica.metric, "gpu_webhook_reservations_total") for replica in pair]
    assert all(served), "both replicas took part"
    # The reservations went through a level of their own, and that level had room for them.
    assert await level(api, "dispatched_requests_total") >= dispatched + NODES * CARDS
    assert await level(api, "rejected_requests_total", FULL) == turned_away
