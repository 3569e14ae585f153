"""Another device plugin beside us, on a real control plane: its pods' cards are given to nobody, its nodes say so."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from controllers.api import resources
from controllers.api.conditions import CONFIGURED, MANAGED_ELSEWHERE, find
from tests.kit.waiting import PATIENCE
from tests.slice.test_bad_cards import address, befall, mended, on

if TYPE_CHECKING:
    from tests.slice.people import People

pytestmark = pytest.mark.cluster
NODE = "gpu-3"
__all__ = ["mended"]


@pytest.mark.usefixtures("mended")
async def test_a_card_that_others_have_is_given_to_nobody_and_comes_back(people: People) -> None:
    pool, team = "beside", "beside"
    await people.namespace(team)
    cards = on(people, NODE)[:2]
    await people.filled(pool, cards)
    await befall(people, NODE, f"held:{address(people, cards[0])}")
    await people.settled(pool, (2, 0, 0, 1))

    def said() -> str:
        found = people.view.devices.get(cards[0])
        told = find(found.status.conditions, CONFIGURED) if found is not None else None
        return f"{told.reason}: {found.status.foreign_allocations}" if found is not None and told is not None else ""

    await people.view.until(lambda: said().startswith("HeldElsewhere"), PATIENCE, said)
    assert "pod='holder'" in said()
    assert "unavailable 1, free 1" in await people.refused("two", team, pool, 2)

    await befall(people, NODE)
    await people.settled(pool, (2, 0, 0, 2))
    await people.retire(pool)


async def test_a_node_that_another_plugin_serves_says_so(people: People) -> None:
    async def offers(count: str | None) -> None:
        amounts = {"nvidia.com/gpu": count}
        body = {"status": {"capacity": amounts, "allocatable": amounts}}
        await people.client.merge(resources.NODE, NODE, body, manager="test", subresource="status")

    def said() -> str:
        found = people.view.inventories.get(NODE)
        told = find(found.status.conditions, MANAGED_ELSEWHERE) if found is not None else None
        return f"{told.reason}: {told.message}" if told is not None else ""

    await offers("8")
    await people.view.until(lambda: said().startswith("DevicePluginFound"), PATIENCE, said)
    assert "kubelet offers nvidia.com/gpu (8)" in said()
    await offers(None)
    await people.view.until(lambda: said().startswith("NothingFound"), PATIENCE, said)
    await people.ready_nodes()
