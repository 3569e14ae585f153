"""A node whose cards are in two pools, with the real scheduler: a taint of one takes it from no pod of the other."""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
from typing import TYPE_CHECKING, Any

import orjson
import pytest

from controllers.api import names, resources
from controllers.runtime.errors import ApiError, NotFound
from sim.workload import gpu_pod, pod_spec
from tests.kit.waiting import PATIENCE, until
from tests.slice.people import People
from tests.slice.test_hands import taint

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

pytestmark = pytest.mark.cluster
NODE, TEAM = "gpu-3", "shared-nodes"
ONE, OTHER = "shared-one", "shared-other"
DEPLOYMENTS = f"/apis/apps/v1/namespaces/{TEAM}/deployments"
SHUTDOWN = {"key": "node.cloudprovider.kubernetes.io/shutdown", "effect": "NoSchedule"}


async def kubectl(people: People, *args: str) -> subprocess.CompletedProcess[str]:
    command = [str(people.plane.kubectl), "--kubeconfig", str(people.plane.kubeconfig), *args]
    done = await asyncio.to_thread(
        subprocess.run, command, capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert done.returncode == 0, done
    return done


async def wants(people: People, taint: dict[str, str], *flags: str) -> str:
    """Have pool ONE want this taint; returns what kubectl prints for whom it concerns."""
    change = orjson.dumps({"spec": {"scheduling": {"taints": [taint]}}}).decode()
    return (await kubectl(people, "patch", "gpupool", ONE, "--type=merge", "-p", change, *flags)).stderr


async def in_a_row(ask: Callable[[], Awaitable[bool]], what: str) -> None:
    """Wait until the webhook answers so several times in a row: replicas have caches of their own, and may differ."""

    async def always() -> bool:
        return all([await ask() for _ in range(4)])

    await until(always, what)


async def tolerated(people: People, taint: dict[str, str]) -> None:
    """Wait until the webhook gives pods of pool OTHER a toleration for the taint."""
    asked, path = gpu_pod("asks", OTHER), resources.POD.path(TEAM)

    async def gives() -> bool:
        try:
            answer = await people.client.request("POST", path, query={"dryRun": "All"}, body=asked)
        except ApiError:  # a taint of the other effect stands on the node for a moment, and keeps the pool's pods off
            return False
        given = orjson.loads(answer)["spec"]["tolerations"]
        return any((one.get("key"), one.get("effect")) == (taint["key"], taint["effect"]) for one in given)

    await in_a_row(gives, f"tolerations for {taint}")


async def kept_off(people: People) -> None:
    """Wait until the scheduler keeps a pod without cards off the node, from which it hears of a taint a moment late."""
    path = resources.POD.path(TEAM, "stranger")

    async def scheduled() -> str | None:
        try:
            status = orjson.loads(await people.client.request("GET", path))["status"]
        except NotFound:  # it was bound, and evicted
            return "True evicted"
        said = [one for one in status.get("conditions", ()) if one["type"] == "PodScheduled"]
        return f"{said[0]['status']} {said[0].get('message', '')}" if said else None

    async def is_kept_off() -> bool:
        await people.pod("stranger", TEAM, None, nodeSelector={names.LABEL_HOSTNAME: NODE})
        found = await until(scheduled, "the scheduler to look at pod stranger")
        with contextlib.suppress(NotFound):
            await people.remove(resources.POD, "stranger", TEAM)
        await people.view.until(
            lambda: "stranger" not in [pod.name for pod in people.pods(TEAM)], PATIENCE, lambda: str(people.pods(TEAM))
        )
        return bool(found.startswith("False") and "untolerated taint" in found)

    await until(is_kept_off, "a pod without cards to be kept off the node")


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
    await people.settled(OTHER, (3, 2, 0, 1))


@pytest.fixture
async def shared(people: People) -> Any:
    """Pool ONE with a card of the node, and OTHER with three, of which two serve a Deployment's pods."""
    cards = sorted(device.name for device in people.view.devices if device.status.node_name == NODE)
    await people.namespace(TEAM)
    await people.filled(ONE, cards[:1])
    await people.filled(OTHER, cards[1:4])
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
    stays, evicts = ({"key": "dedicated", "value": "one", "effect": effect} for effect in ("NoSchedule", "NoExecute"))
    warning = f"Warning: GPUPool {ONE} shares 1 node ({NODE}) with GPUPool {OTHER}: dedicated=one:NoSchedule"

    async def warns() -> bool:
        return warning in await wants(people, stays, "--dry-run=server")

    await in_a_row(warns, f"{warning!r}, which was {await wants(people, stays, '--dry-run=server')!r} at first")
    assert warning in await wants(people, stays)
    await there(people, "NoSchedule")
    await tolerated(people, stays)
    await restarted(people)

    # Those that run tolerate it: the taint waits for nobody, and evicts nobody.
    await wants(people, evicts)
    await tolerated(people, evicts)
    await restarted(people)
    before = {pod.metadata.uid for pod in people.pods(TEAM)}
    await there(people, "NoExecute")
    await people.settled(OTHER, (3, 2, 0, 1))
    assert {pod.metadata.uid for pod in people.pods(TEAM)} == before

    # Who has no cards there does not come.
    await kept_off(people)


@pytest.mark.usefixtures("shared")
async def test_what_a_nodes_own_taint_keeps_off_is_not_available(people: People) -> None:
    await kubectl(people, "-n", TEAM, "scale", "deployment/serve", "--replicas=1")
    await people.settled(OTHER, (3, 1, 0, 2))
    await taint(people, NODE, lambda found: [*found, SHUTDOWN])
    await people.settled(OTHER, (3, 1, 0, 0))
    assert "unavailable 2, free 0" in await people.refused("p", TEAM, OTHER)

    await taint(people, NODE, lambda found: [one for one in found if one["key"] != SHUTDOWN["key"]])
    await people.settled(OTHER, (3, 1, 0, 2))
