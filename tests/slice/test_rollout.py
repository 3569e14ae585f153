"""A new version of a driver comes onto nodes that have one: in waves, beside pods, and back where it fails."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pytest

from controllers.api import names, resources
from controllers.api.conditions import READY_FOR_POOLING, is_true
from controllers.domain.driver.variant import revision_of
from sim.cluster import Options
from sim.nodes.leaving import remove_node
from sim.nodes.names import TAKES
from tests.kit import planes
from tests.kit.waiting import PATIENCE, until
from tests.slice.drivers import BARE, NEWER, WANTED, Drivers
from tests.slice.people import People

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from sim.controlplane import ControlPlane
    from sim.view import View
    from tests.kit.worker_plane import WorkerPlane

pytestmark = [pytest.mark.cluster]
ROLLOUT: Final[dict[str, Any]] = {
    "canary": {"soak": "1s", "evidence": "None"},
    "waveSoak": "1s",
    "waves": [50, 100],
    "maxUnavailable": {"nodes": "50%", "perPool": "50%"},
}


@pytest.fixture(scope="module")
def cluster(worker_plane: WorkerPlane) -> ControlPlane:
    """A cluster whose module brings drivers, without nodes; files share it."""
    return worker_plane.take(
        "drivers", lambda folder: planes.module(folder, Options(nodes=0, driver=True, timers=planes.TIMERS))
    )


@pytest.fixture
async def drivers(cluster: ControlPlane, view: View, request: pytest.FixtureRequest) -> AsyncIterator[Drivers]:
    """Verbs of one test; what it leaves goes, so that the next one's GPUDrivers meet nothing of it."""
    word = request.node.name.removeprefix("test_").partition("[")[0].replace("_", "-")[:30].rstrip("-")
    made = Drivers(People(cluster, view), f"{word}-{abs(hash(request.node.name)) % 10000}")
    yield made
    for driver in [driver.name for driver in view.drivers]:
        await made.client.request("DELETE", resources.GPUDRIVER.path(None, driver))
    for node in [node.name for node in view.nodes]:
        await remove_node(made.client, node)
    await view.until(lambda: not [*view.drivers, *view.inventories], PATIENCE, made.told)


async def fleet(drivers: Drivers, number: int, **rollout: Any) -> list[str]:
    """Nodes that serve with the first version."""
    nodes = await drivers.nodes(*[BARE] * number)
    await drivers.driver(rollout=ROLLOUT | rollout)
    await drivers.in_service(nodes)
    return nodes


def out_of_service(drivers: Drivers) -> list[str]:
    """Nodes that are out of service for their driver's sake."""
    found = drivers.view.inventories
    return [one.name for one in found if (work := one.status.driver_work) is not None and work.out_since is not None]


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


@pytest.mark.slow("a driver fails, and another one is installed")
async def test_a_driver_that_failed_on_a_new_node_makes_way_for_another_version(drivers: Drivers) -> None:
    (node,) = await drivers.nodes(fault=f"driver@{WANTED}=cuda802")
    await drivers.driver(rollout=ROLLOUT)
    await drivers.works(node, "Failed")
    assert all(pod.ready for pod in drivers.pods(node)), "it holds the devices open as long as it runs"
    await drivers.change(version=NEWER)
    await drivers.in_service([node], NEWER)


@pytest.mark.slow("a controller is started four times")
async def test_a_controller_that_is_killed_in_any_phase_goes_on_from_there(drivers: Drivers) -> None:
    nodes = await fleet(drivers, 2, waves=[100])
    people = drivers.people
    for node in nodes:
        await drivers.mark(node, TAKES, "pull=0,look=0,prepare=1,install=3")
    await drivers.change(version=NEWER)
    for phase in ("Withdrawing", "Removing", "Installing", "Validating"):
        await drivers.view.until(lambda phase=phase: phase in phases(drivers), PATIENCE, drivers.told)  # type: ignore[misc]
        restarts = people.kill(names.DRIVER_CONTROLLER)
        await people.back(names.DRIVER_CONTROLLER, restarts)
    await drivers.in_service(nodes, NEWER)
    assert all(len(drivers.pods(node)) == 1 for node in nodes)
    assert len({drivers.label(node) for node in nodes}) == 1


def phases(drivers: Drivers) -> set[str]:
    """Phases in which nodes are now."""
    return {work.phase for one in drivers.view.inventories if (work := one.status.driver_work) is not None}


async def test_pods_are_evicted_where_the_strategy_says_so_and_who_protects_itself_is_waited_for(
    drivers: Drivers,
) -> None:
    drain = {"waitFor": "1s", "timeout": "10m", "bare": "Evict"}
    (node,) = await fleet(drivers, 1, strategy="Drain", drain=drain)
    people = drivers.people
    await people.namespace("drained")
    cards = sorted(one.name for one in drivers.view.devices if one.status.node_name == node)
    await people.filled("drained", cards[:2])
    for name in ("one", "two"):
        await people.pod(name, "drained", "drained")
    await people.running("drained", 2)
    await protect(drivers, "two", "true")
    before = drivers.label(node)
    await drivers.change(version=NEWER)
    message = await drivers.works(node, "Draining", "PodsProtected")
    assert "drained/two" in message
    assert drivers.label(node) == before
    await people.running("drained", 2)  # of a node that is left by half of its pods nobody has anything
    await protect(drivers, "two", None)
    await drivers.in_service([node], NEWER)
    await people.retire("drained")


async def protect(drivers: Drivers, pod: str, value: str | None) -> None:
    """Say of a pod that it must not be disturbed, or take that back."""
    body = {"metadata": {"annotations": {names.DO_NOT_DISRUPT: value}}}
    await drivers.client.merge(resources.POD, pod, body, namespace="drained", manager="test")
