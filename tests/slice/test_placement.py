"""Pods go to the node of the cards that were chosen for them: the scheduler is the real one, with all its scores."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from controllers.api import names, resources
from controllers.domain.slots import named_nodes
from sim.workload import pod_spec
from tests.kit.waiting import PATIENCE
from tests.slice.machines import cards, joins
from tests.slice.people import People

pytestmark = pytest.mark.cluster
TEAM, OTHERS, POOL = "spread", "spread-others", "spread"
OURS, THEIRS = "spread-a-1", "spread-b-1"


def on(node: str, cpu: str = "0") -> dict[str, Any]:
    """What a pod says that is to be on this node."""
    spec = pod_spec(POOL, nodeSelector={names.LABEL_HOSTNAME: node})
    spec["containers"][0]["resources"]["requests"] = {"cpu": cpu}
    return spec


@pytest.fixture
async def two_nodes(people: People) -> AsyncIterator[People]:
    """A pool of two nodes with four cards each; three of the second one's are used by pods of another namespace."""
    for namespace in (TEAM, OTHERS):
        await people.namespace(namespace)
    for node in (OURS, THEIRS):
        await joins(people, node)
    devices = [name for node in (OURS, THEIRS) for name in cards(people, node)]
    await people.filled(POOL, devices, scheduling={"strategy": "Spread", "topologyKey": names.LABEL_HOSTNAME})
    for number in range(3):
        await people.pod(f"theirs-{number}", OTHERS, POOL, **on(THEIRS))
    await people.running(OTHERS, 3)
    yield people
    for pod in (*people.pods(TEAM), *people.pods(OTHERS)):
        await people.remove(resources.POD, pod.name, pod.metadata.namespace)
    await people.view.until(lambda: not people.pods(TEAM), PATIENCE, lambda: str(people.pods(TEAM)))
    await people.retire(POOL)
    for node in (OURS, THEIRS):
        await people.remove(resources.NODE, node)


async def test_a_pod_goes_to_the_node_that_is_emptiest_whoever_has_its_cards(two_nodes: People) -> None:
    """The scheduler counts pods of one namespace if it is to spread; by the first one's cpu no two nodes are equal."""
    people = two_nodes
    await people.pod("first", TEAM, POOL, **on(OURS, cpu="16"))
    await people.running(TEAM, 1)
    await people.pod("second", TEAM, POOL)
    await people.running(TEAM, 2)
    second = next(pod for pod in people.pods(TEAM) if pod.name == "second")
    assert (second.node, named_nodes(second)) == (OURS, {OURS})
