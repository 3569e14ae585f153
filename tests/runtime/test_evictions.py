"""Evictions on a real API server: a budget's word is an answer, and only the pod that was meant goes."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import orjson
import pytest
from structlog.testing import capture_logs

from controllers.api.record import adapter
from controllers.api.resources import NAMESPACE, POD, Resource
from controllers.api.user_pod import UserPod
from controllers.runtime.controller import Controller
from controllers.runtime.errors import AlreadyExists, Busy, Conflict, Forbidden, Retry
from controllers.runtime.events import Recorder
from controllers.runtime.executor import Executor
from controllers.runtime.plan import Evict, Ref
from reliability.kit.fault_proxy import writes_to
from tests.kit.waiting import until

if TYPE_CHECKING:
    from controllers.runtime.client import Client
    from reliability.kit.fault_proxy import FaultProxy
    from tests.runtime.helpers import Space

BUDGET = Resource("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget", namespaced=True)
ACCOUNT = Resource("", "v1", "serviceaccounts", "ServiceAccount", namespaced=True)


@pytest.fixture
def executor(client: Client) -> Executor:
    return Executor(client, "tested", Recorder(client, "tested", "test"))


@dataclass
class Pods:
    """Pods that run on a node without a kubelet, and their budget, whose controller is played."""

    client: Client
    namespace: str

    async def run(self, name: str, resource: str = "nvidia.com/gpu") -> Ref:
        """A pod that runs."""
        with contextlib.suppress(AlreadyExists):
            await self.client.create(ACCOUNT, {"metadata": {"name": "default"}}, self.namespace, manager="other")
        container = {"name": "main", "image": "i", "resources": {"limits": {resource: "1"}}}
        spec = {"nodeName": "n1", "containers": [container], "automountServiceAccountToken": False}
        body = {"metadata": {"name": name, "labels": {"app": "a"}}, "spec": spec}
        made = orjson.loads(await self.client.create(POD, body, self.namespace, manager="other"))
        running = {"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}}
        await self.client.merge(POD, name, running, manager="other", namespace=self.namespace, subresource="status")
        return Ref(POD, name, self.namespace, made["metadata"]["uid"])

    async def allow(self, pods: int, name: str = "budget") -> None:
        """A budget that lets so many go."""
        spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": "a"}}}
        body = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": name}, "spec": spec}
        made = orjson.loads(await self.client.apply(BUDGET, name, body, manager="other", namespace=self.namespace))
        healthy = {"currentHealthy": 2, "desiredHealthy": 1, "expectedPods": 2, "disruptionsAllowed": pods}
        status = {"status": {"observedGeneration": made["metadata"]["generation"], "disruptedPods": None, **healthy}}
        await self.client.merge(BUDGET, name, status, manager="other", namespace=self.namespace, subresource="status")

    async def leaving(self) -> set[str]:
        """Pods that have been told to end."""
        items = orjson.loads(await self.client.request("GET", POD.path(self.namespace)))["items"]
        return {one["metadata"]["name"] for one in items if "deletionTimestamp" in one["metadata"]}


@pytest.fixture
def pods(admin: Client, space: Space) -> Pods:
    return Pods(admin, space.name)


async def test_a_dry_run_asks_the_budget_and_ends_nothing(executor: Executor, pods: Pods) -> None:
    pod = await pods.run("a")
    await pods.allow(1)
    for _ in range(2):
        await executor.execute([Evict(pod, dry_run=True)])
    assert await pods.leaving() == set()
    await pods.allow(0)
    with pytest.raises(Retry):
        await executor.execute([Evict(pod, dry_run=True)])

    assert await pods.leaving() == set()


async def test_no_pod_goes_where_the_budget_of_one_refuses(executor: Executor, pods: Pods) -> None:
    first, second = await pods.run("a"), await pods.run("b")
    await pods.allow(0)
    asked = [Evict(one, dry_run=True, parallel_safe=True) for one in (first, second)]
    with pytest.raises(Retry) as refused:
        await executor.execute([*asked, Evict(first), Evict(second)])
    assert await pods.leaving() == set()
    assert refused.value.after == 5.0
    assert {uid: one.times for uid, one in executor.refusals.items()} == {first.uid: 1, second.uid: 1}
    assert "disruption budget" in executor.refusals[first.uid or ""].message
    with pytest.raises(Retry) as refused:
        await executor.execute(asked)
    assert refused.value.after == 10.0


async def test_a_shared_budget_lets_one_go_and_refuses_the_next(executor: Executor, pods: Pods) -> None:
    first, second = await pods.run("a"), await pods.run("b")
    await pods.allow(1)
    asked = [Evict(one, dry_run=True, parallel_safe=True) for one in (first, second)]
    with pytest.raises(Retry):
        await executor.execute([*asked, Evict(first), Evict(second)])
    assert await pods.leaving() == {"a"}
    await pods.allow(1)
    await executor.execute([Evict(second)])

    assert await pods.leaving() == {"a", "b"}
    assert executor.refusals == {}


async def test_two_budgets_of_one_pod_are_a_refusal(executor: Executor, pods: Pods) -> None:
    pod = await pods.run("a")
    await pods.allow(1)
    await pods.allow(1, "other")
    with pytest.raises(Retry, match="PodDisruptionBudget"):
        await executor.execute([Evict(pod)])

    assert await pods.leaving() == set()


async def test_a_pod_of_a_namespace_that_is_deleted_is_a_refusal(executor: Executor, pods: Pods) -> None:
    pod = await pods.run("a")
    await pods.client.request("DELETE", NAMESPACE.path(None, pods.namespace))
    with pytest.raises(Retry, match="being terminated"):
        await executor.execute([Evict(pod)])


async def test_a_right_that_is_missing_is_an_error(pods: Pods, client: Client) -> None:
    pod = await pods.run("a")
    nobody = client.anonymous()
    try:
        with pytest.raises(Forbidden):
            await Executor(nobody, "tested", Recorder(nobody, "tested", "test")).execute([Evict(pod)])
    finally:
        await nobody.close()

    assert await pods.leaving() == set()


async def test_a_pod_of_the_same_name_is_not_evicted(executor: Executor, pods: Pods) -> None:
    pod = await pods.run("a")
    with pytest.raises(Conflict):
        await executor.execute([Evict(Ref(POD, "a", pods.namespace, "another"))])
    assert await pods.leaving() == set()
    await executor.execute([Evict(Ref(POD, "gone", pods.namespace, "any"))])
    await executor.execute([Evict(pod)])

    assert await pods.leaving() == {"a"}


async def test_a_pod_that_was_evicted_is_not_asked_for_again(executor: Executor, pods: Pods, proxy: FaultProxy) -> None:
    pod = await pods.run("a")
    for _ in range(3):
        await executor.execute([Evict(pod, dry_run=True), Evict(pod)])

    assert [one.status for one in proxy.writes] == [201, 201]


async def test_a_refusal_is_no_error_of_a_controller(executor: Executor, pods: Pods) -> None:
    pod = await pods.run("a")
    await pods.allow(0)

    async def reconcile(_key: str) -> None:
        await executor.execute([Evict(pod)])

    controller = Controller("tested", reconcile)
    with capture_logs() as logs:
        task = asyncio.create_task(controller.run())
        controller.add("n1")
        await until(lambda: bool(executor.refusals) and controller.idle, "the refusal")
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    assert logs == []


async def test_a_server_that_has_too_much_to_do_is_no_budget(executor: Executor, pods: Pods, proxy: FaultProxy) -> None:
    pod = await pods.run("a")
    proxy.fail(writes_to("pods"), 429, plain="Too many requests, please try again later.\n")
    with pytest.raises(Busy):
        await executor.execute([Evict(pod)])

    assert executor.refusals == {}


async def test_what_is_kept_of_a_real_pod(pods: Pods, admin: Client) -> None:
    await pods.run("a")
    read: dict[str, Any] = orjson.loads(await admin.get(POD, "a", pods.namespace))
    pod = adapter(UserPod).validate_python(read)

    assert (pod.node, pod.spec.has_local_data, pod.spec.priority) == ("n1", False, 0)
    assert pod.spec.containers[0].resources.limits == {"nvidia.com/gpu": "1"}
