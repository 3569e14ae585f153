"""The ends of a reservation, with timers scaled down by the module's own settings."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from controllers.api import names, resources
from controllers.runtime.errors import ApiError, Forbidden
from tests.slice.people import People

pytestmark = pytest.mark.cluster
TEAM, POOL = "reserve", "reserve"


@pytest.fixture
async def two_cards(people: People) -> AsyncIterator[People]:
    """A pool of two cards, and reservations that end in seconds: late enough for the pool's status to tell of them."""
    await people.namespace(TEAM)
    await people.settings(admission={"unseenTTL": "6s", "reservationTTL": "8s"})
    cards = sorted(device.name for device in people.view.devices if device.status.node_name == "gpu-2")[:2]
    await people.filled(POOL, cards)
    yield people
    await people.retire(POOL)
    await people.no_settings()


async def test_a_pod_refused_after_us_frees_its_card(two_cards: People) -> None:
    people = two_cards
    quota = {"metadata": {"name": "none"}, "spec": {"hard": {f"requests.{names.resource_name(POOL)}": "0"}}}
    await people.client.request("POST", f"/api/v1/namespaces/{TEAM}/resourcequotas", body=quota)

    async def quota_counts() -> bytes:
        answer = await people.client.request("GET", f"/api/v1/namespaces/{TEAM}/resourcequotas/none")
        if b'"used"' not in answer:
            raise Forbidden(0, "", "the quota is not counted yet")
        return answer

    await people.eventually(quota_counts)

    assert "exceeded quota" in await people.refused("over", TEAM, POOL)
    await people.settled(POOL, (2, 0, 1, 1))  # reserved before the quota refused
    await people.settled(POOL, (2, 0, 0, 2))

    await people.told(names.EVENT_RESERVATION_EXPIRED, "never appeared")
    await people.client.request("DELETE", f"/api/v1/namespaces/{TEAM}/resourcequotas/none")


async def test_a_pod_that_is_not_bound_in_time_loses_its_card_and_waits(two_cards: People) -> None:
    people = two_cards
    await people.pod("stuck", TEAM, POOL, schedulerName="nobody")
    await people.settled(POOL, (2, 0, 1, 1))
    assert people.cards(POOL)[0].status.state == "Reserved" or people.cards(POOL)[1].status.state == "Reserved"

    await people.settled(POOL, (2, 0, 0, 2))  # after two turns, if not between them

    await people.told(names.EVENT_RESERVATION_EXPIRED, "not bound in time")
    await people.client.request("DELETE", f"/api/v1/namespaces/{TEAM}/pods/stuck", body={"gracePeriodSeconds": 0})


async def test_a_pod_behind_a_gate_holds_no_card(two_cards: People) -> None:
    """Whose gate it is does not matter: Kueue's webhook adds its own after ours was asked."""
    people = two_cards
    await people.pod("gated", TEAM, POOL, schedulingGates=[{"name": "kueue.x-k8s.io/admission"}])
    await people.settled(POOL, (2, 0, 0, 2))
    await people.pod("two", TEAM, POOL, 2)
    await people.running(TEAM, 1)
    await people.client.merge(
        resources.POD, "gated", {"spec": {"schedulingGates": None}}, manager="test", namespace=TEAM
    )
    await people.remove(resources.POD, "two", TEAM)
    await people.running(TEAM, 1)
    await people.settled(POOL, (2, 1, 0, 1))
    await people.remove(resources.POD, "gated", TEAM)
    await people.settled(POOL, (2, 0, 0, 2))


async def test_a_pod_of_two_cards_gets_both_or_none(two_cards: People) -> None:
    people = two_cards
    assert "InsufficientCapacity" in await people.refused("three", TEAM, POOL, 3)
    assert all(not card.status.reservations for card in people.cards(POOL))

    await people.pod("two", TEAM, POOL, 2)
    await people.running(TEAM, 1)
    await people.settled(POOL, (2, 2, 0, 0))

    await people.client.request("DELETE", f"/api/v1/namespaces/{TEAM}/pods/two", body={"gracePeriodSeconds": 0})
    await people.settled(POOL, (2, 0, 0, 2))


async def test_invalid_settings_are_refused_and_the_last_good_ones_stay(two_cards: People) -> None:
    people = two_cards
    with pytest.raises(ApiError, match=r"denied the request: Invalid: .*admission.unseenTTL: 'soon' is not a duration"):
        await people.settings(admission={"unseenTTL": "soon"})

    await people.pod("still", TEAM, POOL)  # served with the settings before
    await people.running(TEAM, 1)
    await people.client.request("DELETE", f"/api/v1/namespaces/{TEAM}/pods/still", body={"gracePeriodSeconds": 0})
    await people.settled(POOL, (2, 0, 0, 2))
