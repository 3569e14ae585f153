"""The module by Helm on the real node: installed from nothing, used, upgraded over what is stored, and taken away.

The four processes, and the Jobs of Helm's hooks, are pods of the real kubelet from the image that users get. There is
no earlier release yet: before the upgrade GPUPool's definition is put back to one that lacks a field, as an earlier
release would have left it, and the new version is the same image by another name.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from controllers.api import names, resources
from sim import controlplane
from sim.realnode import agents
from sim.realnode.cards import variable
from sim.view import View
from tests.e2e.admin import NAMESPACE, Admin
from tests.e2e.bed import NODE, ended
from tests.e2e.release import IMAGE, NEXT_IMAGE, PROCESSES, ReleaseBed
from tools.images import archive
from tools.programs import for_stream

pytestmark = pytest.mark.e2e
POOLS = "gpupools.gpu.deckhouse.io"
FIELD = ("access", "dexGroups")
"""Of a GPUPool's spec; what the definition lacks before the upgrade."""
USED, STORED = "used", "stored"
EVERY_NAMESPACE = (("ServiceAccount", "default"), ("ConfigMap", "kube-root-ca.crt"))
"""What Kubernetes makes in each; and ours is the people's who made it."""


@pytest.fixture
def bed(place: Path) -> Iterator[ReleaseBed]:
    if reason := archive.lacking("control-plane"):
        pytest.skip(reason)
    with ended(place):
        yield ReleaseBed(place, for_stream())


async def test_a_release_comes_serves_is_upgraded_and_goes_while_a_pod_works_on(
    bed: ReleaseBed, capsys: pytest.CaptureFixture[str]
):
    before = bed.everything()
    took = {"install": timed(bed.install)}
    deployed(bed, IMAGE)
    bed.prepared()
    bed.discover()
    async with people(bed) as admin:
        await serves(admin)
        works = await admin.container("works")
        await an_older_definition(bed, admin)
        stored = identities(bed)
        took["upgrade"] = await asyncio.to_thread(timed, bed.upgrade)
        deployed(bed, NEXT_IMAGE)
        assert identities(bed) == stored
        await knows_the_new_field(admin)
        await serves_again(admin)
        assert await admin.container("works") == works, "same container, no restart"
    took["uninstall"] = await uninstalled(bed)
    await nothing_is_left(bed, before)
    assert container(bed, "works") == works
    with capsys.disabled():
        print("\nhelm", ", ".join(f"{verb} {seconds:.0f} s" for verb, seconds in took.items()))  # noqa: T201


def timed(step: Any) -> float:
    began = time.monotonic()
    step()
    return time.monotonic() - began


def deployed(bed: ReleaseBed, image: str) -> None:
    """Each process is a pod of this node, from that image, which has never been started again."""
    pods = [pod for pod in bed.get("pods", f"--namespace={names.NAMESPACE}") if pod_of(pod) in PROCESSES]
    assert sorted(map(pod_of, pods)) == sorted(PROCESSES)
    for pod in pods:
        (status,) = pod["status"]["containerStatuses"]
        (container,) = pod["spec"]["containers"]
        assert (pod["spec"]["nodeName"], container["image"]) == (NODE, image)
        assert (status["ready"], status["restartCount"]) == (True, 0), (pod["metadata"]["name"], status)


def pod_of(pod: Any) -> str:
    """Which process of ours a pod is."""
    return str(pod["metadata"]["labels"].get(names.LABEL_APP, ""))


@asynccontextmanager
async def people(bed: ReleaseBed) -> AsyncIterator[Admin]:
    async with View(bed.plane.kubeconfig) as view:
        admin = Admin(bed, view)
        await admin.namespace(NAMESPACE)
        await admin.ready_nodes(1)
        yield admin


async def serves(admin: Admin) -> None:
    """The webhook judges, and a card reaches a container."""
    await admin.start(USED, 0)
    await admin.offers(USED, 1)
    pod = await admin.run("works", USED)
    assert pod.metadata.annotations[names.DEVICES] == admin.card(0).status.inventory_id
    assert await admin.shown("works") == ({variable(0): admin.uuid(0)}, ["nvidia0"])
    assert "InsufficientCapacity" in await admin.refusal("second", USED)


async def an_older_definition(bed: ReleaseBed, admin: Admin) -> None:
    """Take a field out of a definition; what is stored then has not got it."""
    (definition,) = bed.get("crd", POOLS)
    del fields(definition)[FIELD[1]]
    bed.tools.run("replace", "--filename=-", stdin=json.dumps(definition))
    bed.tools.run("wait", "--for=condition=Established", "crd", POOLS, "--timeout=30s")

    async def pruned() -> bytes:
        await admin.client.merge(resources.GPUPOOL, USED, {"spec": {FIELD[0]: {FIELD[1]: ["team"]}}}, manager="test")
        found: bytes = await admin.client.get(resources.GPUPOOL, USED)
        return found

    async with asyncio.timeout(30):
        while b'"team"' in await pruned():  # the API server takes a moment to serve by it
            await admin.client.merge(resources.GPUPOOL, USED, {"spec": {FIELD[0]: None}}, manager="test")
            await asyncio.sleep(0.2)
    await admin.pool(STORED)


def fields(definition: Any) -> Any:
    """The properties of that part of the spec in which the field is."""
    (version,) = definition["spec"]["versions"]
    schema = version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"][FIELD[0]]
    return schema["properties"]


def identities(bed: ReleaseBed) -> dict[str, str]:
    """The uids of our records."""
    kinds = f"gpudevices,gpunodeinventories,{POOLS},moduleconfigs"
    return {f"{obj['kind']}/{obj['metadata']['name']}": obj["metadata"]["uid"] for obj in bed.get(kinds)}


async def knows_the_new_field(admin: Admin) -> None:
    body = {"spec": {FIELD[0]: {FIELD[1]: ["team"], "namespaces": [NAMESPACE]}}}
    for pool in (USED, STORED):
        await admin.client.merge(resources.GPUPOOL, pool, body, manager="test")
        found = json.loads(await admin.client.get(resources.GPUPOOL, pool))
        assert found["spec"][FIELD[0]][FIELD[1]] == ["team"]


async def serves_again(admin: Admin) -> None:
    await admin.annotate(admin.card(1).name, USED)
    await admin.offers(USED, 2)
    await admin.run("newcomer", USED)
    assert await admin.shown("newcomer") == ({variable(1): admin.uuid(1)}, ["nvidia1"])
    await admin.gone("newcomer")


async def uninstalled(bed: ReleaseBed) -> float:
    """Uninstall; the agents beside their pods end with these, as they would inside them."""
    task = asyncio.create_task(asyncio.to_thread(timed, bed.uninstall))
    for app, process in (
        (names.plugin_object(USED), agents.plugin_name(USED)),
        (agents.DISCOVER, "nodeagent-discover"),
    ):
        while not task.done() and await asyncio.to_thread(runs, bed, app):
            await asyncio.wait([task], timeout=0.2)
        await asyncio.to_thread(controlplane.remove_process, bed.plane.dir, process)
    return await task


def container(bed: ReleaseBed, pod: str) -> tuple[str, int]:
    """A pod's container: its id and how often it was restarted; the pod must be ready."""
    (found,) = bed.get("pod", pod, f"--namespace={NAMESPACE}")
    (status,) = found["status"]["containerStatuses"]
    assert status["ready"]
    return status["containerID"], status["restartCount"]


def runs(bed: ReleaseBed, app: str) -> bool:
    return any(pod_of(pod) == app for pod in bed.get("pods", f"--namespace={names.NAMESPACE}"))


async def nothing_is_left(bed: ReleaseBed, before: dict[str, Any]) -> None:
    """The garbage collector may still be at work; each look takes a second, so none is waited between two."""
    deadline = time.monotonic() + 60
    while found := await asyncio.to_thread(left, bed, before):
        assert time.monotonic() < deadline, found


def left(bed: ReleaseBed, before: dict[str, Any]) -> list[str]:
    """What there is now and was not before, or is another on the node; but for the people's own and the namespace."""
    now = bed.everything()
    own = {f"Namespace//{NAMESPACE}", f"Namespace//{names.NAMESPACE}"}
    own |= {f"Lease/kube-node-lease/{NODE}", f"CSINode//{NODE}"}  # kubelet's, which may come after the first look
    own |= {f"{kind}/{names.NAMESPACE}/{name}" for kind, name in EVERY_NAMESPACE}
    found = [key for key in now.keys() - before.keys() - own if key.split("/")[1] != NAMESPACE]
    node = f"Node//{NODE}"
    marks = ({key: obj[node]["metadata"].get(key) for key in ("labels", "finalizers")} for obj in (before, now))
    return [*sorted(found), *([node] if len({json.dumps(each, sort_keys=True) for each in marks}) > 1 else [])]
