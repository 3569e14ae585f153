"""A node whose cards are in two pools, with the real scheduler: a taint of one takes it from no pod of the other."""

from __future__ import annotations

import asyncio
import subprocess
from typing import Any

import orjson
import pytest

from controllers.api import resources
from sim.workload import pod_spec
from tests.kit.waiting import PATIENCE
from tests.slice.people import People
from tests.slice.test_hands import taint

pytestmark = pytest.mark.cluster
NODE, TEAM = "gpu-3", "shared-nodes"
ONE, OTHER = "shared-one", "shared-other"
DEPLOYMENTS = f"/apis/apps/v1/namespaces/{TEAM}/deployments"
SHUTDOWN = {"key": "node.cloudprovider.kubernetes.io/shutdown", "effect": "NoSchedule"}


async def kubectl(people: People, *args: str) -> subprocess.CompletedProcess[str]:
    command = [str(people.plane.kubectl), "--kubeconfig", str(people.plane.kubeconfig), *args]
    return await asyncio.to_thread(
        subprocess.run, command, capture_output=True, text=True, timeout=PATIENCE, check=True
    )


async def wants(people: People, *taints: dict[str, str]) -> str:
    """Have pool ONE want these taints; returns what kubectl prints for whom it concerns."""
    change = orjson.dumps({"spec": {"scheduling": {"taints": taints}}}).decode()
    return (await kubectl(people, "patch", "gpupool", ONE, "--type=merge", "-p", change)).stderr


async def there(people: People, *effects: str) -> None:
    """Wait until the node has the pool's taint with these effects, and no others."""

    def found() -> list[str]:
        node = people.view.nodes.get(NODE)
        return [one.effect for one in node.spec.taints if one.key == "dedicated"] if node is not None else []

    await people.view.until(lambda: found() == list(effects), PATIENCE, lambda: f"{found()}, expected {effects}")


async def restarted(people: People) -> None:
    """Delete the Deployment's pods, and wait until as many others run on the node."""
    before = {pod.metadata.uid for pod in people.pods(TEAM)}
    for pod in people.pods(TEAM):
        await people.remove(resources.POD, pod.name, TEAM)

    def run() -> list[tuple[str, str | None, bool]]:
        return [(p.name, p.node, p.ready) for p in people.pods(TEAM) if p.metadata.uid not in before]

    await people.view.until(
        lambda: [(node, ready) for _, node, ready in run()] == [(NODE, True)] * 2, PATIENCE, lambda: str(run())
    )
    await people.settled(OTHER, (2, 2, 0, 0))


@pytest.fixture
async def shared(people: People) -> Any:
    """Pool ONE with a card of the node, and OTHER with two, on which a Deployment's pods run."""
    cards = sorted(device.name for device in people.view.devices if device.status.node_name == NODE)
    await people.namespace(TEAM)
    await people.filled(ONE, cards[:1])
    await people.filled(OTHER, cards[1:3])
    labels = {"app": "serve"}
    template = {"metadata": {"labels": labels}, "spec": pod_spec(OTHER)}
    spec = {"replicas": 2, "selector": {"matchLabels": labels}, "template": template}
    body = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "serve"}, "spec": spec}
    await people.client.request("POST", DEPLOYMENTS, body=body)
    await people.running(TEAM, 2)
    yield
    await people.client.request("DELETE", f"{DEPLOYMENTS}/serve", body={"propagationPolicy": "Foreground"})
    await people.view.until(lambda: not people.pods(TEAM), PATIENCE, lambda: str(people.pods(TEAM)))
    await people.retire(ONE)
    await people.retire(OTHER)
    await there(people)


@pytest.mark.usefixtures("shared")
async def test_pods_of_another_pool_keep_their_node(people: People) -> None:
    told = await wants(people, {"key": "dedicated", "value": "one", "effect": "NoSchedule"})
    assert f"Warning: GPUPool {ONE} shares 1 node ({NODE}) with GPUPool {OTHER}: dedicated=one:NoSchedule" in told
    await there(people, "NoSchedule")
    await restarted(people)

    # Those that run tolerate it: the taint waits for nobody, and evicts nobody.
    await wants(people, {"key": "dedicated", "value": "one", "effect": "NoExecute"})
    await restarted(people)
    before = {pod.metadata.uid for pod in people.pods(TEAM)}
    await there(people, "NoExecute")
    await people.settled(OTHER, (2, 2, 0, 0))
    assert {pod.metadata.uid for pod in people.pods(TEAM)} == before

    # Who has no cards there does not come.
    await people.pod("stranger", TEAM, None, nodeSelector={"kubernetes.io/hostname": NODE})
    await kubectl(
        people, "-n", TEAM, "wait", "pod/stranger", "--for=condition=PodScheduled=false", f"--timeout={PATIENCE:g}s"
    )
    await people.remove(resources.POD, "stranger", TEAM)


@pytest.mark.usefixtures("shared")
async def test_what_a_nodes_own_taint_keeps_off_is_not_available(people: People) -> None:
    await kubectl(people, "-n", TEAM, "scale", "deployment/serve", "--replicas=1")
    await people.settled(OTHER, (2, 1, 0, 1))
    await taint(people, NODE, lambda found: [*found, SHUTDOWN])
    await people.settled(OTHER, (2, 1, 0, 0))
    assert "unavailable 1, free 0" in await people.refused("p", TEAM, OTHER)

    await taint(people, NODE, lambda found: [one for one in found if one["key"] != SHUTDOWN["key"]])
    await people.settled(OTHER, (2, 1, 0, 1))
