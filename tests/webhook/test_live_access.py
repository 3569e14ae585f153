"""Access at a real API server: groups of a person, and RBAC's verb `use` for a person and for a ServiceAccount."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from controllers.api import names
from tests.kit.pace import Stretch
from tests.kit.waiting import until
from tests.webhook import people
from tests.webhook.plane import Api, Plane, Replica, pod
from tests.webhook.test_others import ANYWHERE, answering, created

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

pytestmark = pytest.mark.cluster
SOON = 7.0
"""Seconds: a refusal counts for five."""


@pytest.fixture
async def closed(plane: Plane, api: Api, pair: list[Replica]) -> AsyncIterator[tuple[str, str]]:
    """A namespace, and a pool of eight cards whose lists allow another namespace and a group."""
    namespace, pool, node = plane.unique("team"), plane.unique("pool"), plane.unique("node")
    await api.namespace(namespace)
    await api.pool(pool, access={"namespaces": ["nobody"], "dexGroups": ["ml"]})
    await api.node(node, pool, 8)
    await until(lambda: api.ready_node(node), "the node to be ready")
    # The administrator may do everything, and so use every pool.
    await answering(api, namespace, pool)
    yield namespace, pool
    await api.client.request("DELETE", f"/api/v1/nodes/{node}")


def asking(pool: str, name: str = "p", **spec: Any) -> dict[str, Any]:
    return pod(name, {names.resource_name(pool): "1"}, **(ANYWHERE | spec))


async def test_a_person_of_the_group_may_and_another_may_not(plane: Plane, closed: tuple[str, str]) -> None:
    namespace, pool = closed
    async with people.acting(plane, "jane", "ml") as jane, people.acting(plane, "joe", "web") as joe:
        assert await created(jane, namespace, asking(pool)) == "Created"
        message = await created(joe, namespace, asking(pool, "q"))
    assert "denied the request: AccessDenied: " in message
    assert "groups ml (joe is in none of them). Nor does RBAC grant the verb use" in message
    assert f"on gpupools/{pool} to system:serviceaccount:{namespace}:default or joe." in message


async def test_a_controllers_pods_are_not_judged_by_groups(plane: Plane, api: Api, closed: tuple[str, str]) -> None:
    namespace, pool = closed
    template = {"metadata": {"labels": {"app": "x"}}, "spec": asking(pool)["spec"]}
    spec = {"replicas": 1, "selector": {"matchLabels": {"app": "x"}}, "template": template}
    body = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "x"}, "spec": spec}
    async with people.acting(plane, "jane", "ml") as jane:
        await jane.create(f"/apis/apps/v1/namespaces/{namespace}/replicasets", body)

        async def told() -> str:
            events = (await api.get(f"/api/v1/namespaces/{namespace}/events"))["items"]
            return next((event["message"] for event in events if "AccessDenied" in event["message"]), "")

        message = await until(told, "the ReplicaSet to be told")
    assert "groups ml (they count only for pods that a person creates, not a controller)" in message

    # The pod's own ServiceAccount may be granted what its creator has by a group.
    account = {"kind": "ServiceAccount", "name": "default", "namespace": namespace}
    await people.may_use(api, plane.unique("use"), pool, account)

    async def runs() -> bool:
        return bool((await api.get(f"/api/v1/namespaces/{namespace}/pods"))["items"])

    await until(runs, "the ReplicaSet's pod, once its ServiceAccount may use the pool")


@pytest.mark.parametrize("whom", ["the person", "the pod's account"])
async def test_a_granted_verb_works_soon(plane: Plane, api: Api, closed: tuple[str, str], whom: str) -> None:
    namespace, pool = closed
    subject: dict[str, Any] = {"kind": "ServiceAccount", "name": "default", "namespace": namespace}
    if whom == "the person":
        subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "joe"}
    async with people.acting(plane, "joe") as joe:
        assert "AccessDenied" in await created(joe, namespace, asking(pool), dryRun="All")
        await people.may_use(api, plane.unique("use"), pool, subject)

        async def works() -> bool:
            return await created(joe, namespace, asking(pool), dryRun="All") == "Created"

        with Stretch() as machine:
            await until(works, "the grant to count")
        assert await created(joe, namespace, asking(pool, serviceAccountName="default")) == "Created"
        other = await api.namespace(plane.unique("other"))
        elsewhere = await created(joe, other, asking(pool), dryRun="All")
    assert ("AccessDenied" in elsewhere) == (whom != "the person")
    machine.judge("the grant", machine.seconds, SOON)


async def test_rbac_is_asked_seldom_and_only_where_the_lists_do_not_allow(
    plane: Plane, pair: list[Replica], closed: tuple[str, str]
) -> None:
    namespace, pool = closed

    def asked(result: str) -> float:
        return sum(replica.metric(rf'gpu_webhook_access_reviews_total{{result="{result}"}}') for replica in pair)

    async with people.acting(plane, "jane", "ml") as jane, people.acting(plane, "jim") as jim:
        before = {result: asked(result) for result in ("miss", "hit", "failure")}
        for _ in range(10):
            assert await created(jane, namespace, asking(pool), dryRun="All") == "Created"
        assert {result: asked(result) for result in before} == before
        for _ in range(20):
            assert "AccessDenied" in await created(jim, namespace, asking(pool), dryRun="All")
    # Two subjects, two replicas.
    assert asked("miss") - before["miss"] <= 4
    assert asked("hit") - before["hit"] >= 20
    assert asked("failure") == before["failure"]
