"""Cards by a resize are refused; who came to one so before that was refused is counted and waited for."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import orjson
import pytest

from controllers.api import names, resources
from controllers.api.conditions import MAINTENANCE, find
from sim.nodes.leaving import bury
from sim.workload import gpu_pod
from tests.kit.versions import resizes
from tests.kit.waiting import PATIENCE
from tests.slice.machines import cards, dies, joins
from tests.slice.people import People

pytestmark = [pytest.mark.cluster, resizes]
BINDINGS = resources.Resource(
    "admissionregistration.k8s.io",
    "v1",
    "validatingadmissionpolicybindings",
    "ValidatingAdmissionPolicyBinding",
    namespaced=False,
)
POLICY = "gpu-control-plane-pod-resize"
NODE = "resized-1"
GATES = [{"name": "example.com/wait"}]


@asynccontextmanager
async def before_the_policy(people: People) -> AsyncIterator[None]:
    """As if an older version of the module were installed; the policy is there again afterwards."""
    found = orjson.loads(await people.client.get(BINDINGS, POLICY))
    await people.client.request("DELETE", BINDINGS.path(name=POLICY))
    try:
        yield
    finally:
        again = {"metadata": {key: found["metadata"][key] for key in ("name", "labels")}, "spec": found["spec"]}
        await people.client.create(BINDINGS, again, manager="test")


def maintenance(people: People, pool: str) -> str:
    found = people.view.pools.get(pool)
    told = find(found.status.conditions, MAINTENANCE) if found is not None else None
    return f"{told.reason}: {told.message}" if told is not None and told.status == "True" else ""


async def test_who_is_refused_a_pool_gets_no_card_of_it_by_a_resize(people: People) -> None:
    pool, team = "resized-secret", "resized-stranger"
    await people.namespace(team)
    card = min(device.name for device in people.view.devices if device.status.pool_ref is None)
    await people.pool(pool, access={"namespaces": ["somebody-else"]})
    await people.annotate(card, pool)
    await people.offered(pool, 1)
    async with people.tenant(team) as tenant:
        assert "AccessDenied" in await tenant.refused("direct", team, pool)
        await tenant.pod("sneak", team, None, schedulingGates=GATES)

        refusal = await tenant.resize("sneak", team, {names.resource_name(pool): "1"})
        assert (
            f"container main limits {names.resource_name(pool)}=1 was not requested when the pod was created" in refusal
        )
        assert "create another pod that asks for what is needed" in refusal
    await people.remove(resources.POD, "sneak", team)
    await people.retire(pool)


async def test_cpu_of_a_pod_with_a_card_is_resized_and_its_card_is_not_exchanged(people: People) -> None:
    """While it waits: of what runs on simulated nodes nobody tells what it has, and it cannot be resized."""
    pool, other, team = "resized-own", "resized-other", "resized-team"
    await people.namespace(team)
    card = min(device.name for device in people.view.devices if device.status.pool_ref is None)
    await people.pool(other)
    await people.filled(pool, [card])
    body = gpu_pod("p", pool, schedulingGates=GATES)
    body["spec"]["containers"][0]["resources"]["limits"]["cpu"] = "1"
    await people.client.create(resources.POD, body, team, manager="test")

    assert await people.resize("p", team, {"cpu": "2"}) == ""
    for wanted in (
        {names.resource_name(other): "1"},
        {names.resource_name(pool): "2"},
    ):  # Kubernetes itself knows these
        assert "only cpu and memory resources are mutable" in await people.resize("p", team, wanted)
    container = orjson.loads(await people.client.get(resources.POD, "p", team))["spec"]["containers"][0]
    assert container["resources"]["limits"] == {"cpu": "2", names.resource_name(pool): "1"}
    await people.remove(resources.POD, "p", team)
    await people.retire(pool)
    await people.retire(other)


async def test_a_pod_that_was_resized_before_the_policy_is_counted_and_waited_for(people: People) -> None:
    """On a node whose kubelet tells nothing: all that is known of its card is what it asks for."""
    pool, team = "resized-before", "resized-before"
    await people.namespace(team)
    await joins(people, NODE)
    await people.filled(pool, cards(people, NODE)[:2])
    await people.pod("old", team, None, schedulerName="nobody")
    async with before_the_policy(people):
        deadline = time.monotonic() + PATIENCE
        while refusal := await people.resize("old", team, {names.resource_name(pool): "1"}):
            assert time.monotonic() < deadline, refusal
            await asyncio.sleep(0.1)
    await dies(people, NODE)
    await people.settled(pool, (2, 0, 0, 0))

    bind = {"metadata": {"name": "old"}, "target": {"kind": "Node", "name": NODE}}
    await people.client.request("POST", resources.POD.path(team, "old", "binding"), body=bind)
    await people.settled(pool, (2, 1, 0, 0))
    assert all(not card.status.allocations for card in people.cards(pool))

    await people.client.merge(resources.GPUPOOL, pool, {"spec": {"allocation": {"mode": "TimeSlice"}}}, manager="test")
    await people.view.until(
        lambda: "are promised some (1)." in maintenance(people, pool),
        PATIENCE,
        lambda: f"Maintenance: {maintenance(people, pool)}",
    )
    await people.remove(resources.POD, "old", team)
    await people.view.until(lambda: not maintenance(people, pool), PATIENCE, lambda: maintenance(people, pool))

    for card in cards(people, NODE):
        await people.annotate(card, None)
    await people.remove(resources.NODE, NODE)
    await people.view.until(lambda: not cards(people, NODE), PATIENCE, lambda: f"{cards(people, NODE)} stay")
    await bury(people.client, NODE)
    await people.retire(pool)
