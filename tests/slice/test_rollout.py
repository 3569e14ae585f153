"""A new version of a driver comes onto nodes that have one: in waves, beside pods, and back where it fails."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from controllers.api import names, resources
from controllers.api.conditions import READY_FOR_POOLING, is_true
from controllers.domain.driver.variant import revision_of
from tests.kit.waiting import PATIENCE, until
from tests.slice.drivers import NEWER, WANTED
from tests.slice.fleets import cluster, drivers, fleet, out_of_service

if TYPE_CHECKING:
    from tests.slice.drivers import Drivers

__all__ = ["cluster", "drivers"]
pytestmark = [pytest.mark.cluster]


@pytest.mark.slow("four nodes get two drivers each, two at once")
async def test_a_new_version_comes_onto_every_node_and_at_most_half_are_out_at_once(drivers: Drivers) -> None:
    nodes = await fleet(drivers, 4)
    most: list[int] = []
    waves: dict[str, int] = {}

    def looks() -> bool:
        most.append(len(out_of_service(drivers)))
        for node in nodes:
            if (work := drivers.work(node)) is not None and work.wave is not None:
                waves[node] = work.wave
        return all(drivers.serves(node, NEWER) for node in nodes)

    await drivers.change(version=NEWER)
    await drivers.view.until(looks, PATIENCE, drivers.told)

    assert max(most) <= 2
    assert sorted(waves.values()) == [0, 1, 2, 2]
    labels = {drivers.label(node) for node in nodes}
    assert len(labels) == 1
    await drivers.says("Ready", "True")
    assert {node.spec.unschedulable for node in drivers.view.nodes} == {False}


async def test_a_pod_keeps_its_card_and_its_driver_until_it_ends(drivers: Drivers) -> None:
    (node,) = await fleet(drivers, 1)
    people = drivers.people
    await people.namespace("rollout")
    cards = sorted(one.name for one in drivers.view.devices if one.status.node_name == node)
    await people.filled("rolled", cards[:2])
    await people.pod("one", "rollout", "rolled")
    await people.running("rollout", 1)
    before = drivers.label(node)
    await drivers.change(version=NEWER)
    await drivers.works(node, "Withdrawing")
    await drivers.view.until(lambda: drivers.ready(node)[0] != "True", PATIENCE, drivers.told)
    await drivers.works(node, "Draining")

    assert drivers.label(node) == before
    assert all(pod.ready for pod in drivers.pods(node))
    await people.remove(resources.POD, "one", "rollout")
    await drivers.in_service([node], NEWER)
    await people.retire("rolled")


@pytest.mark.slow("three nodes get a driver, and one of them two more")
async def test_a_version_that_fails_is_taken_back_from_its_canary_and_comes_to_no_other(drivers: Drivers) -> None:
    nodes = await fleet(drivers, 3)
    for node in nodes:
        await drivers.breaks(node, f"driver@{NEWER}=insmod-fails")
    before = {node: drivers.label(node) for node in nodes}
    await drivers.change(version=NEWER)
    await drivers.says("Halted", "True", "UnknownSymbol")
    await until(lambda: not out_of_service(drivers), "the canary to come back")

    back = [node for node in nodes if (work := drivers.work(node)) is not None and work.phase == "RolledBack"]
    assert len(back) == 1
    assert {node: drivers.label(node) for node in nodes} == before
    for node in nodes:
        found = drivers.inventory(node)
        assert found is not None
        assert is_true(found.status.conditions, READY_FOR_POOLING)
        assert found.status.driver is not None
        assert found.status.driver.version == WANTED


@pytest.mark.slow("three drivers come one after the other")
async def test_a_card_that_fails_under_the_new_version_has_it_taken_back(drivers: Drivers) -> None:
    (node,) = await fleet(drivers, 1, canary={"soak": "1h", "evidence": "None"})
    await drivers.breaks(node, f"driver@{NEWER}=xid-after-10-s")
    await drivers.change(version=NEWER)
    await drivers.says("Halted", "True", "Xid")
    await drivers.works(node, "RolledBack")

    found = drivers.inventory(node)
    assert found is not None
    assert found.status.driver is not None
    assert found.status.driver.version == WANTED


@pytest.mark.slow("two nodes get two drivers each, beside pods")
async def test_a_pause_gives_nodes_back_and_an_end_of_it_goes_on(drivers: Drivers) -> None:
    nodes = await fleet(drivers, 2)
    people = drivers.people
    await people.namespace("rollout")
    cards = sorted(one.name for one in drivers.view.devices if one.status.node_name in nodes)
    await people.filled("paused", cards)
    for number in range(2):
        await people.pod(f"p-{number}", "rollout", "paused")
    await people.running("rollout", 2)
    await drivers.change(version=NEWER)
    await drivers.view.until(lambda: bool(out_of_service(drivers)), PATIENCE, drivers.told)
    await drivers.change(rollout={"paused": True})
    await drivers.view.until(lambda: not out_of_service(drivers), PATIENCE, drivers.told)
    await drivers.view.until(lambda: all(drivers.ready(node)[0] == "True" for node in nodes), PATIENCE, drivers.told)
    await drivers.change(rollout={"paused": False})
    await drivers.view.until(lambda: bool(out_of_service(drivers)), PATIENCE, drivers.told)
    for number in range(2):
        await people.remove(resources.POD, f"p-{number}", "rollout")
    await drivers.in_service(nodes, NEWER)
    await people.retire("paused")


@pytest.mark.slow("three nodes get two drivers each, one by one")
async def test_another_version_in_the_middle_is_the_one_that_all_get(drivers: Drivers) -> None:
    nodes = await fleet(drivers, 3)
    await drivers.change(version=NEWER)
    await drivers.view.until(lambda: bool(out_of_service(drivers)), PATIENCE, drivers.told)
    await drivers.change(version="610.57.04")
    await drivers.in_service(nodes, "610.57.04")

    driver = drivers.found()
    assert driver is not None
    assert {revision_of(drivers.label(node) or "") for node in nodes} == {driver.status.target}
    assert not [node for node in drivers.view.nodes if names.DRIVER_TAINT in {one.key for one in node.spec.taints}]
