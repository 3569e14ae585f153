"""Selection, approval and assignment on a real control plane: who takes a card, and who lets it go."""

from __future__ import annotations

import asyncio
from typing import Any

import orjson
import pytest

from controllers.api import names, resources
from controllers.api.gpudevice import GPUDevice
from tests.kit.waiting import PATIENCE
from tests.slice.people import People

pytestmark = pytest.mark.cluster
AUTOMATIC: dict[str, Any] = {"deviceAssignment": {"requireAnnotation": False}}


def on(people: People, node: str) -> list[str]:
    return sorted(device.name for device in people.view.devices if device.status.node_name == node)


def node_is(name: str) -> dict[str, Any]:
    return {"nodeSelector": {"matchLabels": {names.LABEL_HOSTNAME: name}}}


def card(people: People, name: str) -> GPUDevice:
    found = people.view.devices.get(name)
    assert found is not None
    return found


def configured(people: People, name: str) -> tuple[str, str] | None:
    found = [c for c in card(people, name).status.conditions if c.type == "Configured"]
    return (found[0].status, found[0].reason) if found else None


def uid(people: People, pool: str) -> str:
    found = people.view.pools.get(pool)
    assert found is not None
    return found.metadata.uid


async def says(people: People, name: str, expected: tuple[str, str] | None, seconds: float = PATIENCE) -> None:
    await people.view.until(
        lambda: configured(people, name) == expected, seconds, lambda: f"{name}: {configured(people, name)}"
    )


async def in_pool(people: People, pool: str, cards: list[str], seconds: float = PATIENCE) -> None:
    await people.view.until(
        lambda: [c.name for c in people.cards(pool)] == sorted(cards),
        seconds,
        lambda: f"{pool} has {[c.name for c in people.cards(pool)]}",
    )


async def mark(people: People, name: str, **metadata: Any) -> None:
    await people.client.merge(resources.GPUDEVICE, name, {"metadata": metadata}, manager="test")


async def answers(people: People, card: str, pool: str) -> list[tuple[str, int]]:
    """What events say of a card's annotation that names the pool, and how often; other tests' pools had it too."""
    items = orjson.loads(await people.client.request("GET", resources.EVENT.path("default")))["items"]
    begins = f"The annotation {names.ASSIGNMENT}={pool} is not followed"
    return [
        (item["note"], (item.get("series") or {}).get("count", 1))
        for item in items
        if item["reason"] == names.EVENT_ANNOTATION_MISMATCH
        and item["regarding"]["name"] == card
        and item["note"].startswith(begins)
    ]


async def left_of(people: People, pool: str) -> list[str]:
    """Operands and node labels of a pool, by quorum reads."""
    found = []
    for resource in (resources.CONFIGMAP, resources.DAEMONSET):
        query = {"labelSelector": f"{names.LABEL_POOL}={pool}"}
        body = await people.client.request("GET", resource.path(names.NAMESPACE), query=query)
        found += [f"{resource.kind} {item['metadata']['name']}" for item in orjson.loads(body)["items"]]
    nodes = orjson.loads(await people.client.request("GET", resources.NODE.path()))["items"]
    key = names.pool_node_label(pool)
    return found + [f"label of {node['metadata']['name']}" for node in nodes if key in node["metadata"]["labels"]]


async def nothing_left_of(people: People, pool: str) -> None:
    deadline = asyncio.get_running_loop().time() + PATIENCE
    while found := await left_of(people, pool):
        assert asyncio.get_running_loop().time() < deadline, found
        await asyncio.sleep(0.1)


async def test_an_annotation_that_cannot_be_followed_is_answered_once(people: People) -> None:
    target, pool = on(people, "gpu-1")[1], "picky"
    await people.pool(pool, **node_is("gpu-1"))
    await people.annotate(target, pool)
    await in_pool(people, pool, [target])
    # Made anew for another node, by somebody who forgets the annotation: nobody can refuse it any more.
    await people.remove(resources.GPUPOOL, pool)
    await people.view.until(lambda: people.view.pools.get(pool) is None, PATIENCE, lambda: "the pool does not go")
    await people.pool(pool, **node_is("gpu-2"))

    await says(people, target, ("False", "OutOfSelector"))

    def pending() -> list[tuple[str | None, str]]:
        inventory = people.view.inventories.get("gpu-1")
        pools = inventory.status.pools if inventory else None
        address = card(people, target).status.inventory_id
        return [(e.pool, e.reason) for e in (pools.pending if pools else ()) if e.inventory_id == address]

    await people.view.until(lambda: pending() == [(pool, "OutOfSelector")], PATIENCE, lambda: str(pending()))

    def listed() -> list[str]:
        found = people.view.pools.get(pool)
        return [c.pools[0].reason for c in (found.status.candidates if found else ()) if c.name == target]

    await people.view.until(lambda: listed() == ["OutOfSelector"], PATIENCE, lambda: f"the pool lists it as {listed()}")
    why = f"GPUPool {pool} does not match card {target}: spec.nodeSelector.matchLabels expects"
    await people.told(names.EVENT_ANNOTATION_MISMATCH, why, about=target)
    said = await answers(people, target, pool)
    assert len([note for note, _ in said if why in note]) == 1
    assert all(times == 1 for _, times in said)

    body = {"spec": {"nodeSelector": {"matchLabels": {names.LABEL_HOSTNAME: "gpu-1"}}}}
    await people.client.merge(resources.GPUPOOL, pool, body, manager="test")
    await in_pool(people, pool, [target])
    await says(people, target, ("True", "Published"))
    await people.annotate(target, None)
    await people.retire(pool)


async def test_an_automatic_pool_takes_its_cards_and_ignore_withdraws_one(people: People) -> None:
    cards, pool = on(people, "gpu-2"), "greedy"
    first = {**node_is("gpu-2"), **AUTOMATIC, "allocation": {"mode": "Exclusive", "maxDevicesPerNode": 2}}
    await people.pool(pool, **first)
    await in_pool(people, pool, cards[:2])
    await people.offered(pool, 2)
    assert all(c.metadata.annotations[names.ASSIGNMENT] == pool for c in people.cards(pool))
    await people.view.until(
        lambda: all(card(people, c).status.auto_attach for c in cards[:2]), PATIENCE, lambda: "autoAttach is not said"
    )

    # A younger pool that would take them too gets what the first leaves.
    # (In the same second the name decides.)
    younger = {**node_is("gpu-2"), **AUTOMATIC, "allocation": {"mode": "Exclusive", "maxDevicesPerNode": 1}}
    await people.pool("second", **younger)
    await in_pool(people, "second", cards[2:3])
    await in_pool(people, pool, cards[:2])

    await mark(people, cards[0], labels={names.LABEL_IGNORE: "true"})
    await people.view.until(
        lambda: cards[0] not in [c.name for c in people.cards(pool)], PATIENCE, lambda: str(people.cards(pool))
    )
    # Its place goes to the next card that nobody has.
    await people.view.until(
        lambda: [c.name for c in people.cards(pool)] == [cards[1], cards[3]],
        PATIENCE,
        lambda: str([c.name for c in people.cards(pool)]),
    )
    await mark(people, cards[0], labels={names.LABEL_IGNORE: None})
    for name in (pool, "second"):
        await people.retire(name)
        await nothing_left_of(people, name)


async def test_a_deleted_pool_stays_until_its_pod_ends_and_leaves_nothing(people: People) -> None:
    cards, pool, team = on(people, "gpu-3")[:2], "doomed", "doomed"
    await people.namespace(team)
    await people.filled(pool, cards)
    await people.pod("last", team, pool)
    await people.running(team, 1)

    def serving() -> list[str]:
        return [c.name for c in people.cards(pool) if c.status.allocations]

    await people.view.until(lambda: len(serving()) == 1, PATIENCE, lambda: str(serving()))
    (used,) = serving()

    await people.remove(resources.GPUPOOL, pool)
    await in_pool(people, pool, [used], 20)
    assert people.view.pools.get(pool) is not None
    assert [pod.name for pod in people.pods(team) if pod.ready] == ["last"]

    await people.remove(resources.POD, "last", team)
    await people.view.until(lambda: people.view.pools.get(pool) is None, PATIENCE, lambda: "the pool does not go")
    await nothing_left_of(people, pool)
    await in_pool(people, pool, [])
    for name in cards:
        await says(people, name, ("Unknown", "PoolUnknown"))
        await people.annotate(name, None)
        await says(people, name, None)


async def test_a_pool_that_is_deleted_and_made_anew_gets_its_cards_back(people: People) -> None:
    cards, pool = on(people, "gpu-4")[:2], "again"
    await people.filled(pool, cards)
    old = uid(people, pool)
    await people.remove(resources.GPUPOOL, pool)
    await people.view.until(lambda: people.view.pools.get(pool) is None, PATIENCE, lambda: "the pool does not go")
    await people.pool(pool)

    await in_pool(people, pool, cards)
    await people.offered(pool, 2)
    new = uid(people, pool)
    assert new != old
    for resource in (resources.CONFIGMAP, resources.DAEMONSET):
        body = await people.client.get(resource, names.plugin_object(pool), names.NAMESPACE)
        assert [owner["uid"] for owner in orjson.loads(body)["metadata"]["ownerReferences"]] == [new]
    for name in cards:
        await says(people, name, ("True", "Published"))
    await people.retire(pool)
    await nothing_left_of(people, pool)


async def test_an_annotation_that_names_no_pool_goes_after_its_time(people: People) -> None:
    target = on(people, "gpu-1")[2]
    await people.settings(pools={"danglingAfter": "3s"})
    try:
        await people.filled("nowhere", [target])
        await people.remove(resources.GPUPOOL, "nowhere")
        await says(people, target, ("Unknown", "PoolUnknown"))
        await people.view.until(
            lambda: names.ASSIGNMENT not in card(people, target).metadata.annotations, PATIENCE, lambda: "it stays"
        )
        await says(people, target, None)
    finally:
        await people.no_settings()

    for reason in (names.EVENT_ANNOTATION_MISMATCH, names.EVENT_ANNOTATION_REMOVED):
        await people.told(reason, "nowhere", about=target)


async def test_a_card_that_changes_pools_is_never_counted_twice(people: People) -> None:
    """Nor for longer than the hand-over takes in none: each pool's own status says what it has."""
    target = on(people, "gpu-4")[3]
    await people.filled("left", [target])
    await people.pool("right")
    await people.settled("right", (0, 0, 0, 0))
    sums: set[int] = set()

    def watch(_: object, __: object) -> None:
        sums.add(sum((people.capacity(pool) or (0,))[0] for pool in ("left", "right")))

    people.view.pools.subscribe(watch)
    await people.annotate(target, "right")
    await people.offered("right", 1)
    await people.settled("left", (0, 0, 0, 0))

    assert max(sums) == 1
    for pool in ("left", "right"):
        await people.retire(pool)
