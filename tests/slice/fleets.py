"""Clusters whose module brings drivers, and fleets on them: what stories of drivers have in common."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pytest

from controllers.api import resources
from sim.cluster import Options
from sim.nodes.leaving import remove_node
from tests.kit import planes
from tests.kit.waiting import PATIENCE
from tests.slice.drivers import BARE, Drivers
from tests.slice.people import People

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from sim.controlplane import ControlPlane
    from sim.view import View
    from tests.kit.worker_plane import WorkerPlane

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
