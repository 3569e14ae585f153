"""Pods that ask for cards, at a real API server, with two webhook processes under their own identity."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from controllers.api import names
from controllers.api.resources import GPUDEVICE, POD
from controllers.domain.clock import seconds
from tests.kit.waiting import until
from tests.webhook import people
from tests.webhook.plane import Api, Plane, Replica, pod, refusal

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

pytestmark = pytest.mark.cluster


@pytest.fixture
async def team(plane: Plane, api: Api, pair: list[Replica]) -> AsyncIterator[tuple[str, str, str]]:
    """A namespace, a pool, and its node of two cards."""
    namespace, pool, node = plane.unique("team"), plane.unique("pool"), plane.unique("node")
    await api.namespace(namespace)
    await api.pool(pool)
    await api.node(node, pool, 2)
    await until(lambda: api.ready_node(node), "the node to be ready")
    await known(plane, api, namespace, pool, 2)
    yield namespace, pool, node
    await api.client.request("DELETE", f"/api/v1/nodes/{node}")


async def known(plane: Plane, api: Api, namespace: str, pool: str, cards: int) -> None:
    """Both replicas have seen the pool and its cards: dry runs of a pod with all of them pass, many times in a row."""

    async def passes() -> bool:
        body = pod("probe", {names.resource_name(pool): str(cards)})
        try:
            for _ in range(6):
                await api.make_pod(namespace, body, {"dryRun": "All"})
        except Exception:  # noqa: BLE001 - whatever it is, not yet
            return False
        return True

    await until(passes, f"the webhooks to know pool {pool}")


async def test_a_pod_gets_a_card(plane: Plane, api: Api, team: tuple[str, str, str]) -> None:
    namespace, pool, node = team
    made = await api.make_pod(namespace, pod("one", {names.resource_name(pool): "1"}))

    meta, spec = made["metadata"], made["spec"]
    (reserved,) = await api.reservations(pool)
    assert meta["labels"][names.LABEL_POOL] == pool
    assert meta["annotations"][names.REQUEST_ID] == reserved["requestID"]
    assert meta["annotations"][names.DEVICES] == reserved["inventoryID"]
    assert (reserved["namespace"], reserved["pod"], reserved["slots"], reserved["seen"]) == (namespace, "one", 1, False)
    assert seconds(reserved["expiresAt"]) - seconds(reserved["since"]) == pytest.approx(15, abs=0.1)
    card = await api.get(GPUDEVICE.path(name=reserved["card"]))
    assert card["status"]["state"] == "Reserved"
    affinity = spec["affinity"]["nodeAffinity"]
    (term,) = affinity["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    assert term["matchExpressions"] == [{"key": names.pool_node_label(pool), "operator": "Exists"}]

    async def runs() -> bool:
        found = await api.get(POD.path(namespace, "one"))
        return found["spec"].get("nodeName") == node and found["status"]["phase"] == "Running"

    await until(runs, "the pod to run")


async def test_shortage_is_told_to_the_creator(plane: Plane, api: Api, team: tuple[str, str, str]) -> None:
    namespace, pool, _ = team
    ask = {names.resource_name(pool): "1"}
    for name in ("one", "two"):
        await api.make_pod(namespace, pod(name, ask))
    message = await refusal(api.make_pod(namespace, pod("three", ask)))
    assert "denied the request: InsufficientCapacity: " in message
    assert "total 2" in message
    assert "free 0" in message
    assert "ReplicaSet" in message


async def test_dry_run_writes_nothing(plane: Plane, api: Api, team: tuple[str, str, str]) -> None:
    namespace, pool, _ = team
    made = await api.make_pod(namespace, pod("dry", {names.resource_name(pool): "2"}), {"dryRun": "All"})
    assert len(made["metadata"]["annotations"][names.DEVICES].split(",")) == 2
    assert await api.reservations(pool) == []


async def test_several_cards_are_one_request(plane: Plane, api: Api, team: tuple[str, str, str]) -> None:
    namespace, pool, _ = team
    made = await api.make_pod(namespace, pod("both", {names.resource_name(pool): "2"}))
    reserved = await api.reservations(pool)
    assert {entry["requestID"] for entry in reserved} == {made["metadata"]["annotations"][names.REQUEST_ID]}
    assert len(reserved) == 2


@pytest.mark.parametrize(
    ("body", "word"),
    [
        (pod("p", {names.resource_name("no-such-pool"): "1"}), "PoolNotFound: "),
        (pod("p", {names.resource_name("a"): "1", names.resource_name("b"): "1"}), "MixedPoolRequest: "),
    ],
    ids=["unknown pool", "two pools"],
)
async def test_what_makes_no_sense_is_refused(
    plane: Plane, api: Api, pair: list[Replica], body: Any, word: str
) -> None:
    namespace = await api.namespace(plane.unique("team"))
    assert f"denied the request: {word}" in await refusal(api.make_pod(namespace, body))


async def test_access_by_namespace(plane: Plane, api: Api, team: tuple[str, str, str]) -> None:
    namespace, pool, _ = team
    await api.client.merge(api_pool(), pool, {"spec": {"access": {"namespaces": [namespace]}}}, manager="test")
    stranger = await api.namespace(plane.unique("stranger"))

    async with people.acting(plane, "jane") as jane:

        async def refused() -> str:
            try:
                await jane.make_pod(stranger, pod("p", {names.resource_name(pool): "1"}), {"dryRun": "All"})
            except Exception as error:  # noqa: BLE001 - its text is looked at
                return str(error)
            return ""

        message = await until(refused, "access to be refused")
        assert f"AccessDenied: namespace {stranger} " in message
        await jane.make_pod(namespace, pod("p", {names.resource_name(pool): "1"}))


def api_pool() -> Any:
    from controllers.api.resources import GPUPOOL

    return GPUPOOL
