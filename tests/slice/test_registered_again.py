"""A Node that is deleted and registered again while a pod runs: its cards are where a person put them."""

from __future__ import annotations

import time

import pytest

from controllers.api import names, resources
from controllers.api.conditions import INVENTORY_INCOMPLETE, find
from sim.nodes.leaving import remove_node
from tests.kit.waiting import PATIENCE
from tests.slice.machines import cards, joins
from tests.slice.people import People

pytestmark = pytest.mark.cluster
NODE = "again-1"
COLLECTED = 38.0
"""Seconds without a Node, after which Kubernetes' collector of pods ends those that were there (40)."""


async def test_cards_of_a_node_that_is_registered_again_stay_in_their_pool_with_their_pod(people: People) -> None:
    pool, team = "again", "again"
    await people.namespace(team)
    await joins(people, NODE)
    free, used = cards(people, NODE)[:2]
    await people.filled(pool, [free, used])
    await people.pod("p", team, pool)
    await people.running(team, 1)
    await people.settled(pool, (2, 1, 0, 1))
    uids = {card: people.view.devices.get(card).metadata.uid for card in (free, used)}  # type: ignore[union-attr]

    went = time.monotonic()
    await people.remove(resources.NODE, NODE)
    await people.view.until(
        lambda: (
            cards(people, NODE) == [free, used] and all(reason(people, card) == names.REASON_NODE_GONE for card in uids)
        ),
        PATIENCE,
        lambda: str({card: reason(people, card) for card in cards(people, NODE)}),
    )
    await people.settled(pool, (0, 0, 0, 0))

    await joins(people, NODE)
    if (away := time.monotonic() - went) >= COLLECTED:
        pytest.skip(f"not judged: the machine is busy: the node was away for {away:.0f} s, and its pod is collected")
    await people.offered(pool, 2)
    await people.settled(pool, (2, 1, 0, 1))
    assert {card: people.view.devices.get(card).metadata.uid for card in uids} == uids  # type: ignore[union-attr]
    assert [pod.status.phase for pod in people.pods(team)] == ["Running"]

    await remove_node(people.client, NODE)  # with its pod; what is remembered goes with a person's word
    for card in uids:
        await people.annotate(card, None)
    await people.view.until(lambda: not cards(people, NODE), PATIENCE, lambda: f"{cards(people, NODE)} stay")
    await people.retire(pool)


async def test_a_pool_that_is_made_anew_while_the_node_is_away_does_not_get_its_cards(people: People) -> None:
    """They were confirmed for another pool, which only had the same name."""
    pool, node = "renewed", "renewed-1"
    await joins(people, node)
    card = cards(people, node)[0]
    await people.filled(pool, [card])
    await people.remove(resources.NODE, node)
    await people.view.until(
        lambda: reason(people, card) == names.REASON_NODE_GONE, PATIENCE, lambda: f"{card}: {reason(people, card)}"
    )

    await people.remove(resources.GPUPOOL, pool)
    await people.view.until(lambda: people.view.pools.get(pool) is None, PATIENCE, lambda: "the pool does not go")
    await people.pool(pool)
    await people.told(names.EVENT_ANNOTATION_REMOVED, f"GPUPool {pool}", about=card)
    await joins(people, node)
    await people.view.until(lambda: is_new(people, card), PATIENCE, lambda: str(people.view.devices.get(card)))
    await people.settled(pool, (0, 0, 0, 0))

    await people.retire(pool)
    await remove_node(people.client, node)
    await people.view.until(lambda: not cards(people, node), PATIENCE, lambda: f"{cards(people, node)} stay")


def is_new(people: People, card: str) -> bool:
    """Whether a card of a node that is there is in no pool, and is to come into none."""
    found = people.view.devices.get(card)
    if found is None or found.is_remembered:
        return False
    return found.status.pool_ref is None and names.ASSIGNMENT not in found.metadata.annotations


def reason(people: People, card: str) -> str:
    """What a card's InventoryIncomplete says."""
    device = people.view.devices.get(card)
    found = find(device.status.conditions, INVENTORY_INCOMPLETE) if device is not None else None
    return found.reason if found is not None else ""
