"""What happens to nodes and cards in their lives, with the real process on a real API server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson
import pytest

from controllers.api import names, resources
from tests.inventory.plane import Plane
from tests.kit.objects import BOOT
from tests.kit.reports import on_the_bus, reported

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.cluster
MODULE = "controllers.inventory"
POOL = {"name": "a", "resource": "gpu.deckhouse.io/a"}
NEXT_BOOT = "99999999-2222-3333-4444-555555555555"


async def devices(plane: Plane, node: str) -> dict[str, Any]:
    """The node's cards by address."""
    found = await plane.list(resources.GPUDEVICE, prefix=f"{node}-")
    return {d["status"]["hardware"]["pci"]["address"]: d for d in found if "hardware" in (d.get("status") or {})}


async def addresses(plane: Plane, node: str, *wanted: str) -> dict[str, Any]:
    """Wait until exactly these cards are recorded, on the cards and in the node's summary."""

    async def told() -> bool:
        inventory = await plane.get(resources.GPUNODEINVENTORY, node)
        listed = [d["address"] for d in ((inventory or {}).get("status") or {}).get("hw", {}).get("devices", [])]
        return list(await devices(plane, node)) == list(wanted) == listed

    await plane.until(told, f"cards {wanted} of {node}")
    return await devices(plane, node)


def of_no_boot(cards: dict[str, Any], boot: str) -> dict[str, Any] | None:
    """What is recorded of cards, but that it was read in this start of their node; None where it was not."""
    found = {address: orjson.loads(orjson.dumps(card["status"])) for address, card in cards.items()}
    read_in = {status["hardware"]["mig"].pop("bootID", None) for status in found.values()}
    return found if read_in == {boot} else None


async def says(plane: Plane, resource: resources.Resource, name: str, reason: str) -> str:
    """Wait until InventoryIncomplete has a reason; its message."""

    async def has() -> dict[str, Any] | None:
        found = await plane.condition(resource, name, "InventoryIncomplete")
        return found if found and found["reason"] == reason else None

    return str((await plane.until(has, f"{reason} of {name}"))["message"])


async def into_pool(plane: Plane, name: str) -> None:
    """What gpupool-controller would have written."""
    await plane.status(resources.GPUDEVICE, name, {"poolRef": POOL})


async def events(plane: Plane, node: str) -> list[tuple[str, str]]:
    found = await plane.list(resources.EVENT, namespace="default", prefix=f"{node}.")
    return [(event["reason"], event["note"]) for event in found]


async def test_a_renamed_node_takes_its_cards_to_the_new_name_unapproved(plane: Plane, tmp_path: Path) -> None:
    await plane.node("old-name")
    await plane.report("old-name", [reported(0)])
    async with plane.run(MODULE, tmp_path):
        await addresses(plane, "old-name", "0000:17:00.0")
        await into_pool(plane, "old-name-0000-17-00-0")
        await plane.node("new-name")
        await plane.report("new-name", [reported(0)])
        await plane.delete(resources.NODE, "old-name")
        moved = await addresses(plane, "new-name", "0000:17:00.0")

        async def gone() -> bool:
            left = await plane.list(resources.GPUDEVICE, prefix="old-name-")
            return not left and await plane.get(resources.GPUNODEINVENTORY, "old-name") is None

        await plane.until(gone, "the old name's records to go")
        assert "poolRef" not in moved["0000:17:00.0"]["status"]


@pytest.mark.parametrize("running", [True, False], ids=["seen", "missed"])
async def test_another_machine_under_the_same_name(plane: Plane, tmp_path: Path, running: bool) -> None:
    name = f"again-{'seen' if running else 'missed'}"
    await plane.node(name)
    await plane.report(name, [reported(0), reported(1)])

    async def exchange() -> None:
        await plane.delete(resources.NODE, name)
        await plane.node(name, boot=NEXT_BOOT)
        other = [reported(0, uuid="GPU-77777777-0000-0000-0000-000000000000"), reported(4)]
        await plane.report(name, other, boot=NEXT_BOOT)

    async with plane.run(MODULE, tmp_path):
        before = await addresses(plane, name, "0000:17:00.0", "0000:18:00.0")
        await into_pool(plane, f"{name}-0000-17-00-0")
        if running:
            await exchange()
    if not running:
        await exchange()
    async with plane.run(MODULE, tmp_path):
        after = await addresses(plane, name, "0000:17:00.0", "0000:1b:00.0")

        assert after["0000:17:00.0"]["metadata"]["uid"] != before["0000:17:00.0"]["metadata"]["uid"]
        assert "poolRef" not in after["0000:17:00.0"]["status"]
        assert after["0000:17:00.0"]["status"]["hardware"]["uuid"].startswith("GPU-77777777")


@pytest.mark.parametrize("boot", [BOOT, NEXT_BOOT], ids=["still up", "rebooted"])
async def test_a_node_that_is_registered_again_keeps_what_a_person_said(
    plane: Plane, tmp_path: Path, boot: str
) -> None:
    node = f"returns-{'up' if boot == BOOT else 'rebooted'}"
    card = f"{node}-0000-17-00-0"
    async with plane.run(MODULE, tmp_path):
        before = await confirmed(plane, node)
        await plane.delete(resources.NODE, node)
        told = await says(plane, resources.GPUDEVICE, card, names.REASON_NODE_GONE)
        assert f"kubectl delete gpudevice {card}" in told
        await alone(plane, node, card)

        await plane.node(node, boot=boot)
        await plane.report(node, [reported(0), reported(1)], boot=boot)
        await says(plane, resources.GPUDEVICE, card, "Complete")
        after = (await addresses(plane, node, "0000:17:00.0", "0000:18:00.0"))["0000:17:00.0"]
        assert after["metadata"]["uid"] == before
        assert after["metadata"]["annotations"] == {names.ASSIGNMENT: "a"}
        assert after["status"]["poolRef"] == POOL
        assert "nodeGoneSince" not in after["status"]

        async def told_of() -> bool:
            return names.EVENT_DEVICE_RECOGNISED in [reason for reason, _ in await events(plane, node)]

        await plane.until(told_of, "the event")


async def test_another_card_on_a_node_that_is_registered_again_inherits_nothing(plane: Plane, tmp_path: Path) -> None:
    node, card = "stolen", "stolen-0000-17-00-0"
    async with plane.run(MODULE, tmp_path):
        before = await confirmed(plane, node)
        await plane.delete(resources.NODE, node)
        await alone(plane, node, card)
        await plane.node(node, boot=NEXT_BOOT)  # the report of the machine before is still there
        await says(plane, resources.GPUDEVICE, card, names.REASON_NOT_RECOGNISED)
        await plane.report(node, [reported(0, uuid="GPU-77777777-0000-0000-0000-000000000000")], boot=NEXT_BOOT)

        async def other() -> dict[str, Any] | None:
            found = (await devices(plane, node)).get("0000:17:00.0")
            return found if found and found["metadata"]["uid"] != before else None

        made = await plane.until(other, "the other card")
        assert "annotations" not in made["metadata"]
        assert "poolRef" not in made["status"]


async def confirmed(plane: Plane, node: str) -> str:
    """A node of two cards, of which a person confirmed the first, and its pool took it; that record's uid."""
    await plane.node(node)
    await plane.report(node, [reported(0), reported(1)])
    first = (await addresses(plane, node, "0000:17:00.0", "0000:18:00.0"))["0000:17:00.0"]["metadata"]
    body = {"metadata": {"annotations": {names.ASSIGNMENT: "a"}}}
    await plane.client.merge(resources.GPUDEVICE, first["name"], body, manager="person")
    await into_pool(plane, first["name"])
    return str(first["uid"])


async def alone(plane: Plane, node: str, card: str) -> None:
    """Wait until nothing is on record of a node but one card."""

    async def left() -> bool:
        there = [each["metadata"]["name"] for each in (await devices(plane, node)).values()]
        return there == [card] and await plane.get(resources.GPUNODEINVENTORY, node) is None

    await plane.until(left, f"{card} to be alone")


async def test_a_node_that_is_not_ready_keeps_its_cards(plane: Plane, tmp_path: Path) -> None:
    await plane.node("down")
    await plane.report("down", [reported(0), reported(1)])
    async with plane.run(MODULE, tmp_path) as process:
        await addresses(plane, "down", "0000:17:00.0", "0000:18:00.0")
        before = await process.writes()
        await plane.node("down", ready=False)
        await plane.report("down", [reported(1)])  # the last word of an agent that nobody can reach now
        await says(plane, resources.GPUDEVICE, "down-0000-17-00-0", "AwaitingReport")

        async def both() -> bool:
            return await process.writes() >= before + 2

        await plane.until(both, "the card and the summary to be written")
        assert await process.writes() == before + 2, "each once"
        await plane.node("down")
        await addresses(plane, "down", "0000:18:00.0")


async def test_a_reboot_is_told_until_the_agent_has_looked_again(plane: Plane, tmp_path: Path) -> None:
    await plane.node("boots")
    await plane.report("boots", [reported(0)])
    async with plane.run(MODULE, tmp_path):
        before = of_no_boot(await addresses(plane, "boots", "0000:17:00.0"), BOOT)
        assert before is not None
        await plane.node("boots", boot=NEXT_BOOT)
        await says(plane, resources.GPUNODEINVENTORY, "boots", names.REASON_REPORT_OUTDATED)
        await plane.report("boots", [reported(0)], boot=NEXT_BOOT)
        await says(plane, resources.GPUNODEINVENTORY, "boots", "Complete")

        async def told() -> bool:
            return names.EVENT_INVENTORY_OUTDATED in [reason for reason, _ in await events(plane, "boots")]

        await plane.until(told, "the event")

        async def same_cards() -> bool:
            """All but the start of the node that they were read in."""
            return of_no_boot(await devices(plane, "boots"), NEXT_BOOT) == before

        await plane.until(same_cards, "nothing else of the cards to change")


async def test_a_card_is_moved_between_slots_and_between_nodes(plane: Plane, tmp_path: Path) -> None:
    for node in ("left", "right"):
        await plane.node(node)
    await plane.report("left", [reported(0), reported(1)])
    await plane.report("right", [])
    async with plane.run(MODULE, tmp_path):
        await addresses(plane, "left", "0000:17:00.0", "0000:18:00.0")
        await into_pool(plane, "left-0000-17-00-0")
        other_slot = reported(0, address="0000:2a:00.0")
        await plane.report("left", [other_slot, reported(1)])
        cards = await addresses(plane, "left", "0000:17:00.0", "0000:18:00.0", "0000:2a:00.0")
        assert "poolRef" not in cards["0000:2a:00.0"]["status"]
        told = await says(plane, resources.GPUDEVICE, "left-0000-17-00-0", names.REASON_CARD_LOST)
        assert "its uuid is that of left-0000:2a:00.0 now" in told

        await plane.report("left", [reported(1)])
        await plane.report("right", [other_slot])
        await addresses(plane, "right", "0000:2a:00.0")
        await addresses(plane, "left", "0000:17:00.0", "0000:18:00.0")  # free and gone; lost, and in a pool


async def test_a_node_of_different_cards_has_each_by_its_own_facts(plane: Plane, tmp_path: Path) -> None:
    """GFD names one product for all of a node's cards; with two models it is believed about none."""
    t4 = reported(
        1, device="1eb8", product="Tesla T4", memory_mib="15360", compute_major="7", compute_minor="5",
        mig_capable="false", mig_mode="", mig_profiles="",
    )  # fmt: skip
    prefix = f"{names.GFD_PREFIX}gpu."
    await plane.node("mixed", **{f"{prefix}product": "Tesla-T4", f"{prefix}count": "2", f"{prefix}memory": "15360"})
    await plane.report("mixed", [reported(0, memory_mib=""), t4])
    await plane.nfd("mixed", [*on_the_bus(1), *on_the_bus(1, device="1eb8")])
    async with plane.run(MODULE, tmp_path):
        cards = await addresses(plane, "mixed", "0000:17:00.0", "0000:18:00.0")
        labels = [device["metadata"]["labels"] for device in cards.values()]
        assert [one[names.LABEL_PRODUCT] for one in labels] == ["NVIDIA-H100-80GB-HBM3", "Tesla-T4"]
        assert [one[names.LABEL_FAMILY] for one in labels] == ["hopper", "turing"]
        told = await says(plane, resources.GPUDEVICE, "mixed-0000-17-00-0", "AttributesMissing")
        assert "lacks memory_mib" in told
        await says(plane, resources.GPUDEVICE, "mixed-0000-18-00-0", "Complete")


async def test_mig_is_recorded_as_it_is_and_as_it_changes(plane: Plane, tmp_path: Path) -> None:
    async def mig(strategy: str) -> dict[str, Any]:
        async def found() -> dict[str, Any] | None:
            cards = await devices(plane, "mig")
            made = cards["0000:17:00.0"]["status"]["hardware"]["mig"] if cards else {}
            return made if made.get("strategy") == strategy else None

        return dict(await plane.until(found, f"strategy {strategy}"))

    await plane.node("mig")
    await plane.report("mig", [reported(0)])
    async with plane.run(MODULE, tmp_path):
        assert await mig("none") == {
            "capable": True, "enabled": False, "strategy": "none", "profilesSupported": ["1g.10gb", "7g.80gb"],
            "types": [], "bootID": BOOT,
        }  # fmt: skip
        await plane.report("mig", [reported(0, mig_mode="enabled", mig_instances="1g.10gb=7")])
        assert (await mig("single"))["types"] == [{"name": "1g.10gb", "count": 7}]
        await plane.report("mig", [reported(0, mig_mode="enabled", mig_instances="3g.40gb=1,1g.10gb=2")])
        assert (await mig("mixed"))["types"] == [{"name": "1g.10gb", "count": 2}, {"name": "3g.40gb", "count": 1}]
        await plane.report("mig", [reported(0, mig_mode="enabled")])
        assert (await mig("none"))["enabled"] is True


async def test_a_card_is_ignored_and_back(plane: Plane, tmp_path: Path) -> None:
    await plane.node("ignored")
    await plane.report("ignored", [reported(0)])
    name = "ignored-0000-17-00-0"

    async def wait(status: str) -> None:
        async def has() -> bool:
            found = await plane.condition(resources.GPUDEVICE, name, "Ignored")
            return found is not None and found["status"] == status

        await plane.until(has, f"Ignored {status}")

    async def annotate(value: str | None) -> None:
        body = {"metadata": {"annotations": {names.LABEL_IGNORE: value}}}
        await plane.client.merge(resources.GPUDEVICE, name, body, manager="person")

    async with plane.run(MODULE, tmp_path):
        await wait("False")
        await annotate("true")
        await wait("True")
        await annotate(None)
        await wait("False")


async def test_one_changed_report_costs_one_write_for_each_changed_object(plane: Plane, tmp_path: Path) -> None:
    await plane.node("thrifty")
    await plane.report("thrifty", [reported(number) for number in range(8)])
    async with plane.run(MODULE, tmp_path) as process:
        seats = [f"0000:{0x17 + number:02x}:00.0" for number in range(8)]
        await addresses(plane, "thrifty", *seats)
        before = await process.writes()
        await plane.report("thrifty", [reported(0, numa_node="1"), *(reported(number) for number in range(1, 8))])

        async def changed() -> bool:
            return (await devices(plane, "thrifty"))[seats[0]]["status"]["hardware"]["numaNode"] == 1

        async def written(count: int) -> None:
            """A write is counted when it is answered, which is after others see it."""

            async def counted() -> bool:
                return await process.writes() >= before + count

            await plane.until(counted, f"{count} writes")
            assert await process.writes() == before + count

        await plane.until(changed, "the new fact")
        await written(1)

        await plane.nfd("thrifty", on_the_bus(9))
        await says(plane, resources.GPUNODEINVENTORY, "thrifty", "CardsIncomplete")
        await written(2)
