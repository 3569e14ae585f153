"""A machine that died: its cards stay in their pool as long as pods may run there, and go with the node."""

from __future__ import annotations

import time
from typing import Any

import orjson
import pytest

from controllers.api import names, resources
from controllers.api.conditions import CONFIGURED, READY_FOR_POOLING, find, is_true
from controllers.domain.clock import stamp
from sim.nodes import names as sim_names
from sim.nodes.leaving import bury
from sim.nodes.manifests import create_nodes, node_manifests
from tests.slice.people import People

pytestmark = pytest.mark.cluster
NODE = "away-1"


def cards(people: People) -> list[str]:
    return sorted(device.name for device in people.view.devices if device.status.node_name == NODE)


def configured(people: People, card: str) -> str:
    device = people.view.devices.get(card)
    found = find(device.status.conditions, CONFIGURED) if device is not None else None
    return f"{found.reason}: {found.message}" if found is not None else ""


async def joins(people: People) -> None:
    await create_nodes(people.client, node_manifests(["l40s-4"], prefix=NODE.removesuffix("-1")))

    def ready() -> bool:
        inventory = people.view.inventories.get(NODE)
        return inventory is not None and is_true(inventory.status.conditions, READY_FOR_POOLING)

    await people.view.until(lambda: ready() and bool(cards(people)), 120, lambda: f"{NODE} is not ready")


async def dies(people: People) -> None:
    """Nobody plays its kubelet, nor any program there, any more."""
    marks = {"metadata": {"annotations": {sim_names.FAKE: None}}}
    await people.client.merge(resources.NODE, NODE, marks, manager="test")
    now = stamp(time.time())
    unknown = {"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown", "lastTransitionTime": now}
    body = {"status": {"conditions": [unknown | {"message": "Kubelet stopped posting node status."}]}}
    await people.client.merge(resources.NODE, NODE, body, manager="test", subresource="status")


async def test_a_card_of_a_dead_node_stays_says_why_and_goes_with_the_node(people: People) -> None:
    pool, team = "stranded", "stranded"
    await people.namespace(team)
    await joins(people)
    free, used = cards(people)[:2]
    await people.filled(pool, [free, used])
    await people.pod("p", team, pool)
    await people.running(team, 1)
    await dies(people)
    await people.settled(pool, (2, 1, 0, 0))  # one is used, and the other cannot be given to anybody
    for card in (free, used):
        await people.annotate(card, None)

    for card in (free, used):
        await people.view.until(
            lambda card=card: configured(people, card).startswith("AwaitingWithdrawal: "),  # type: ignore[misc]
            10,
            lambda card=card: configured(people, card),  # type: ignore[misc]
        )
        assert f"Node {NODE} is not Ready since " in configured(people, card)
        assert f"kubectl delete node {NODE}" in configured(people, card)
    assert [card.name for card in people.cards(pool)] == [free, used]
    assert people.pods(team)[0].status.phase == "Running"

    await people.remove(resources.NODE, NODE)
    await people.view.until(lambda: not cards(people), 20, lambda: f"{cards(people)} stay")
    await bury(people.client, NODE)
    await people.settled(pool, (0, 0, 0, 0))
    await people.retire(pool)
    assert await left(people, pool) == []


async def left(people: People, pool: str) -> list[Any]:
    """DaemonSets and ConfigMaps of the pool that nobody deletes."""
    found = []
    for resource in (resources.DAEMONSET, resources.CONFIGMAP):
        query = {"labelSelector": f"{names.LABEL_POOL}={pool}"}
        items = orjson.loads(await people.client.request("GET", resource.path(names.NAMESPACE), query=query))["items"]
        found += [item["metadata"]["name"] for item in items if "deletionTimestamp" not in item["metadata"]]
    return found
