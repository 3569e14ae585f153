"""A machine that died: its cards stay in their pool as long as pods may run there, and go with the node."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from controllers.api import names, resources
from controllers.api.conditions import CONFIGURED, find
from sim.nodes.leaving import bury
from tests.kit.waiting import PATIENCE
from tests.slice.machines import cards, dies, joins
from tests.slice.people import People

pytestmark = pytest.mark.cluster
NODE = "away-1"


def configured(people: People, card: str) -> str:
    device = people.view.devices.get(card)
    found = find(device.status.conditions, CONFIGURED) if device is not None else None
    return f"{found.reason}: {found.message}" if found is not None else ""


async def test_a_card_of_a_dead_node_stays_says_why_and_goes_with_the_node(people: People) -> None:
    pool, team = "stranded", "stranded"
    await people.namespace(team)
    await joins(people, NODE)
    free, used = cards(people, NODE)[:2]
    await people.filled(pool, [free, used])
    await people.pod("p", team, pool)
    await people.running(team, 1)
    await dies(people, NODE)
    await people.settled(pool, (2, 1, 0, 0))  # one is used, and the other cannot be given to anybody
    for card in (free, used):
        await people.annotate(card, None)

    for card in (free, used):
        await people.view.until(
            lambda card=card: configured(people, card).startswith("AwaitingWithdrawal: "),  # type: ignore[misc]
            PATIENCE,
            lambda card=card: configured(people, card),  # type: ignore[misc]
        )
        assert f"Node {NODE} is not Ready since " in configured(people, card)
        assert f"kubectl delete node {NODE}" in configured(people, card)
    assert [card.name for card in people.cards(pool)] == [free, used]
    assert people.pods(team)[0].status.phase == "Running"

    await people.remove(resources.NODE, NODE)
    await people.view.until(lambda: not cards(people, NODE), PATIENCE, lambda: f"{cards(people, NODE)} stay")
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
