"""Cards that are known to be bad are given to no new pod, however many they are, on a real control plane."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from controllers.api import names, resources
from sim.nodes import names as sim_names
from tests.kit.waiting import PATIENCE

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.slice.people import People

pytestmark = pytest.mark.cluster
NODES = ("gpu-3", "gpu-4")


async def befall(people: People, node: str, *words: str) -> None:
    """Let these faults, and no others, befall a node."""
    body = {"metadata": {"annotations": {sim_names.FAULT: ",".join(words) or None}}}
    await people.client.merge(resources.NODE, node, body, manager="test")


@pytest.fixture
async def mended(people: People) -> AsyncIterator[None]:
    """Nodes and cards are well again afterwards."""
    yield
    for node in NODES:
        await befall(people, node)
    await people.ready_nodes()
    body = {"metadata": {"annotations": {names.RETURN: "true"}}}

    def bad() -> list[str]:
        return [
            d.name
            for d in people.view.devices
            for c in d.status.conditions
            if c.type == "Faulted" and c.status == "True"
        ]

    for card in bad():
        await people.client.merge(resources.GPUDEVICE, card, body, manager="test")
    await people.view.until(lambda: not bad(), PATIENCE, lambda: str(bad()))


def on(people: People, node: str) -> list[str]:
    return sorted(device.name for device in people.view.devices if device.status.node_name == node)


def address(people: People, card: str) -> str:
    found = people.view.devices.get(card)
    assert found is not None
    assert found.status.hardware is not None
    return found.status.hardware.pci.address


@pytest.mark.usefixtures("mended")
async def test_no_card_with_a_critical_error_is_given_out(people: People) -> None:
    pool, team, node = "bad-cards", "bad-cards", NODES[0]
    await people.namespace(team)
    cards = on(people, node)[:4]
    await people.filled(pool, cards)
    await people.settled(pool, (4, 0, 0, 4))  # cards come one by one: fewer are available for a moment anyway
    await befall(people, node, *(f"xid:{address(people, card)}=79" for card in cards[:3]))
    await people.settled(pool, (4, 0, 0, 1))
    assert "unavailable 3, free 1" in await people.refused("p", team, pool, 2)

    await people.pod("p", team, pool)
    await people.running(team, 1)
    last = people.view.devices.get(cards[3])
    assert last is not None
    assert people.pods(team)[0].metadata.annotations[names.DEVICES] == last.status.inventory_id
    await people.remove(resources.POD, "p", team)
    await people.retire(pool)


@pytest.mark.usefixtures("mended")
async def test_no_card_of_a_node_without_a_driver_is_given_out(people: People) -> None:
    pool, team = "bad-nodes", "bad-nodes"
    await people.namespace(team)
    await people.filled(pool, [on(people, node)[0] for node in NODES])
    await people.settled(pool, (2, 0, 0, 2))
    for node in NODES:
        await befall(people, node, "no-driver")
    await people.settled(pool, (2, 0, 0, 0))
    assert "unavailable 2, free 0" in await people.refused("p", team, pool)

    for node in NODES:
        await befall(people, node)
    await people.settled(pool, (2, 0, 0, 2))
    await people.retire(pool)
