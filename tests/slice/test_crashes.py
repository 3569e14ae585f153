"""Processes are killed at bad moments: the story still comes to its end, and others never notice."""

from __future__ import annotations

import asyncio

import pytest

from controllers.api import names, resources
from controllers.runtime.errors import RuntimeFault
from sim.workload import gpu_pod
from tests.kit.pace import Stretch
from tests.kit.waiting import PATIENCE, at_rest
from tests.slice.people import People

pytestmark = pytest.mark.cluster
TEAM = "crash"
HELD_UP = 2.0
"""Seconds: a pod that waits for a webhook which does not answer waits for five."""
WEBHOOKS = (names.WEBHOOK, f"{names.WEBHOOK}-2")


def cards_of(people: People, node: str) -> list[str]:
    return sorted(device.name for device in people.view.devices if device.status.node_name == node)


@pytest.mark.parametrize("process", [names.POOL_CONTROLLER, names.BOOTSTRAP, names.INVENTORY, "simulated-agent"])
async def test_a_killed_process_goes_on_where_it_was(people: People, process: str) -> None:
    await people.namespace(TEAM)
    card = cards_of(people, "gpu-4")[0]
    await people.pool("crash")
    await people.annotate(card, "crash")
    restarts = people.kill(process)

    await people.back(process, restarts)
    await people.offered("crash", 1)
    await people.pod("p", TEAM, "crash")
    await people.running(TEAM, 1)
    await people.settled("crash", (1, 1, 0, 0))

    await people.remove(resources.POD, "p", TEAM)
    await people.settled("crash", (1, 0, 0, 1))
    await people.retire("crash")


async def test_with_the_webhook_dead_other_pods_are_created_and_gpu_pods_are_not(people: People) -> None:
    await people.namespace(TEAM)
    await people.filled("dead", cards_of(people, "gpu-3")[:1])
    restarts = {replica: people.kill(replica) for replica in WEBHOOKS}

    with Stretch() as machine:
        await people.pod("plain", TEAM, None)
    refusals = []
    try:
        await people.pod("early", TEAM, "dead")
        await people.remove(resources.POD, "early", TEAM)
    except RuntimeFault as error:
        refusals.append(str(error))
    for replica, before in restarts.items():
        await people.back(replica, before)

    async def create() -> bytes:
        return await people.client.create(resources.POD, gpu_pod("late", "dead"), TEAM, manager="test")

    await people.eventually(create)
    await people.view.until(
        lambda: any(p.name == "late" and p.ready for p in people.pods(TEAM)), PATIENCE, lambda: str(people.pods(TEAM))
    )
    assert all("webhook" in refusal or "InsufficientCapacity" in refusal for refusal in refusals)
    for pod in ("plain", "late"):
        await people.remove(resources.POD, pod, TEAM)
    await people.settled("dead", (1, 0, 0, 1))
    await people.retire("dead")
    machine.judge("a plain pod", machine.seconds, HELD_UP)


async def test_an_api_server_that_goes_away_and_comes_back_costs_nothing_but_time(people: People) -> None:
    await people.namespace(TEAM)
    restarts = people.restarts()
    people.kill("kube-apiserver")
    await people.back("kube-apiserver", restarts["kube-apiserver"])

    async def pool() -> bytes:
        await people.pool("again")
        return b""

    await people.eventually(pool)
    await people.annotate(cards_of(people, "gpu-3")[0], "again")
    # Whoever was refused while it was away asks again after up to ten seconds, one after another.
    await people.offered("again", 1)

    async def create() -> bytes:
        return await people.client.create(resources.POD, gpu_pod("p", "again"), TEAM, manager="test")

    await people.eventually(create)
    await people.running(TEAM, 1)
    await people.remove(resources.POD, "p", TEAM)
    await people.settled("again", (1, 0, 0, 1))
    await people.retire("again")
    # A leader that could not renew its lease ends on purpose; nobody else does.
    after = people.restarts()
    assert after["simulated-agent"] == restarts["simulated-agent"]
    assert all(after[replica] == restarts[replica] for replica in WEBHOOKS)


async def test_a_quiet_cluster_writes_nothing(people: People) -> None:
    """Leases are renewed and nodes send heartbeats; nothing of ours changes."""
    ours = (
        resources.GPUDEVICE,
        resources.GPUNODEINVENTORY,
        resources.GPUPOOL,
        resources.DAEMONSET,
        resources.CONFIGMAP,
    )

    async def versions() -> dict[str, str]:
        import orjson

        found = {}
        for resource in (*ours, resources.NODEFEATURE):
            for item in orjson.loads(await people.client.request("GET", resource.path()))["items"]:
                meta = item["metadata"]
                found[f"{resource.kind} {meta['name']} ({meta['uid']})"] = meta["resourceVersion"]
        return found

    await at_rest(versions, "the cluster", 10)
    rests = await versions()
    await asyncio.sleep(10)
    assert await versions() == rests, "it goes on now and then"
