"""One card's way from a bare node to a pod and back, on a real control plane under real identities."""

from __future__ import annotations

import orjson
import pytest

from controllers.api import names, resources
from controllers.runtime.errors import Invalid
from tests.kit.waiting import PATIENCE
from tests.slice.people import People

pytestmark = pytest.mark.cluster


def on(people: People, node: str) -> list[str]:
    return sorted(device.name for device in people.view.devices if device.status.node_name == node)


async def test_a_pod_gets_the_card_that_was_reserved_and_gives_it_back(people: People) -> None:
    view, team, pool = people.view, "story", "story"
    await people.namespace(team)
    await people.pool(pool, access={"namespaces": [team]})
    card = on(people, "gpu-1")[0]

    def pending() -> list[str]:
        inventory = view.inventories.get("gpu-1")
        pools = inventory.status.pools if inventory else None
        return [e.annotation_hint or "" for e in (pools.pending if pools else ()) if e.pool == pool]

    await view.until(lambda: bool(pending()), PATIENCE, lambda: "nothing is pending")
    assert set(pending()) == {f"{names.ASSIGNMENT}={pool}"}

    await people.annotate(card, pool)
    await people.offered(pool, 1)
    answer = orjson.loads(await people.pod("first", team, pool))
    marks = answer["metadata"]["annotations"]
    assert (
        marks[names.DEVICES]
        == "gpu-1-" + card.removeprefix("gpu-1-").replace("-", ":", 2)[::-1].replace("-", ".", 1)[::-1]
    )
    assert answer["metadata"]["labels"][names.LABEL_POOL] == pool

    await people.running(team, 1)
    await people.settled(pool, (1, 1, 0, 0))
    (device,) = people.cards(pool)
    assert [(a.namespace, a.pod) for a in device.status.allocations] == [(team, "first")]
    await view.until(lambda: not people.cards(pool)[0].status.reservations, PATIENCE, lambda: str(people.cards(pool)))
    (device,) = people.cards(pool)
    assert device.status.state == "Assigned"

    # The annotation goes while the pod runs: the card stays with its pod, then leaves.
    await people.annotate(card, None)
    await view.until(
        lambda: people.cards(pool)[0].status.published is None, PATIENCE, lambda: "the plugin still offers the card"
    )
    assert people.cards(pool)[0].status.allocations
    assert "InsufficientCapacity" in await people.refused("second", team, pool)

    await people.remove(resources.POD, "first", team)
    await view.until(lambda: not people.cards(pool), PATIENCE, lambda: "the card does not leave")
    key = names.pool_node_label(pool)
    await view.until(lambda: not any(key in n.metadata.labels for n in view.nodes), PATIENCE, lambda: "the label stays")
    await people.settled(pool, (0, 0, 0, 0))
    await people.retire(pool)


async def test_every_process_writes_under_its_own_name(people: People) -> None:
    card = on(people, "gpu-2")[0]
    await people.filled("owners", [card])

    writers = await people.view.writers(resources.GPUDEVICE, card)
    assert {names.MANAGER_INVENTORY, names.MANAGER_POOL, names.MANAGER_PLUGIN} <= set(writers)
    inventory = await people.view.writers(resources.GPUNODEINVENTORY, "gpu-2")
    assert set(inventory) == {names.MANAGER_INVENTORY, names.MANAGER_BOOTSTRAP, names.MANAGER_POOL}

    await people.retire("owners")


async def test_a_deployment_gets_as_many_cards_as_there_are_and_is_told_about_the_rest(people: People) -> None:
    team, pool = "deploy", "deploy"
    await people.namespace(team)
    await people.filled(pool, on(people, "gpu-3")[:2])
    template = {
        "metadata": {"labels": {"app": "d"}},
        "spec": {
            "containers": [{"name": "c", "image": "i", "resources": {"limits": {names.resource_name(pool): 1}}}],
            "terminationGracePeriodSeconds": 0,
        },
    }
    body = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "d"},
        "spec": {"replicas": 3, "selector": {"matchLabels": {"app": "d"}}, "template": template},
    }
    await people.client.request("POST", f"/apis/apps/v1/namespaces/{team}/deployments", body=body)

    await people.running(team, 2)
    await people.settled(pool, (2, 2, 0, 0))

    def holders() -> set[str]:
        return {taken.pod for card in people.cards(pool) for taken in card.status.allocations}

    # A pod counts as soon as it is bound; which card it has is told when kubelet has reported it.
    await people.view.until(lambda: len(holders()) == 2, PATIENCE, lambda: f"cards are held by {holders()}")

    async def told() -> bytes:
        answer = await people.client.request("GET", f"/api/v1/namespaces/{team}/events")
        if b"InsufficientCapacity" not in answer:
            raise Invalid(0, "", "no event yet")
        return answer

    await people.eventually(told)
    await people.client.request("DELETE", f"/apis/apps/v1/namespaces/{team}/deployments/d")
    await people.settled(pool, (2, 0, 0, 2))
    await people.retire(pool)


async def test_a_card_moves_to_another_pool_without_being_in_both(people: People) -> None:
    card = on(people, "gpu-4")[0]
    await people.filled("from", [card])
    await people.pool("to")
    seen: set[tuple[str | None, str | None]] = set()

    def watch(_: object, new: object) -> None:
        if new is not None and getattr(new, "name", "") == card:
            status = new.status  # type: ignore[attr-defined]
            seen.add((status.pool_ref and status.pool_ref.name, status.published and status.published.pool))

    people.view.devices.subscribe(watch)
    await people.annotate(card, "to")
    await people.offered("to", 1)

    assert ("to", "to") in seen
    assert not {("to", "from"), ("from", "to"), (None, "from"), (None, "to")} & seen
    await people.settled("from", (0, 0, 0, 0))
    await people.retire("from")
    await people.retire("to")


async def test_a_node_that_somebody_adds_with_kubectl_becomes_ready(people: People) -> None:
    annotations = {"kwok.x-k8s.io/node": "fake", "sim.gpu.deckhouse.io/shape": "t4-4"}
    await people.client.create(
        resources.NODE, {"metadata": {"name": "mine", "annotations": annotations}}, manager="test"
    )

    await people.ready_nodes(5)
    assert len(on(people, "mine")) == 4

    await people.remove(resources.NODE, "mine")
    await people.view.until(lambda: not on(people, "mine"), PATIENCE, lambda: str(on(people, "mine")))
