"""Pods go to the node of the cards that were chosen for them: the scheduler is the real one, with all its scores."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import pytest

from controllers.api import names, resources
from controllers.domain.named_devices import named_nodes
from sim.workload import gpu_pod, pod_spec
from tests.kit.waiting import PATIENCE
from tests.slice.machines import cards, joins
from tests.slice.people import People

pytestmark = pytest.mark.cluster
TEAM, OTHERS, POOL = "spread", "spread-others", "spread"
ZONE = "topology.kubernetes.io/zone"


def on(node: str, cpu: str = "0") -> dict[str, Any]:
    """What a pod says that is to be on this node."""
    spec = pod_spec(POOL, nodeSelector={names.LABEL_HOSTNAME: node})
    spec["containers"][0]["resources"]["requests"] = {"cpu": cpu}
    return spec


@dataclass(frozen=True)
class Nodes:
    """Two nodes of four cards each, and of one pool: a pod of ours is on the first, three of others on the second."""

    ours: str
    theirs: str


@pytest.fixture
async def nodes(people: People, request: pytest.FixtureRequest) -> AsyncIterator[Nodes]:
    """They are this test's alone, by their names, and gone after it."""
    made = Nodes(*(f"{request.node.name.replace('_', '-')[:30]}-{letter}-1" for letter in "ab"))
    for namespace in (TEAM, OTHERS):
        await people.namespace(namespace)
    for node in (made.ours, made.theirs):
        await joins(people, node)
    devices = [name for node in (made.ours, made.theirs) for name in cards(people, node)]
    await people.filled(POOL, devices, scheduling={"strategy": "Spread", "topologyKey": names.LABEL_HOSTNAME})
    for number in range(3):
        await people.pod(f"theirs-{number}", OTHERS, POOL, **on(made.theirs))
    await people.pod("first", TEAM, POOL, **on(made.ours, cpu="96"))  # no two nodes are equal
    await people.running(OTHERS, 3)
    await people.running(TEAM, 1)
    yield made
    for pod in (*people.pods(TEAM), *people.pods(OTHERS)):
        await people.remove(resources.POD, pod.name, pod.metadata.namespace)
    await people.view.until(lambda: not people.pods(TEAM), PATIENCE, lambda: str(people.pods(TEAM)))
    await people.retire(POOL)
    for node in (made.ours, made.theirs):
        await people.remove(resources.NODE, node)


def goes(people: People, name: str) -> tuple[str | None, set[str]]:
    """The node of a pod, and that of its cards."""
    pod = next(pod for pod in people.pods(TEAM) if pod.name == name)
    return pod.node, named_nodes(pod)


async def test_the_emptiest_node_whoever_has_its_cards(people: People, nodes: Nodes) -> None:
    """A constraint of ours would count the pods of one namespace."""
    await people.pod("second", TEAM, POOL)
    await people.running(TEAM, 2)
    assert goes(people, "second") == (nodes.ours, {nodes.ours})


async def test_although_pods_of_a_service_are_spread(people: People, nodes: Nodes) -> None:
    """By the scheduler's defaults; without zones those over hosts alone."""
    labels = {"app": "served"}
    for node in (nodes.ours, nodes.theirs):
        await people.client.merge(resources.NODE, node, {"metadata": {"labels": {ZONE: None}}}, manager="test")
    service = {"metadata": {"name": "served"}, "spec": {"selector": labels, "ports": [{"port": 80}]}}
    await people.client.request("POST", f"/api/v1/namespaces/{TEAM}/services", body=service)

    async def served(name: str, pool: str | None, **spec: Any) -> None:
        body = gpu_pod(name, pool, **spec)
        body["metadata"]["labels"] = labels
        await people.client.create(resources.POD, body, TEAM, manager="test")

    for number in range(28):
        await served(f"plain-{number}", None, nodeSelector={names.LABEL_HOSTNAME: nodes.ours})
    await people.running(TEAM, 29)
    await served("last", POOL)
    await people.running(TEAM, 30)
    assert goes(people, "last") == (nodes.ours, {nodes.ours})
