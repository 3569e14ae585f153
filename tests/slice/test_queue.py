"""A full pool lets pods wait: webhook, gpupool-controller, policies, scheduler and API server are real."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import orjson
import pytest

from controllers.api import names, resources
from controllers.api.gangs import GANG, GANG_SIZE
from controllers.runtime.errors import ApiError
from sim.workload import gpu_pod
from tests.kit.waiting import PATIENCE, until
from tests.slice.people import People

pytestmark = pytest.mark.cluster
TEAM, POOL = "queueing", "queueing"
OTHER_GATE = "example.com/quota"


@pytest.fixture
async def two_cards(people: People) -> AsyncIterator[People]:
    """A pool of two cards of one node."""
    await people.namespace(TEAM)
    cards = sorted(device.name for device in people.view.devices if device.status.node_name == "gpu-2")[:2]
    await people.filled(POOL, cards, queue={})
    yield people
    for pod in people.pods(TEAM):
        await people.remove(resources.POD, pod.name, TEAM)
    await people.retire(POOL)


async def body(people: People, name: str) -> dict[str, Any]:
    return dict(orjson.loads(await people.client.get(resources.POD, name, TEAM)))


def gates(pod: dict[str, Any]) -> list[str]:
    return [gate["name"] for gate in pod["spec"].get("schedulingGates", ())]


async def said(people: People, name: str, reason: str) -> dict[str, Any]:
    """The pod's condition once it has this reason."""

    async def look() -> Any:
        conditions = (await body(people, name))["status"].get("conditions", ())
        return next((one for one in conditions if one["type"] == names.QUEUED and one["reason"] == reason), None)

    return dict(await until(look, f"{name} to say {reason}"))


async def runs(people: People, *pods: str) -> None:
    await people.view.until(
        lambda: {pod.name for pod in people.pods(TEAM) if pod.ready} >= set(pods),
        PATIENCE,
        lambda: str(people.pods(TEAM)),
    )


async def create(people: People, name: str, units: int = 1, annotations: Any = None, **spec: Any) -> dict[str, Any]:
    made = gpu_pod(name, POOL, units, **spec)
    made["metadata"].setdefault("annotations", {}).update(annotations or {})
    return dict(orjson.loads(await people.client.create(resources.POD, made, TEAM, manager="test")))


async def test_the_pod_too_many_waits_and_gets_its_card_when_another_ends(two_cards: People) -> None:
    people = two_cards
    await people.pod("first", TEAM, POOL)
    await people.pod("second", TEAM, POOL)
    await runs(people, "first", "second")
    made = await create(people, "third")
    assert gates(made) == [names.CARDS_GATE]
    assert names.DEVICES not in made["metadata"]["annotations"]
    found = await said(people, "third", "Waiting")
    assert (found["status"], POOL in found["message"]) == ("True", True)
    await until(
        lambda: (pool := people.view.pools.get(POOL)) and pool.status.queue and pool.status.queue.waiting == 1,
        "the pool to say who waits",
    )
    await people.told(names.EVENT_QUEUED, "waits for 1 slot", namespace=TEAM)

    ended = await body(people, "first")
    await people.remove(resources.POD, "first", TEAM)
    await runs(people, "third")
    released = await body(people, "third")
    assert gates(released) == []
    assert released["metadata"]["annotations"][names.DEVICES] == ended["metadata"]["annotations"][names.DEVICES]
    await said(people, "third", "Released")
    await until(lambda: not people.view.pools.get(POOL).status.queue, "nobody to wait")  # type: ignore[union-attr]


async def test_behind_a_gate_of_others_a_pod_holds_nothing(two_cards: People) -> None:
    people = two_cards
    made = await create(people, "theirs", 2, schedulingGates=[{"name": OTHER_GATE}])
    assert gates(made) == [OTHER_GATE, names.CARDS_GATE]
    await said(people, "theirs", "OtherGates")
    await people.pod("ours", TEAM, POOL, 2)
    await runs(people, "ours")
    await people.remove(resources.POD, "ours", TEAM)

    patch = {"spec": {"schedulingGates": [{"name": names.CARDS_GATE}]}}
    await people.client.merge(resources.POD, "theirs", patch, manager="test", namespace=TEAM)
    await runs(people, "theirs")


async def test_a_gang_gets_its_cards_at_once(two_cards: People) -> None:
    people, marks = two_cards, {GANG: "run", GANG_SIZE: "2"}
    await create(people, "one", annotations=marks)
    await said(people, "one", "WaitingForGang")
    await create(people, "two", annotations=marks)
    await runs(people, "one", "two")
    with pytest.raises(ApiError, match="1 to 1024"):
        await create(people, "three", annotations={GANG: "run", GANG_SIZE: "1025"})


async def test_a_pool_that_goes_and_comes_back_keeps_its_queue(two_cards: People) -> None:
    people = two_cards
    await people.pod("has", TEAM, POOL, 2)
    await runs(people, "has")
    await create(people, "waits")
    await people.remove(resources.GPUPOOL, POOL)
    await said(people, "waits", "PoolClosed")
    await people.remove(resources.POD, "has", TEAM)
    await until(lambda: people.view.pools.get(POOL) is None, "the pool to be gone")
    assert gates(await body(people, "waits")) == [names.CARDS_GATE]
    cards = sorted(device.name for device in people.view.devices if device.status.node_name == "gpu-2")[:2]
    await people.filled(POOL, cards, queue={})
    await runs(people, "waits")


async def test_refusals_can_be_had_back(two_cards: People) -> None:
    people = two_cards
    # Before refusals are on: the webhook may hear of the cards later than this test does.
    await people.pod("has", TEAM, POOL, 2)
    await runs(people, "has")
    change = {"spec": {"queue": {"onShortage": "Refuse"}}}
    await people.client.merge(resources.GPUPOOL, POOL, change, manager="test")

    async def refused() -> bool:
        try:
            await create(people, "late")
        except ApiError as error:
            return names.INSUFFICIENT_CAPACITY in error.message
        await people.remove(resources.POD, "late", TEAM)
        return False

    await until(refused, "a pod to be refused")
