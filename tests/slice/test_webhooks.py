"""Two replicas of the webhook in the whole cluster: one dies and pods get cards from the other, both die and no card
stays reserved for a pod that was never made."""

from __future__ import annotations

import asyncio

import pytest

from controllers.api import names, resources
from controllers.runtime.errors import RuntimeFault
from sim import controlplane
from sim.workload import gpu_pod
from tests.kit.waiting import PATIENCE
from tests.slice.people import People

pytestmark = pytest.mark.cluster
TEAM = "twins"
WEBHOOKS = (names.WEBHOOK, f"{names.WEBHOOK}-2")
CARDS = 4


def cards_of(people: People, node: str) -> list[str]:
    return sorted(device.name for device in people.view.devices if device.status.node_name == node)


async def created(people: People, name: str) -> bool:
    try:
        await people.pod(name, TEAM, TEAM)
    except RuntimeFault:
        return False
    return True


async def emptied(people: People) -> None:
    for pod in people.pods(TEAM):
        await people.remove(resources.POD, pod.name, TEAM)
    await people.settled(TEAM, (CARDS, 0, 0, CARDS))


async def test_replicas_die_and_cards_are_neither_given_twice_nor_kept(people: People) -> None:
    await people.namespace(TEAM)
    await people.filled(TEAM, cards_of(people, "gpu-3")[:CARDS])
    processes = controlplane.status(people.plane.dir).processes
    assert {processes[name].phase for name in (*WEBHOOKS, "webhook-balancer")} == {"ready"}

    for victim in WEBHOOKS:
        restarts = people.kill(victim)

        async def create(victim: str = victim) -> bytes:
            return await people.client.create(resources.POD, gpu_pod(f"one-{victim}", TEAM), TEAM, manager="test")

        await people.eventually(create)  # what the dead one had in hand is lost, and asked for again
        await people.back(victim, restarts)
    await people.running(TEAM, len(WEBHOOKS))
    await emptied(people)

    creations = [asyncio.create_task(created(people, f"both-{number}")) for number in range(3 * CARDS)]
    await people.view.until(
        lambda: any(card.status.reservations for card in people.cards(TEAM)), PATIENCE, lambda: "nothing is reserved"
    )
    counts = {replica: people.kill(replica) for replica in WEBHOOKS}
    made = sum(await asyncio.gather(*creations))
    for replica, count in counts.items():
        await people.back(replica, count)
    await people.settled(TEAM, (CARDS, made, 0, CARDS - made))
    given = [pod.metadata.annotations[names.DEVICES] for pod in people.pods(TEAM)]
    assert len(given) == len(set(given)) == made
    assert sorted(len(card.status.allocations) for card in people.cards(TEAM)) == [0] * (CARDS - made) + [1] * made
    await emptied(people)
    await people.retire(TEAM)
