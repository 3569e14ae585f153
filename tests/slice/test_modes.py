"""Cards that pods share, and pools that change their mode, under the real scheduler."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any
from uuid import uuid4

import pytest

from controllers.api import conditions as kinds
from controllers.api import names, resources
from controllers.domain import mig
from controllers.domain.request import pool_of, suffix_for
from controllers.runtime.errors import ApiError
from sim.nodes import names as sim
from tests.kit.waiting import PATIENCE
from tests.slice.people import People

pytestmark = pytest.mark.cluster
TEAM = "modes"
SHARED = {"mode": "TimeSlice", "timeSlice": {"maxSlicesPerDevice": 4}}


def cards_of(people: People, node: str) -> list[str]:
    return sorted(device.name for device in people.view.devices if device.status.node_name == node)


async def ask(people: People, pool: str, allocation: dict[str, Any]) -> None:
    """The administrator changes the mode; blocks of the old one go."""
    empty = {"timeSlice": None, "mps": None, "migProfile": None, "maxDevicesPerNode": None}
    await people.client.merge(resources.GPUPOOL, pool, {"spec": {"allocation": empty | allocation}}, manager="test")


async def befall(people: People, node: str, fault: str | None) -> None:
    """Let a node have a fault, or none."""
    body = {"metadata": {"annotations": {sim.FAULT: fault}}}
    await people.client.merge(resources.NODE, node, body, manager="test")


def condition(people: People, pool: str, kind: str = kinds.MAINTENANCE) -> tuple[str, str, str]:
    found = people.view.pools.get(pool)
    made = kinds.find(found.status.conditions, kind) if found else None
    return (made.status, made.reason, made.message) if made else ("", "", "")


def applied(people: People, pool: str) -> str | None:
    found = people.view.pools.get(pool)
    return found.status.applied_allocation.mode if found and found.status.applied_allocation else None


def asked_to_resume(people: People, pool: str) -> bool:
    found = people.view.pools.get(pool)
    return found is not None and names.RESUME in found.metadata.annotations


async def until(people: People, pool: str, status: str, reason: str) -> None:
    await people.view.until(
        lambda: condition(people, pool)[:2] == (status, reason), PATIENCE, lambda: str(condition(people, pool))
    )


async def refused_for(people: People, pool: str, word: str) -> None:
    """A pod that asks for the pool is refused, and soon for that reason: the webhook sees the pool after us."""
    said: list[str] = []

    async def told() -> bool:
        said.append(await people.refused("refused", TEAM, pool))
        return word in said[-1]

    async with asyncio.timeout(PATIENCE):
        while not await told():
            assert "InsufficientCapacity" in said[-1]
            await asyncio.sleep(0.05)


async def admitted_soon(people: People, name: str, pool: str) -> None:
    """A pod is admitted once the webhook, which sees the pool after us, has seen it; till then it says what it saw."""
    async with asyncio.timeout(PATIENCE):
        while True:
            try:
                await people.pod(name, TEAM, pool)
            except ApiError as error:
                if not any(reason in error.message for reason in ("PoolInMaintenance", "InsufficientCapacity")):
                    raise
                await asyncio.sleep(0.05)
            else:
                return


async def gone(people: People) -> None:
    """No pod of the team is left."""
    for pod in people.pods(TEAM):
        await people.remove(resources.POD, pod.name, TEAM)
    await people.view.until(lambda: not people.pods(TEAM), PATIENCE, lambda: str([p.name for p in people.pods(TEAM)]))


@pytest.fixture
async def modes(people: People) -> AsyncIterator[People]:
    """A team whose pods are gone afterwards."""
    await people.namespace(TEAM)
    yield people
    await gone(people)


async def shared(people: People, pool: str, cards: list[str], slots: int) -> None:
    await people.pool(pool, allocation={"mode": "TimeSlice", "timeSlice": {"maxSlicesPerDevice": slots}})
    for card in cards:
        await people.annotate(card, pool)
    await people.offered(pool, slots * len(cards))


async def one_card(people: People, pool: str) -> tuple[str, mig.MigCard]:
    """A new pool with one card that can be divided: its name, and what it offers."""
    (name,) = cards_of(people, "gpu-1")[:1]
    await people.filled(pool, [name])
    device = people.view.devices.get(name)
    card = mig.card_of(device) if device is not None else None
    assert card is not None
    return name, card


async def divided(people: People, pool: str) -> tuple[str, int]:
    """A new pool with one card, divided into several slots: the card's name, and how many."""
    name, card = await one_card(people, pool)
    profile = next(each for each in card.offered if mig.slots_of(card, each).count > 1)
    count = mig.slots_of(card, profile).count
    await ask(people, pool, {"mode": "MIG", "migProfile": profile})
    await people.offered(pool, count)
    return name, count


async def test_four_pods_share_a_card(modes: People) -> None:
    people, pool = modes, "share"
    await shared(people, pool, cards_of(people, "gpu-1")[:1], 4)

    await asyncio.gather(*(people.pod(f"p{n}", TEAM, pool) for n in range(4)))
    assert "InsufficientCapacity" in await people.refused("fifth", TEAM, pool)
    await people.running(TEAM, 4)

    await people.settled(pool, (4, 4, 0, 0))

    def holders() -> list[str]:
        (card,) = people.cards(pool)
        return sorted(taken.pod for taken in card.status.allocations)

    # A bound pod counts before its node reports it.
    await people.view.until(lambda: holders() == ["p0", "p1", "p2", "p3"], PATIENCE, lambda: str(holders()))
    found = people.view.pools.get(pool)
    assert found is not None
    assert found.status.capacity is not None
    assert found.status.capacity.unit == "timeslice"
    assert [(node.slots, node.used) for node in found.status.nodes] == [(4, 4)]

    await people.remove(resources.POD, "p0", TEAM)
    await people.settled(pool, (4, 3, 0, 1))
    await gone(people)
    await people.retire(pool)


async def test_thirty_pods_that_come_at_once_share_a_card(modes: People) -> None:
    people, pool = modes, "crowd"
    await shared(people, pool, cards_of(people, "gpu-1")[:1], 30)

    # Who is refused since a replica lost every race for the card for three seconds comes again, as controllers do.
    comes = (people.eventually(lambda n=n: people.pod(f"p{n}", TEAM, pool)) for n in range(30))
    await asyncio.gather(*comes)
    await people.running(TEAM, 30)
    await people.settled(pool, (30, 30, 0, 0))

    await gone(people)
    await people.settled(pool, (30, 0, 0, 30))
    await people.retire(pool)


async def test_slots_of_one_pod_over_two_cards_come_all_or_not_at_all(modes: People) -> None:
    people, pool = modes, "spread"
    await shared(people, pool, cards_of(people, "gpu-1")[:2], 2)

    await people.pod("three", TEAM, pool, 3)
    assert "InsufficientCapacity" in await people.refused("two", TEAM, pool, 2)
    await people.running(TEAM, 1)
    await people.settled(pool, (4, 3, 0, 1))

    def reported() -> list[int]:
        return sorted(sum(t.slots for t in card.status.allocations) for card in people.cards(pool))

    # Cards are reported one by one, and a bound pod counts before that.
    await people.view.until(lambda: reported() == [1, 2], PATIENCE, lambda: str(reported()))
    assert not any(card.status.reservations for card in people.cards(pool))

    await gone(people)
    await people.retire(pool)


async def test_a_pool_changes_its_mode_when_its_pod_has_ended_and_changes_back(modes: People) -> None:
    people, pool = modes, "change"
    await people.filled(pool, cards_of(people, "gpu-1")[:2])
    await people.pod("runs", TEAM, pool)
    await people.running(TEAM, 1)
    await people.settled(pool, (2, 1, 0, 1))

    await ask(people, pool, SHARED)
    await until(people, pool, "True", "WaitingForPods")
    assert "are promised some (1)." in condition(people, pool)[2]
    assert TEAM not in condition(people, pool)[2]
    await refused_for(people, pool, names.POOL_IN_MAINTENANCE)
    await people.view.until(
        lambda: not any(card.status.published for card in people.cards(pool)),
        PATIENCE,
        lambda: "cards are still offered",
    )
    assert applied(people, pool) == "Exclusive"
    assert [pod.ready for pod in people.pods(TEAM)] == [True]

    await people.remove(resources.POD, "runs", TEAM)
    await people.offered(pool, 8)
    await until(people, pool, "False", "AsExpected")
    assert applied(people, pool) == "TimeSlice"
    found = people.view.pools.get(pool)
    assert found is not None
    assert found.status.last_reconfigured is not None
    await people.told(names.EVENT_RECONFIGURED, about=pool)
    await asyncio.gather(*(people.pod(f"p{n}", TEAM, pool) for n in range(4)))
    await people.running(TEAM, 4)

    await ask(people, pool, {"mode": "Exclusive"})
    await until(people, pool, "True", "WaitingForPods")
    await gone(people)
    await people.offered(pool, 2)
    await until(people, pool, "False", "AsExpected")
    await people.settled(pool, (2, 0, 0, 2))
    await people.retire(pool)


def offers(people: People, pool: str) -> dict[str, int]:
    """What the Nodes show of a pool's resources, by what stands behind the prefix, where it is not nothing."""
    found: dict[str, int] = {}
    for node in people.view.nodes:
        for key, count in node.status.allocatable.items():
            suffix = key.removeprefix(names.PREFIX)
            if key.startswith(names.PREFIX) and pool_of(suffix) == pool and int(count):
                found[suffix] = found.get(suffix, 0) + int(count)
    return found


async def test_pods_get_instances_of_the_profile_that_they_ask_for(modes: People) -> None:
    people, pool = modes, "mixed"
    _, card = await one_card(people, pool)
    by_count = sorted(card.offered, key=lambda each: mig.slots_of(card, each).count)
    small = by_count[-1]
    large = next(
        each
        for each in by_count
        if isinstance(mig.divide(card, mig.mixed([(small, 2), (each, 1)])), mig.CardLayout) and each != small
    )
    layout = [{"profile": small, "count": 2}, {"profile": large, "count": 1}]
    two, one = suffix_for(pool, small), suffix_for(pool, large)

    await ask(people, pool, {"mode": "MIG", "migLayout": layout})
    await people.view.until(
        lambda: offers(people, pool) == {two: 2, one: 1}, PATIENCE, lambda: str(offers(people, pool))
    )
    await people.settled(pool, (3, 0, 0, 3))
    assert f"GPUPool {pool} has no resource" in await people.refused("plain", TEAM, pool)

    for name, suffix in (("s1", two), ("l1", one), ("s2", two)):
        await people.pod(name, TEAM, suffix)
    await people.running(TEAM, 3)
    await people.settled(pool, (3, 3, 0, 0))

    def holders() -> list[tuple[str, str | None]]:
        (found,) = people.cards(pool)
        return sorted((taken.pod, taken.profile) for taken in found.status.allocations)

    expected = [("l1", large), ("s1", small), ("s2", small)]
    await people.view.until(lambda: holders() == expected, PATIENCE, lambda: str(holders()))
    assert "InsufficientCapacity" in await people.refused("l2", TEAM, one)
    await people.remove(resources.POD, "s1", TEAM)
    await people.settled(pool, (3, 2, 0, 1))
    assert "InsufficientCapacity" in await people.refused("l2", TEAM, one), "what is free is of another profile"

    await gone(people)
    await ask(people, pool, {"mode": "Exclusive", "migLayout": None})
    await people.offered(pool, 1)
    await people.retire(pool)


async def test_a_change_that_is_taken_back_costs_nobody_anything(modes: People) -> None:
    people, pool = modes, "back"
    await people.filled(pool, cards_of(people, "gpu-1")[:2])
    await people.pod("runs", TEAM, pool)
    await people.running(TEAM, 1)

    await ask(people, pool, SHARED)
    await until(people, pool, "True", "WaitingForPods")
    await ask(people, pool, {"mode": "Exclusive"})
    await until(people, pool, "False", "AsExpected")
    await people.offered(pool, 2)
    await people.settled(pool, (2, 1, 0, 1))
    await admitted_soon(people, "next", pool)
    await people.running(TEAM, 2)
    found = people.view.pools.get(pool)
    assert found is not None
    assert found.status.last_reconfigured is None

    await gone(people)
    await people.retire(pool)


async def test_a_controller_that_is_killed_in_the_middle_goes_on(modes: People) -> None:
    people, pool = modes, "killed"
    await people.filled(pool, cards_of(people, "gpu-1")[:1])
    await people.pod("runs", TEAM, pool)
    await people.running(TEAM, 1)

    await ask(people, pool, SHARED)
    restarts = people.kill(names.POOL_CONTROLLER)
    await people.back(names.POOL_CONTROLLER, restarts)
    await until(people, pool, "True", "WaitingForPods")
    restarts = people.kill(names.POOL_CONTROLLER)
    await people.remove(resources.POD, "runs", TEAM)
    await people.back(names.POOL_CONTROLLER, restarts)

    await people.offered(pool, 4)
    await until(people, pool, "False", "AsExpected")
    await people.pod("next", TEAM, pool)
    await people.running(TEAM, 1)
    await gone(people)
    await people.retire(pool)


async def test_a_profile_that_the_cards_do_not_hold_refuses_pods_and_hurts_nobody(modes: People) -> None:
    people, pool = modes, "unserved"
    await people.filled(pool, cards_of(people, "gpu-1")[:1])
    await people.pod("runs", TEAM, pool)
    await people.running(TEAM, 1)

    with pytest.raises(ApiError, match=names.INVALID_MIG_PROFILE):
        await ask(people, pool, {"mode": "MIG", "migProfile": "7g.141gb"})
    await people.settled(pool, (1, 1, 0, 0))
    await gone(people)
    await people.retire(pool)


async def test_a_new_pool_whose_profile_no_card_holds_says_so_where_everybody_looks(modes: People) -> None:
    people, pool = modes, "unheld"
    made = {"allocation": {"mode": "MIG", "migProfile": "7g.141gb"}}
    await people.pool(pool, **made, nodeSelector={"matchLabels": {names.LABEL_HOSTNAME: "gpu-1"}})
    await people.view.until(
        lambda: condition(people, pool, kinds.MISCONFIGURED)[:2] == ("True", names.INVALID_MIG_PROFILE),
        PATIENCE,
        lambda: str(condition(people, pool, kinds.MISCONFIGURED)),
    )
    await people.told(names.EVENT_MISCONFIGURED, "7g.141gb", about=pool)
    await refused_for(people, pool, names.POOL_MISCONFIGURED)
    await ask(people, pool, {"mode": "Exclusive"})
    await people.view.until(
        lambda: condition(people, pool, kinds.MISCONFIGURED)[:2] == ("False", "AsExpected"),
        PATIENCE,
        lambda: str(condition(people, pool, kinds.MISCONFIGURED)),
    )
    await people.retire(pool)


async def test_a_layout_that_fails_refuses_pods_until_somebody_mends_it(modes: People) -> None:
    people, pool = modes, "unserved"
    _, card = await one_card(people, pool)
    await befall(people, "gpu-1", f"mig-fails:{card.address}")
    await ask(people, pool, {"mode": "MIG", "migProfile": card.offered[0]})
    await until(people, pool, "True", "LayoutFailed")
    await refused_for(people, pool, names.POOL_MISCONFIGURED)

    await befall(people, "gpu-1", None)
    await ask(people, pool, {"mode": "Exclusive"})
    await until(people, pool, "False", "AsExpected")
    resume = {"metadata": {"annotations": {names.RESUME: "true"}}}
    await people.client.merge(resources.GPUPOOL, pool, resume, manager="test")
    await people.view.until(lambda: not asked_to_resume(people, pool), PATIENCE, lambda: "the annotation stays")
    await people.offered(pool, 1)
    await people.retire(pool)


async def test_a_pool_is_divided_by_mig_and_goes_back(modes: People) -> None:
    people, pool = modes, "divided"
    name, count = await divided(people, pool)
    await until(people, pool, "False", "AsExpected")
    for number in range(2):  # the webhook hears later than we that the cards are offered
        await people.eventually(lambda number=number: people.pod(f"part-{number}", TEAM, pool))
    await people.running(TEAM, 2)
    await people.settled(pool, (count, 2, 0, count - 2))

    await ask(people, pool, {"mode": "Exclusive"})
    await until(people, pool, "True", "WaitingForPods")
    await gone(people)
    await people.offered(pool, 1)
    await until(people, pool, "False", "AsExpected")
    await people.retire(pool)
    found = people.view.devices.get(name)
    after = mig.card_of(found) if found is not None else None
    assert after is not None
    assert after.actual == mig.DISABLED


async def test_after_a_reboot_pods_get_instances_again_without_a_person(modes: People) -> None:
    people, pool = modes, "rebooted"
    name, count = await divided(people, pool)
    await people.pod("before", TEAM, pool)
    await people.running(TEAM, 1)

    await gone(people)  # with the machine
    boot = str(uuid4())
    await people.client.merge(resources.NODE, "gpu-1", {"metadata": {"annotations": {sim.MIG: None}}}, manager="test")
    started = {"status": {"nodeInfo": {"bootID": boot}}}
    await people.client.merge(resources.NODE, "gpu-1", started, manager="test", subresource="status")

    def divided_since() -> bool:
        found = people.view.devices.get(name)
        told = found.status.mig_apply if found is not None else None
        return told is not None and (told.phase, told.boot_id) == ("Done", boot)

    await people.view.until(divided_since, PATIENCE, lambda: str(people.view.devices.get(name)))
    await people.offered(pool, count)
    await until(people, pool, "False", "AsExpected")
    await people.pod("after", TEAM, pool)
    await people.running(TEAM, 1)
    await gone(people)
    await people.retire(pool)


async def test_clients_of_mps_share_a_card_whose_daemon_dies_and_comes_back(modes: People) -> None:
    people, pool = modes, "mps"
    (name,) = cards_of(people, "gpu-1")[:1]
    await people.pool(pool, allocation={"mode": "MPS", "mps": {"clients": 4}})
    await people.annotate(name, pool)
    await people.offered(pool, 4)

    def daemon() -> str | None:
        found = people.view.devices.get(name)
        return found.status.mps.phase if found is not None and found.status.mps is not None else None

    assert daemon() == "Ready"
    # One after the other: a team of which a pod was lost of late may have one reservation without its pod at a time.
    for number in range(2):
        await people.pod(f"p{number}", TEAM, pool)
        await people.running(TEAM, number + 1)
    assert "one client of one card" in await people.refused("two", TEAM, pool, 2)

    found = people.view.devices.get(name)
    assert found is not None
    assert found.status.hardware is not None
    await befall(people, "gpu-1", f"mps-dies:{found.status.hardware.pci.address}")

    def why() -> str:
        card = people.view.devices.get(name)
        said = kinds.find(card.status.conditions, kinds.CONFIGURED) if card is not None else None
        return said.reason if said is not None else ""

    await people.view.until(lambda: why() == names.MPS_DOWN, PATIENCE, why)
    await people.settled(pool, (4, 2, 0, 0))
    await befall(people, "gpu-1", None)
    await people.settled(pool, (4, 2, 0, 2))
    assert [pod.ready for pod in people.pods(TEAM)] == [True, True]

    await ask(people, pool, {"mode": "Exclusive"})
    await until(people, pool, "True", "WaitingForPods")
    assert daemon() == "Ready"
    await gone(people)
    await people.offered(pool, 1)
    await people.view.until(lambda: daemon() is None, PATIENCE, lambda: str(daemon()))
    node = people.view.nodes.get("gpu-1")
    assert node is not None
    assert sim.MPS not in node.metadata.annotations
    await people.retire(pool)
