"""A roll-out of a driver goes on where its controller is killed, or a pod protects itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from controllers.api import names, resources
from sim.nodes.names import TAKES
from tests.kit.waiting import PATIENCE
from tests.slice.drivers import NEWER
from tests.slice.fleets import cluster, drivers, fleet

if TYPE_CHECKING:
    from tests.slice.drivers import Drivers

__all__ = ["cluster", "drivers"]
pytestmark = [pytest.mark.cluster]


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
