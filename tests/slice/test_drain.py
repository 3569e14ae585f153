"""Pods leave a node before its driver is replaced: as the budgets of a real API server let them, or by themselves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import orjson
import pytest

from controllers.api import names, resources
from controllers.api.resources import Resource
from sim.workload import gpu_pod
from tests.kit.waiting import PATIENCE
from tests.slice.drivers import NEWER
from tests.slice.fleets import cluster, drivers, fleet

if TYPE_CHECKING:
    from tests.slice.drivers import Drivers

__all__ = ["cluster", "drivers"]
pytestmark = [pytest.mark.cluster]
BUDGET: Final = Resource("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget", namespaced=True)
TEAM: Final = "drained"
DRAIN: Final[dict[str, Any]] = {
    "strategy": "Drain",
    "drain": {"waitFor": "1s", "timeout": "5m", "bare": "Evict"},
    "maxUnavailable": {"nodes": "100%", "perPool": "100%"},
}


async def run(drivers: Drivers, name: str, pool: str | None, **spec: Any) -> None:
    """A pod that the budget is about."""
    body = gpu_pod(name, pool, **spec)
    body["metadata"]["labels"] = {"app": "a"}
    await drivers.client.create(resources.POD, body, TEAM, manager="test")


async def pods(drivers: Drivers) -> dict[str, bool]:
    """The pods, and whether each has been told to end."""
    items = orjson.loads(await drivers.client.request("GET", resources.POD.path(TEAM)))["items"]
    return {one["metadata"]["name"]: "deletionTimestamp" in one["metadata"] for one in items}


@pytest.mark.slow("it takes its first turn at a budget that refuses, and starts the cluster where no file before has")
async def test_no_pod_of_a_node_is_evicted_before_the_budgets_of_all_allow_it(drivers: Drivers) -> None:
    (node,) = await fleet(drivers, 1, **DRAIN)
    people = drivers.people
    await people.namespace(TEAM)
    cards = sorted(one.name for one in drivers.view.devices if one.status.node_name == node)
    await people.filled("drained", cards[:2])
    for name in ("one", "two"):
        await run(drivers, name, "drained")
    await people.running(TEAM, 2)
    budget = {"metadata": {"name": "all"}, "spec": {"minAvailable": 2, "selector": {"matchLabels": {"app": "a"}}}}
    await drivers.client.create(BUDGET, budget, TEAM, manager="test")
    before = drivers.label(node)
    await drivers.change(version=NEWER)
    await drivers.works(node, "Draining", "EvictionRefused")

    assert await pods(drivers) == {"one": False, "two": False}
    assert drivers.label(node) == before
    await people.remove(BUDGET, "all", TEAM)
    await drivers.in_service([node], NEWER)
    assert await pods(drivers) == {}
    await people.retire("drained")


async def test_a_node_with_pods_by_resources_of_others_is_tainted_until_its_new_driver_serves(
    drivers: Drivers,
) -> None:
    (node,) = await fleet(drivers, 1)
    await drivers.people.namespace(TEAM)
    container = {"name": "main", "image": "i", "resources": {"limits": {"nvidia.com/gpu": "1"}}}
    spec = {"nodeName": node, "containers": [container], "tolerations": [{"operator": "Exists"}]}
    body = {"metadata": {"name": "foreign"}, "spec": spec}
    await drivers.client.create(resources.POD, body, TEAM, manager="test")
    await drivers.change(version=NEWER)
    await drivers.works(node, "Draining", "PodsRemain")

    def is_tainted() -> bool:
        return any(one.key == names.DRIVER_TAINT for one in drivers.node(node).spec.taints)

    await drivers.view.until(is_tainted, PATIENCE, drivers.told)
    assert await pods(drivers) == {"foreign": False}
    await drivers.people.remove(resources.POD, "foreign", TEAM)
    await drivers.in_service([node], NEWER)
    await drivers.view.until(lambda: not is_tainted(), PATIENCE, drivers.told)
