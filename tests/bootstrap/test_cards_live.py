"""What goes wrong with cards, and what the fuse holds, on a real control plane with DCGM's text over HTTP."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from controllers.api import names, resources

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.bootstrap.fleet import Fleet

pytestmark = pytest.mark.cluster


@pytest.fixture
async def cards(fleet: Fleet) -> AsyncIterator[list[str]]:
    """The four cards of a node that is ready."""
    if await fleet.plane.get(resources.NODE, "ward") is None:
        await fleet.nodes("ward")
    yield await fleet.cards("ward")
    await fleet.fault("ward")
    for card in await fleet.cards("ward"):
        await fleet.pool(card, None)
        body = {"metadata": {"annotations": {names.RETURN: "true"}}}
        await fleet.plane.client.merge(resources.GPUDEVICE, card, body, manager="test")
    for card in await fleet.cards("ward"):
        await fleet.until(lambda card=card: obeyed(fleet, card), "the card to be returned")


async def obeyed(fleet: Fleet, card: str) -> bool:
    found = await fleet.plane.get(resources.GPUDEVICE, card)
    return names.RETURN not in (found or {})["metadata"].get("annotations", {})


async def ask_back(fleet: Fleet, card: str) -> None:
    body = {"metadata": {"annotations": {names.RETURN: "true"}}}
    await fleet.plane.client.merge(resources.GPUDEVICE, card, body, manager="test")
    await fleet.until(lambda: obeyed(fleet, card), "the annotation to go")


@pytest.mark.parametrize(
    ("fault", "reason", "said"),
    [
        ("xid:{}=79", "CriticalXid", "XID 79"),
        ("hot:{}=97", "Overheated", "97 °C"),
        ("ecc:{}=2", "DoubleBitEcc", "rose to 2"),
        ("remap:{}", "RowRemapFailure", "emapping"),
        ("card-check-failed:{}", "ValidationFailed", "check"),
    ],
)
async def test_one_card_is_faulted_and_returns(
    fleet: Fleet, cards: list[str], fault: str, reason: str, said: str
) -> None:
    ill, *well = cards
    await fleet.fault("ward", fault.format(await fleet.address(ill)))
    found = await fleet.faulted(ill, "True", reason)
    assert said in found["message"]
    await fleet.event(ill, names.EVENT_DEVICE_FAULTED, reason)
    assert {(await fleet.state(card))[0] for card in well} <= {"False", ""}
    await fleet.pooling("ward", "True", "Ready")
    await fleet.fault("ward")

    async def returned() -> bool:
        return (await fleet.state(ill))[0] == "False"

    await fleet.until(returned, "the card to return")


async def test_a_person_takes_a_card_back(fleet: Fleet, cards: list[str]) -> None:
    card = cards[1]
    await fleet.fault("ward", f"xid:{await fleet.address(card)}=48")
    await fleet.faulted(card, "True", "CriticalXid")
    await ask_back(fleet, card)
    await fleet.faulted(card, "False", "ReturnedByHand")
    found: Any = await fleet.plane.get(resources.GPUDEVICE, card)
    assert found["status"]["health"]["lastXid"] == 48


async def test_a_command_that_changes_nothing_is_told(fleet: Fleet, cards: list[str]) -> None:
    await ask_back(fleet, cards[2])
    await fleet.event(cards[2], names.EVENT_RETURN_IGNORED, "not faulted")


async def test_telemetry_is_recorded_with_the_condition(fleet: Fleet, cards: list[str]) -> None:
    card = cards[3]
    await fleet.fault("ward", f"slow:{await fleet.address(card)}")

    async def slowed() -> bool:
        found: Any = await fleet.plane.get(resources.GPUDEVICE, card)
        return bool(found["status"].get("health", {}).get("throttled"))

    await fleet.until(slowed, "the card to be called slow")
    assert (await fleet.state(card))[0] == "False"
    key = f'gpu_device_health_throttled{{device="{card}",node="ward"}}'
    assert (await fleet.metrics())[key] == 1


async def test_all_cards_of_a_pool_that_have_a_fault_go(fleet: Fleet, cards: list[str]) -> None:
    for card in cards:
        await fleet.pool(card, "research")
    await fleet.fault("ward", *[f"xid:{await fleet.address(card)}=79" for card in cards])
    for card in cards:
        await fleet.faulted(card, "True", "CriticalXid")
        await fleet.event(card, names.EVENT_DEVICE_FAULTED, "XID 79")


@pytest.fixture
async def three(fleet: Fleet) -> AsyncIterator[list[str]]:
    """Nodes that are ready, and go whatever becomes of the test: others would be held for them."""
    nodes = ["fleet-1", "fleet-2", "fleet-3"]
    await fleet.nodes(*nodes)
    yield nodes
    await fleet.gone(*nodes)


async def test_all_nodes_without_a_driver_go(fleet: Fleet, three: list[str]) -> None:
    for node in three:
        await fleet.pool((await fleet.cards(node))[0], "fleet")
        await fleet.fault(node, "no-driver")
    for node in three:
        await fleet.pooling(node, "False", "DriverNotFound")
        await fleet.condition(node, "DriverMissing", "True", "DriverNotFound")
    for node in three:
        await fleet.fault(node)
        await fleet.pooling(node, "True", "Ready")


async def test_the_fuse_holds_a_silent_node_while_another_is_out(fleet: Fleet, three: list[str]) -> None:
    one, other, _ = three
    for node in three:
        await fleet.pool((await fleet.cards(node))[0], "fleet")
    await fleet.fault(one, "no-driver")
    await fleet.pooling(one, "False", "DriverNotFound")
    await fleet.fault(other, "not-ready:toolkit")
    found = await fleet.pooling(other, "True", "Held")
    assert f"node {other} is kept in service" in found["message"]
    await fleet.condition(other, "ToolkitMissing", "True", "ToolkitOverdue")
    assert (await fleet.metrics())['gpu_fuse_held{group="nodes",kind="node"}'] == 1
    await fleet.fault(one)
    await fleet.pooling(one, "True", "Ready")
    # It asks again and again: there is room now.
    await fleet.pooling(other, "False", "ToolkitOverdue")
    assert (await fleet.metrics())['gpu_fuse_held{group="nodes",kind="node"}'] == 0
    await fleet.fault(other)
    await fleet.pooling(other, "True", "Ready")


async def test_our_own_blindness_takes_nobody_out(fleet: Fleet, three: list[str]) -> None:
    nodes = three
    for node in nodes:
        await fleet.fault(node, "exporter-down")
    for node in nodes:
        await fleet.condition(node, "MonitoringMissing", "Unknown", "Blind")
    await fleet.event(names.NAMESPACE, names.EVENT_FUSE_HELD, "taken to be blind")
    for node in nodes:
        await fleet.pooling(node, "True", "Ready")
        await fleet.fault(node)
    for node in nodes:
        await fleet.condition(node, "MonitoringMissing", "False", "MonitoringReady")
