"""A new node whose agent cannot ask NVML, as the chart installs it: its validator tells the rest, and MIG works."""

from __future__ import annotations

import orjson
import pytest

from controllers.api import conditions as kinds
from controllers.api import names, resources
from controllers.domain import mig
from sim.nodes import names as sim
from sim.nodes.leaving import bury
from sim.nodes.manifests import create_nodes, node_manifests
from tests.kit.waiting import PATIENCE
from tests.slice.machines import cards
from tests.slice.people import People

pytestmark = pytest.mark.cluster
NODE, POOL = "plain-1", "as-installed"


def condition(people: People, kind: str) -> tuple[str, str]:
    found = people.view.inventories.get(NODE)
    told = kinds.find(found.status.conditions, kind) if found is not None else None
    return (told.status, told.reason) if told is not None else ("", "")


async def test_a_mig_pool_takes_a_card_of_a_new_node_with_two_models(people: People) -> None:
    """Neither the agent nor GFD, which labels nodes, can tell the memory of its cards: their models differ."""
    (manifest,) = node_manifests(["mixed-2"], prefix=NODE.removesuffix("-1"))
    manifest["metadata"]["annotations"][sim.FAULT] = "no-nvml"
    await people.pool(POOL, allocation={"mode": "MIG", "migProfile": "1g.5gb"})
    await create_nodes(people.client, [manifest])
    await people.view.until(lambda: len(cards(people, NODE)) == 2, PATIENCE, lambda: f"cards {cards(people, NODE)}")

    def dividable() -> str:
        """The card that can be divided, as soon as somebody has told so."""
        known = [d for d in people.view.devices if d.status.node_name == NODE and (c := mig.card_of(d)) and c.offered]
        return next((device.name for device in known), "")

    def ready() -> str:
        return str(condition(people, kinds.READY_FOR_POOLING))

    await people.view.until(lambda: dividable() != "", PATIENCE, ready)
    await people.view.until(lambda: "True" in ready(), PATIENCE, ready)
    await people.annotate(dividable(), POOL)
    await people.offered(POOL, 7)
    await people.view.until(
        lambda: condition(people, kinds.INVENTORY_INCOMPLETE) == ("False", "Complete"),
        PATIENCE,
        lambda: str(condition(people, kinds.INVENTORY_INCOMPLETE)),
    )
    assert condition(people, kinds.CUDA_OUTDATED)[0] == "False"
    report = orjson.loads(await people.client.get(resources.NODEFEATURE, names.agent_feature(NODE), names.NAMESPACE))[
        "spec"
    ]["features"]["instances"]
    by_agent, by_validator = (
        [each["attributes"] for each in report[name]["elements"]] for name in (names.FEATURE_DEVICE, names.FEATURE_NVML)
    )
    assert not any("mig_capable" in card or "memory_mib" in card for card in by_agent)
    assert [card.get("mig_instances") for card in by_validator if card["mig_capable"] == "true"] == ["1g.5gb=7"]

    await people.retire(POOL)
    await people.remove(resources.NODE, NODE)
    await people.view.until(lambda: not cards(people, NODE), PATIENCE, lambda: f"{cards(people, NODE)} stay")
    await bury(people.client, NODE)
