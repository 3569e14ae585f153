"""Bad input: a clear message where the person sees it, and everything else keeps working."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import orjson
import pytest

from controllers.api import names, resources
from controllers.api.conditions import CONFIGURED, INVENTORY_INCOMPLETE, find
from controllers.runtime.errors import ApiError
from sim.workload import gpupool
from tests.kit import reports
from tests.kit.manifests import manifest
from tests.kit.waiting import PATIENCE
from tests.slice.people import People

pytestmark = pytest.mark.cluster
GOOD = {
    "address": "0000:17:00.0",
    "vendor": "10de",
    "device": "2330",
    "class": "0302",
    "uuid": "GPU-1",
    "product": "NVIDIA H100 80GB HBM3",
    "memory_mib": "81559",
    "compute_major": "9",
    "compute_minor": "0",
}


def feature(node: str, elements: list[dict[str, str]], **attributes: dict[str, str]) -> dict[str, Any]:
    groups = {f"gpu.{key}": value for key, value in attributes.items()}
    told = reports.features(groups, {names.FEATURE_DEVICE: elements})
    return manifest(reports.feature(names.agent_feature(node), node, told), resources.NODEFEATURE)


@pytest.fixture
async def bare(people: People) -> AsyncIterator[People]:
    """A node `bad` without a shape, which comes with its report; nothing of it is left afterwards."""
    before = people.restarts()
    yield people
    await people.remove(resources.NODEFEATURE, names.agent_feature("bad"), names.NAMESPACE)
    await people.remove(resources.NODE, "bad")
    await people.view.until(
        lambda: (
            people.view.inventories.get("bad") is None
            and not [d for d in people.view.devices if d.status.node_name == "bad"]
        ),
        PATIENCE,
        lambda: "the node's objects stay",
    )
    assert people.restarts() == before, "a process ended"


async def report(people: People, elements: list[dict[str, str]], **attributes: dict[str, str]) -> None:
    """Write a report by hand, and make its node: the agent there would write its own where it found none."""
    body = feature("bad", elements, **attributes)
    await people.client.create(resources.NODEFEATURE, body, names.NAMESPACE, manager="kubectl-create")
    fake, present = {"kwok.x-k8s.io/node": "fake"}, {names.LABEL_PRESENT: "true"}
    node = {"metadata": {"name": "bad", "annotations": fake, "labels": present}}
    await people.client.create(resources.NODE, node, manager="test")


async def incomplete(people: People, *words: str) -> str:
    """The node's message, once it says every word."""

    def message() -> str:
        inventory = people.view.inventories.get("bad")
        condition = find(inventory.status.conditions, INVENTORY_INCOMPLETE) if inventory else None
        return condition.message if condition and condition.status == "True" else ""

    await people.view.until(
        lambda: bool(message()) and all(w in message() for w in words), PATIENCE, lambda: f"{message()!r}"
    )
    return message()


def shares(*namespaces: dict[str, Any]) -> dict[str, Any]:
    """The spec of a pool whose queue has these shares."""
    return {"queue": {"namespaces": list(namespaces)}}


def devices(people: People) -> list[str]:
    return sorted(d.name for d in people.view.devices if d.status.node_name == "bad" and d.status.hardware)


async def test_an_incomplete_card_blocks_itself_and_not_its_neighbour(bare: People) -> None:
    broken = {"address": "0000:65:00.0", "vendor": "10de", "class": "0302"}
    await report(bare, [GOOD, broken, {"vendor": "10de"}], driver={"version": "580.1", "cuda_version": "13.0"})

    await incomplete(bare, "0000:65:00.0", "device")
    await bare.view.until(lambda: "bad-0000-17-00-0" in devices(bare), PATIENCE, lambda: str(devices(bare)))


async def test_numbers_that_are_none_and_ids_that_are_none_are_said_and_not_guessed(bare: People) -> None:
    weird = {**GOOD, "address": "0000:65:00.0", "uuid": "GPU-2", "memory_mib": "lots", "compute_major": "nine"}
    alien = {**GOOD, "address": "not an address", "device": "zzzz"}
    await report(bare, [GOOD, weird, alien], driver={"version": "580.1"})

    await incomplete(bare, "memory_mib")
    await bare.view.until(lambda: "bad-0000-17-00-0" in devices(bare), PATIENCE, lambda: str(devices(bare)))


async def test_a_report_of_200_kb_and_64_cards_is_read(bare: People) -> None:
    cards = [{**GOOD, "address": f"0000:{n:02x}:00.0", "uuid": f"GPU-{n}", "note": "x" * 3000} for n in range(64)]
    await report(bare, cards, driver={"version": "580.1"})

    await bare.view.until(lambda: len(devices(bare)) == 64, PATIENCE, lambda: f"{len(devices(bare))} cards")


async def test_a_field_of_a_wrong_type_is_refused_by_the_api_server(people: People) -> None:
    body = feature("gpu-9", [GOOD])
    body["spec"]["features"]["instances"]["gpu.device"]["elements"] = [{"attributes": {"address": 7}}]

    with pytest.raises(ApiError, match=r"attributes\.address.*must be of type string"):
        await people.client.create(resources.NODEFEATURE, body, names.NAMESPACE, manager="test")


@pytest.mark.parametrize(
    ("name", "spec", "words"),
    [
        ("x" * 41, {}, "NameTooLong"),
        ("with.dots", {}, "DNS label"),
        ("wrong", {"resource": {"name": "gpu.deckhouse.io/other"}}, "spec.resource.name must be gpu.deckhouse.io/"),
        ("wrong", {"resource": {"unit": "timeslice"}}, "follows spec.allocation.mode"),
        ("wrong", {"allocation": {"mode": "MIG"}}, "InvalidMIGProfile"),
        ("wrong", {"allocation": {"mode": "Sometimes"}}, "Unsupported value"),
        ("wrong", {"allocation": {"maxDevicesPerNode": 0}}, "greater than or equal to 1"),
        ("wrong", {"deviceSelector": {"include": {"minComputeCapability": "nine"}}}, "minComputeCapability"),
        ("wrong", {"deviceSelector": {"include": {"minComputeCapability": "9" * 5000}}}, "minComputeCapability"),
        ("wrong", {"deviceSelector": {"include": {"indexes": ["0", "4-"]}}}, "include.indexes[1]"),
        ("wrong", {"deviceSelector": {"exclude": {"indexes": ["0,1"]}}}, "exclude.indexes[0]"),
        ("wrong", {"deviceSelector": {"exclude": {"indexes": ["9" * 5000]}}}, "exclude.indexes[0]"),
        ("wrong", {"deviceSelector": {"exclude": {"indexes": ["3-1"]}}}, "from its lower position to its higher one"),
        ("wrong", shares({"name": "a", "guaranteed": 3, "limit": 2}), "guaranteed is at most limit"),
        ("wrong", shares({"name": "Team_A"}), "name is a namespace, or *"),
        ("wrong", shares({"name": "a*"}), "name is a namespace, or *"),
        ("wrong", shares({"name": "a" * 64}), "Too long"),
        ("wrong", shares({"name": ""}), "namespaces[0].name"),
        ("wrong", shares({"name": "a"}, {"name": "b"}, {"name": "a"}), "Duplicate value"),
        ("wrong", shares({"name": "a", "weight": 0}), "greater than or equal to 1"),
        ("wrong", shares({"name": "a", "limit": 0}), "greater than or equal to 1"),
        ("wrong", {"queue": {"hold": {"after": "soon"}}}, "queue.hold.after"),
        ("wrong", {"queue": {"hold": {"after": "-1m"}}}, "queue.hold.after"),
        ("wrong", {"queue": {"hold": {"pods": 17}}}, "less than or equal to 16"),
        ("wrong", {"queue": {"maxWaiting": 0}}, "greater than or equal to 1"),
        ("wrong", {"queue": {"order": "Random"}}, "Unsupported value"),
        ("wrong", {"queue": {"onShortage": "Wait"}}, "Unsupported value"),
    ],
)
async def test_a_pool_that_breaks_a_rule_is_refused_with_the_rule(
    people: People, name: str, spec: Any, words: str
) -> None:
    with pytest.raises(ApiError) as refusal:
        await people.client.create(resources.GPUPOOL, gpupool(name, **spec), manager="test")

    assert words in refusal.value.message


async def test_a_pool_with_a_queue_is_taken_and_has_the_rest_by_default(people: People) -> None:
    spec = shares({"name": "a", "guaranteed": 2, "limit": 2}, {"name": "b", "guaranteed": 9}, {"name": "*", "limit": 1})
    spec["queue"]["hold"] = {}
    path = resources.GPUPOOL.path()
    answer = await people.client.request("POST", path, query={"dryRun": "All"}, body=gpupool("right", **spec))
    found = orjson.loads(answer)["spec"]["queue"]

    assert (found["order"], found["hold"], found["maxWaiting"]) == ("Fair", {"pods": 1, "after": "10m"}, 500)
    assert found["namespaces"][2] == {"name": "*", "limit": 1, "weight": 1, "guaranteed": 0}
    assert "onShortage" not in found


async def test_pods_that_ask_wrongly_are_told_why(people: People) -> None:
    await people.namespace("wrong")
    await people.pool("one", queue={"onShortage": "Refuse"})
    await people.pool("two")
    mixed = [
        {"name": "a", "image": "i", "resources": {"limits": {names.resource_name("one"): "1"}}},
        {"name": "b", "image": "i", "resources": {"limits": {names.resource_name("two"): "1"}}},
    ]

    assert "PoolNotFound" in await people.refused("p", "wrong", "nowhere")
    assert "MixedPoolRequest" in await people.refused("p", "wrong", "one", containers=mixed)
    assert "InsufficientCapacity" in await people.refused("p", "wrong", "one")
    await people.retire("one")
    await people.retire("two")


async def test_a_pool_changes_its_unit_with_its_mode_and_never_its_resource(people: People) -> None:
    pool, other = "units", names.resource_name("other")
    await people.pool(pool, resource={"name": names.resource_name(pool), "unit": "card"})
    await people.settled(pool, (0, 0, 0, 0))

    async def change(**spec: Any) -> None:
        await people.client.merge(resources.GPUPOOL, pool, {"spec": spec}, manager="test")

    async def counts(unit: str) -> None:
        def found() -> str | None:
            seen = people.view.pools.get(pool)
            return seen.status.capacity.unit if seen and seen.status.capacity else None

        await people.view.until(lambda: found() == unit, PATIENCE, lambda: f"capacity.unit is {found()}")

    shared, divided = {"mode": "TimeSlice"}, {"mode": "MIG", "migProfile": "1g.10gb"}
    refused = (
        ("follows spec.allocation.mode", {"allocation": shared}),  # its unit stays behind
        ("follows spec.allocation.mode", {"resource": {"unit": "timeslice"}}),
        ("spec.resource.name must be", {"resource": {"name": other}}),
        ("spec.resource.name must be", {"allocation": shared, "resource": {"name": other, "unit": "timeslice"}}),
    )
    for words, spec in refused:
        with pytest.raises(ApiError, match=f"ImmutableField: .*{words}"):
            await change(**spec)

    for unit, allocation in (("timeslice", shared), ("mig-partition", divided), ("card", {"mode": "Exclusive"})):
        await change(allocation=allocation, resource={"unit": unit})
        await counts(unit)
    await change(resource=None, allocation=shared)  # without it, the unit follows by itself
    await counts("timeslice")
    await people.retire(pool)


async def test_a_card_that_does_not_hold_the_pools_profile_stays_out_and_says_so(people: People) -> None:
    card = min(device.name for device in people.view.devices if device.status.pool_ref is None)
    await people.pool("divided", allocation={"mode": "MIG", "migProfile": "7g.141gb"})
    await people.eventually(lambda: people.annotate_unjudged(card, "divided"))

    def told() -> str:
        device = people.view.devices.get(card)
        condition = find(device.status.conditions, CONFIGURED) if device else None
        return f"{condition.reason}: {condition.message}" if condition else ""

    await people.view.until(lambda: told().startswith("OutOfSelector") and "MIG" in told(), PATIENCE, told)
    await people.annotate(card, None)
    await people.retire("divided")
