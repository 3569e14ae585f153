"""Pods that were admitted, at a real API server: access counts when the last gate goes, and where one may be bound."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson
import pytest

from controllers.api import names
from controllers.api.resources import GPUPOOL, NODE, POD
from controllers.runtime.errors import ApiError
from tests.kit.waiting import until
from tests.webhook import people
from tests.webhook.plane import Api, Plane, Replica, pod
from tests.webhook.test_others import ANYWHERE, created

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

pytestmark = pytest.mark.cluster
ONE, TWO = {"name": "example.com/one"}, {"name": "example.com/two"}
OURS = {"name": names.CARDS_GATE}
BOTH = 6
"""Reviews of which each replica gets some."""


@pytest.fixture
async def team(plane: Plane, api: Api, pair: list[Replica]) -> AsyncIterator[tuple[str, str, list[str]]]:
    """A namespace, a pool for it and for the group `ml`, and two nodes with a card of it each."""
    del pair
    namespace, pool, nodes = plane.unique("team"), plane.unique("pool"), [plane.unique("node") for _ in range(2)]
    await api.namespace(namespace)
    await api.pool(pool, access={"namespaces": [namespace], "dexGroups": ["ml"]})
    for node in nodes:
        await api.node(node, pool, 1)
        await until(lambda node=node: api.ready_node(node), "the node to be ready")
    await told(api, namespace, pool, "free 2)", units=2)
    yield namespace, pool, nodes
    for node in nodes:
        await api.client.request("DELETE", NODE.path(name=node))


def asking(pool: str, name: str = "p", *, units: int = 1, **spec: Any) -> dict[str, Any]:
    return pod(name, {names.resource_name(pool): str(units)}, **(ANYWHERE | spec))


async def told(who: Api, namespace: str, pool: str, part: str, *, units: int = 1) -> None:
    """Wait until every replica says this to somebody who would create a pod."""

    async def all_say() -> bool:
        answers = [await created(who, namespace, asking(pool, "probe", units=units), dryRun="All") for _ in range(BOTH)]
        return all(part in answer for answer in answers)

    await until(all_say, f"every replica to say {part!r}")


async def opened_to(plane: Plane, api: Api, namespace: str, pool: str, **access: Any) -> None:
    """Change who may use a pool; every replica knows it afterwards, and that a stranger may not."""
    whole = {"namespaces": None, "dexGroups": None} | access
    await api.client.merge(GPUPOOL, pool, {"spec": {"access": whole}}, manager="test")
    async with people.acting(plane, "joe") as joe:
        await told(joe, namespace, pool, "AccessDenied")


async def ungated(who: Api, namespace: str, name: str, *left: dict[str, str]) -> str:
    """Leave a pod these gates; empty, or the refusal."""
    path, body = POD.path(namespace, name), {"spec": {"schedulingGates": list(left) or None}}
    try:
        await who.client.request("PATCH", path, body=body, content_type="application/merge-patch+json")
    except ApiError as error:
        return error.message
    return ""


async def bound(who: Api, namespace: str, name: str, node: str, *, legacy: bool = False) -> str:
    """Bind a pod; empty, or the refusal."""
    body = {"metadata": {"name": name}, "target": {"apiVersion": "v1", "kind": "Node", "name": node}}
    path = f"/api/v1/namespaces/{namespace}/bindings" if legacy else POD.path(namespace, name, "binding")
    try:
        await who.create(path, body)
    except ApiError as error:
        return error.message
    return ""


async def test_a_gate_does_not_outlast_the_access(plane: Plane, api: Api, team: tuple[str, str, list[str]]) -> None:
    namespace, pool, _ = team
    async with people.acting(plane, "jane") as jane:
        assert await created(jane, namespace, asking(pool, "kept", schedulingGates=[ONE, TWO])) == "Created"
        await opened_to(plane, api, namespace, pool, namespaces=["others"])
        assert await ungated(jane, namespace, "kept", OURS) == "", "gates that are not the last are nobody's business"
        assert "jane may not let it past the queue" in await ungated(jane, namespace, "kept")
        # The administrator may, and gets no further: whose pod it is counts, and not who takes the gate off.
        refused = await ungated(api, namespace, "kept")
        assert 'webhook "pod-gates.gpu.deckhouse.io" denied the request: AccessDenied: namespace' in refused
        assert "its spec.access allows namespaces others" in refused
        labelled = {"metadata": {"labels": {"app": "x"}}}
        await jane.client.merge(POD, "kept", labelled, manager="test", namespace=namespace)

        await api.client.merge(GPUPOOL, pool, {"spec": {"access": {"namespaces": [namespace]}}}, manager="test")

        async def goes_on() -> bool:
            return await ungated(api, namespace, "kept") == ""

        await until(goes_on, "the pod to go on once its namespace may use the pool again")


async def test_a_persons_pod_goes_on_with_the_persons_rights(
    plane: Plane, api: Api, team: tuple[str, str, list[str]]
) -> None:
    namespace, pool, _ = team
    await opened_to(plane, api, namespace, pool, namespaces=["others"], dexGroups=["ml"])
    async with people.acting(plane, "jane", "ml", "web") as jane:
        for name in ("first", "second"):
            assert await created(jane, namespace, asking(pool, name, schedulingGates=[ONE])) == "Created"
    made = await api.get(POD.path(namespace, "first"))
    assert orjson.loads(made["metadata"]["annotations"][names.REQUESTED_BY]) == {"username": "jane", "groups": ["ml"]}
    # Somebody else, such as a queue's controller, takes the gate off.
    assert await ungated(api, namespace, "first") == ""

    await opened_to(plane, api, namespace, pool, namespaces=["others"], dexGroups=["hpc"])
    assert "groups hpc (jane is in none of them)" in await ungated(api, namespace, "second")


async def test_nobody_brings_a_persons_rights(plane: Plane, api: Api, team: tuple[str, str, list[str]]) -> None:
    namespace, pool, _ = team
    brought = asking(pool, schedulingGates=[ONE])
    brought["metadata"]["annotations"] = {names.REQUESTED_BY: '{"username":"jane","groups":["ml"]}'}
    async with people.acting(plane, "joe") as joe:
        assert await created(joe, namespace, brought) == "Created"
    assert names.REQUESTED_BY not in (await api.get(POD.path(namespace, "p")))["metadata"]["annotations"]


@pytest.mark.parametrize("legacy", [False, True], ids=["pods/binding", "bindings"])
async def test_a_tenant_binds_a_pod_where_its_card_is_reserved(
    plane: Plane, api: Api, team: tuple[str, str, list[str]], legacy: bool
) -> None:
    namespace, pool, nodes = team
    async with people.owning(plane, namespace) as owner:
        nobodys = {"schedulerName": "nobody"}
        assert await created(owner, namespace, asking(pool, **nobodys)) == "Created"
        (promise,) = await api.reservations(pool)
        here = next(node for node in nodes if node in promise["card"])
        (there,) = set(nodes) - {here}

        refused = await bound(owner, namespace, "p", there, legacy=legacy)
        assert f"NotReserved: pod {namespace}/p cannot be bound to node {there}: its cards are reserved" in refused
        assert f"on node {here}. Bind it where its cards are reserved" in refused
        assert await bound(owner, namespace, "p", here, legacy=legacy) == ""

        # Who asks for no card is bound as ever, and a scheduler of the cluster binds anything.
        await owner.make_pod(namespace, pod("plain", **nobodys))
        assert await bound(owner, namespace, "plain", there, legacy=legacy) == ""
        assert await created(owner, namespace, asking(pool, "q", **nobodys)) == "Created"
        assert await bound(api, namespace, "q", here, legacy=legacy) == ""
