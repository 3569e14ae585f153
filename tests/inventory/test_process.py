"""gpu-inventory-controller as a process of its own, against a real API server."""

from __future__ import annotations

import signal
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest

from controllers.api import names, resources
from controllers.runtime.errors import NotFound
from tests.inventory.plane import CRD, Plane
from tests.kit.reports import reported

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.cluster
MODULE = "controllers.inventory"
INCOMPLETE = "InventoryIncomplete"


async def devices(plane: Plane, node: str) -> dict[str, Any]:
    return {d["metadata"]["name"]: d for d in await plane.list(resources.GPUDEVICE, prefix=f"{node}-")}


async def settle(plane: Plane, node: str, cards: int) -> dict[str, Any]:
    """Wait until a node's inventory names so many cards; returns the cards."""

    async def told() -> bool:
        found = await plane.get(resources.GPUNODEINVENTORY, node)
        hw = ((found or {}).get("status") or {}).get("hw")
        return hw is not None and len(hw["devices"]) == cards == len(await devices(plane, node))

    await plane.until(told, f"{cards} cards of {node}")
    return await devices(plane, node)


async def reason(plane: Plane, node: str, wanted: str) -> str:
    """Wait until the node's InventoryIncomplete has a reason; returns its message."""

    async def has() -> dict[str, Any] | None:
        found = await plane.condition(resources.GPUNODEINVENTORY, node, INCOMPLETE)
        return found if found and found["reason"] == wanted else None

    return str((await plane.until(has, wanted))["message"])


async def configure(plane: Plane, **settings: Any) -> None:
    spec = {"enabled": True, "version": 1, "settings": settings}
    await plane.put(resources.MODULECONFIG, {"metadata": {"name": names.MODULE}, "spec": spec})


async def test_cold_start_costs_two_writes_an_object_and_rest_costs_none(plane: Plane, tmp_path: Path) -> None:
    await configure(plane, inventory={"resyncPeriod": "100ms"})
    for number in range(4):
        await plane.node(f"cold-{number}")
        await plane.report(f"cold-{number}", [reported(c) for c in range(8)])
    with suppress(NotFound):
        await plane.delete(resources.NODEFEATURERULE, names.NODE_FEATURE_RULE)
    async with plane.run(MODULE, tmp_path) as process:
        for number in range(4):
            await settle(plane, f"cold-{number}", 8)
        await plane.until(lambda: plane.get(resources.NODEFEATURERULE, names.NODE_FEATURE_RULE), "the rule for NFD")
        assert await process.writes() == 4 * (8 + 1) * 2 + 1
        reconciles = (await process.metrics())['gpu_reconciles_total{controller="inventory",result="ok"}']
        looked = 'gpu_reconciles_total{controller="inventory",result="ok"}'

        async def rested() -> bool:
            return (await process.metrics())[looked] > reconciles + 10

        await plane.until(rested, "ten more looks at nodes")
        metrics = await process.metrics()

        assert await process.writes() == 4 * (8 + 1) * 2 + 1
        assert metrics['gpu_inventory_devices_total{node="cold-1"}'] == 8
        assert metrics['gpu_device_unassigned_total{node="cold-1"}'] == 8
        assert metrics['gpu_node_inventory_condition{condition="InventoryIncomplete",node="cold-1"}'] == 0
        assert process.end() == 0
    await plane.delete(resources.MODULECONFIG, names.MODULE)


async def test_cards_follow_the_report(plane: Plane, tmp_path: Path) -> None:
    await plane.node("follow")
    await plane.report("follow", [reported(0), reported(1)])
    async with plane.run(MODULE, tmp_path):
        first = await settle(plane, "follow", 2)

        await plane.report("follow", [reported(0, memory_mib="x"), reported(1), reported(2), reported(3, address="")])
        told = await reason(plane, "follow", "CardsIncomplete")
        assert "0000:17:00.0 has memory_mib='x'" in told
        assert "1 reported card has no address" in told
        await settle(plane, "follow", 3)

        other = "GPU-99999999-0000-0000-0000-000000000000"
        await plane.report("follow", [reported(0, uuid=other), reported(1), reported(2)])
        await reason(plane, "follow", "Complete")

        async def exchanged() -> bool:
            found = (await devices(plane, "follow")).get("follow-0000-17-00-0", {})
            return (found.get("status") or {}).get("hardware", {}).get("uuid") == other

        await plane.until(exchanged, "the other card")
        last = await settle(plane, "follow", 3)
        assert last["follow-0000-17-00-0"]["metadata"]["uid"] != first["follow-0000-17-00-0"]["metadata"]["uid"]
        assert last["follow-0000-18-00-0"]["metadata"]["uid"] == first["follow-0000-18-00-0"]["metadata"]["uid"]

        await plane.report("follow", [reported(1)])
        assert list(await settle(plane, "follow", 1)) == ["follow-0000-18-00-0"]

        async def told() -> bool:
            events = await plane.list(resources.EVENT, namespace="default", prefix="follow.")
            assert all(event["regarding"]["uid"] for event in events)
            reasons = {event["reason"] for event in events}
            found = (names.EVENT_DEVICE_DETECTED, "2 cards found")
            return {names.EVENT_DEVICE_REMOVED, names.EVENT_INVENTORY_CONDITION} <= reasons and found in [
                (event["reason"], event["note"].split(":")[0]) for event in events
            ]

        await plane.until(told, "Events of what was found and of what went")  # they are sent afterwards


async def test_a_deleted_node_takes_its_cards_along(plane: Plane, tmp_path: Path) -> None:
    await plane.node("leaves")
    await plane.report("leaves", [reported(0), reported(1)])
    async with plane.run(MODULE, tmp_path):
        await settle(plane, "leaves", 2)
        await plane.delete(resources.NODE, "leaves")

        async def gone() -> bool:
            inventory = await plane.get(resources.GPUNODEINVENTORY, "leaves")
            return inventory is None and not await devices(plane, "leaves")

        await plane.until(gone, "the cards to go")


async def test_what_is_deleted_by_hand_comes_back(plane: Plane, tmp_path: Path) -> None:
    await plane.node("restored")
    await plane.report("restored", [reported(0)])
    async with plane.run(MODULE, tmp_path):
        await settle(plane, "restored", 1)
        await plane.delete(resources.GPUDEVICE, "restored-0000-17-00-0")
        await plane.delete(resources.GPUNODEINVENTORY, "restored")
        await settle(plane, "restored", 1)


async def test_a_process_that_is_killed_while_it_writes_is_continued(plane: Plane, tmp_path: Path) -> None:
    for number in range(10):
        await plane.node(f"killed-{number}")
        await plane.report(f"killed-{number}", [reported(c) for c in range(8)])
    async with plane.run(MODULE, tmp_path) as process:

        async def some() -> bool:
            return len(await plane.list(resources.GPUDEVICE, prefix="killed-")) > 5

        await plane.until(some, "the first cards")
        process.process.send_signal(signal.SIGKILL)
        process.process.wait()
    before = {d["metadata"]["uid"] for d in await plane.list(resources.GPUDEVICE, prefix="killed-")}
    # The lease of the dead process runs out by itself.
    async with plane.run(MODULE, tmp_path):
        for number in range(10):
            await settle(plane, f"killed-{number}", 8)
    after = await plane.list(resources.GPUDEVICE, prefix="killed-")

    assert before <= {device["metadata"]["uid"] for device in after}
    assert all(device["status"]["hardware"]["uuid"] for device in after)


async def test_settings_are_followed_and_a_bad_value_keeps_the_good_ones(plane: Plane, tmp_path: Path) -> None:
    await plane.node("set", **{"example.com/gpu": "false"})
    await plane.report("set", [reported(0)])
    async with plane.run(MODULE, tmp_path) as process:
        await settle(plane, "set", 1)

        async def managed() -> bool | None:
            found = (await devices(plane, "set"))["set-0000-17-00-0"].get("status") or {}
            return found.get("managed")

        assert await managed() is True
        await configure(plane, managedNodes={"labelKey": "example.com/gpu"})

        async def unmanaged() -> bool:
            return await managed() is False

        await plane.until(unmanaged, "the label's key to be followed")
        await configure(plane, managedNodes={"labelKey": 7})

        async def invalid() -> bool:
            return (await process.metrics())["gpu_settings_invalid"] == 1

        await plane.until(invalid, "the bad value to be told")
        assert await managed() is False
        await plane.delete(resources.MODULECONFIG, names.MODULE)

        async def back() -> bool:
            return await managed() is True

        await plane.until(back, "the defaults")


async def test_a_monstrous_report_harms_nobody(plane: Plane, tmp_path: Path) -> None:
    await plane.node("monster")
    await plane.node("neighbour")
    huge = [
        reported(0, address=f"{n:04x}:17:00.0", product="x" * 150, uuid="?" * 40, memory_mib="1e99") for n in range(500)
    ]
    await plane.report("monster", [*huge, {}, {"address": "😀", "vendor": "\u0000"[:0]}])
    await plane.report("neighbour", [reported(0)])
    async with plane.run(MODULE, tmp_path) as process:
        told = await reason(plane, "monster", "CardsIncomplete")
        assert "500 cards are reported; the first 64 by address are taken" in told
        assert len(await settle(plane, "monster", 64)) == 64
        await settle(plane, "neighbour", 1)
        assert '"level":"error"' not in process.log.read_text()
        assert process.end() == 0


async def test_without_nfd_the_node_says_so_and_its_cards_stay(plane: Plane, tmp_path: Path) -> None:
    await configure(plane, inventory={"resyncPeriod": "500ms"})
    await plane.node("without")
    await plane.report("without", [reported(0)])
    async with plane.run(MODULE, tmp_path):
        await settle(plane, "without", 1)
        await plane.delete(CRD, "nodefeatures.nfd.k8s-sigs.io")

        async def prerequisite(status: str) -> bool:
            found = await plane.condition(resources.GPUNODEINVENTORY, "without", "PrerequisiteNotMet")
            return found is not None and found["status"] == status

        await plane.until(lambda: prerequisite("True"), "the missing kind to be told")
        assert list(await devices(plane, "without")) == ["without-0000-17-00-0"]

        await plane.install()
        await plane.report("without", [reported(0)])
        await plane.until(lambda: prerequisite("False"), "the kind to be noticed")
        await reason(plane, "without", "Complete")
    await plane.delete(resources.MODULECONFIG, names.MODULE)
