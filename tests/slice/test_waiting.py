"""A pod that outlives its reservation comes before newcomers; the scheduler, the webhook and the API are real."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from typing import Any

import pytest

from controllers.api import names, resources
from controllers.domain.clock import seconds
from controllers.runtime.errors import ApiError
from tests.kit.waiting import PATIENCE, until
from tests.slice.people import People

pytestmark = pytest.mark.cluster
TEAM, POOL = "waiting", "waiting"
SEEN, TTL = 3.0, 5.0
"""Seconds: for a pod to be seen after it was admitted, and to be bound."""


@pytest.fixture
async def one_card(people: People) -> AsyncIterator[People]:
    """A pool of one card, and reservations that end in seconds."""
    await people.namespace(TEAM)
    await people.settings(admission={"unseenTTL": f"{SEEN:.0f}s", "reservationTTL": f"{TTL:.0f}s"})
    card = min(device.name for device in people.view.devices if device.status.node_name == "gpu-2")
    await people.filled(POOL, [card])
    yield people
    await people.retire(POOL)
    await people.no_settings()


def beside(app: str) -> dict[str, Any]:
    """Affinity to a pod that is on the same node: the webhook does not judge it, and the scheduler does."""
    term = {"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": names.LABEL_HOSTNAME}
    return {"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}


async def friend(people: People, app: str) -> None:
    meta = {"name": app, "labels": {"app": app}}
    spec = {"nodeName": "gpu-2", "containers": [{"name": "c", "image": "i"}], "terminationGracePeriodSeconds": 0}
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}
    await people.client.create(resources.POD, body, TEAM, manager="test")


def reservation(people: People) -> tuple[str, float] | None:
    """Whose the card is now, and since when."""
    found = [r for card in people.cards(POOL) for r in card.status.reservations]
    return (found[0].pod, seconds(found[0].since)) if found else None


async def test_it_gets_its_card_before_a_newcomer(one_card: People) -> None:
    people = one_card
    await people.pod("old", TEAM, POOL, **beside("friend"))
    first = reservation(people) or ("old", time.time())

    # It outlives its reservation; whenever somebody else asks, the card is promised or kept for it.
    def again() -> bool:
        found = reservation(people)
        return found is not None and found[0] == "old" and found[1] > first[1]

    deadline = time.monotonic() + PATIENCE
    while not again():
        assert time.monotonic() < deadline, f"the card is {reservation(people)}, first {first}"
        assert names.INSUFFICIENT_CAPACITY in await people.refused("newcomer", TEAM, POOL)
    await people.told(names.EVENT_RESERVATION_EXPIRED, "not bound in time")

    await friend(people, "friend")
    await people.view.until(
        lambda: any(pod.name == "old" and pod.ready for pod in people.pods(TEAM)),
        PATIENCE,
        lambda: str(people.pods(TEAM)),
    )
    await people.settled(POOL, (1, 1, 0, 0))
    assert names.INSUFFICIENT_CAPACITY in await people.refused("newcomer", TEAM, POOL)

    for name in ("old", "friend"):
        await people.remove(resources.POD, name, TEAM)
    await people.settled(POOL, (1, 0, 0, 1))
    await people.pod("newcomer", TEAM, POOL)
    await people.running(TEAM, 1)
    await people.remove(resources.POD, "newcomer", TEAM)
    await people.settled(POOL, (1, 0, 0, 1))


async def test_others_come_first_when_it_was_not_placed_in_two_turns(one_card: People) -> None:
    """As with a volume, or CPU, that is nowhere, or a scheduler that nobody runs."""
    people = one_card
    began = time.time()
    await people.pod("stuck", TEAM, POOL, schedulerName="nobody")
    refused = 0

    async def gets_it() -> bool:
        nonlocal refused
        try:
            await people.pod("newcomer", TEAM, POOL)
        except ApiError as error:
            refused += names.INSUFFICIENT_CAPACITY in error.message
            return False
        return True

    await until(gets_it, "a newcomer to get the card")
    assert refused
    assert time.time() - began > 1.5 * TTL, "it had two turns"

    def turns() -> list[int]:
        return [one.turns for each in people.view.pools for one in each.status.passed_over or ()]

    await people.view.until(lambda: turns() == [2], PATIENCE, lambda: str(turns()))
    await people.running(TEAM, 1)

    # It keeps its place: when the card is free, and others have come first for long enough, it has it again.
    await people.remove(resources.POD, "newcomer", TEAM)
    await people.view.until(
        lambda: (reservation(people) or ("", 0))[0] == "stuck", PATIENCE, lambda: str(reservation(people))
    )
    await people.remove(resources.POD, "stuck", TEAM)
    await people.settled(POOL, (1, 0, 0, 1))
    await people.view.until(
        lambda: not any(each.status.passed_over for each in people.view.pools), PATIENCE, lambda: "who is gone is named"
    )


async def test_two_pods_that_cannot_be_placed_take_turns(one_card: People) -> None:
    people = one_card
    await people.pod("b-first", TEAM, POOL, **beside("nobody"))
    holders: list[str] = []

    def holds() -> str | None:
        if (found := reservation(people)) is not None and (not holders or holders[-1] != found[0]):
            holders.append(found[0])
        return holders[-1] if holders else None

    await people.view.until(lambda: holds() == "b-first", PATIENCE, lambda: str(holders))
    second = min(d.name for d in people.view.devices if d.status.node_name == "gpu-2" and d.status.pool_ref is None)
    await people.annotate(second, POOL)
    await people.offered(POOL, 2)
    await people.pod("a-second", TEAM, POOL, **beside("nobody"))
    await people.annotate(second, None)  # one card is left for the two of them
    await people.view.until(lambda: len(people.cards(POOL)) == 1, PATIENCE, lambda: str(people.cards(POOL)))

    holders.clear()
    await people.view.until(
        lambda: holds() is not None and len(holders) >= 4, PATIENCE, lambda: f"the card was held for {holders}"
    )
    assert set(holders) == {"a-second", "b-first"}
    for name in ("a-second", "b-first"):
        await people.remove(resources.POD, name, TEAM)
    await people.settled(POOL, (1, 0, 0, 1))
