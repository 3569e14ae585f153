"""Versions of nodes on a real API server: told once, changed with a roll-out, and no write while nothing changes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from controllers.api import resources
from controllers.api.software import ORDER
from sim.nodes import node_manifests
from tests.kit.waiting import at_rest

if TYPE_CHECKING:
    from tests.bootstrap.fleet import Fleet

pytestmark = pytest.mark.cluster
NODES = ("versions-1", "versions-2")
Told = dict[str, tuple[str, str | None]]


async def told(fleet: Fleet, node: str) -> Told:
    found = await fleet.plane.get(resources.GPUNODEINVENTORY, node) or {}
    software = found.get("status", {}).get("software", ())
    return {one["component"]: (one["running"], one.get("wanted")) for one in software}


async def until(fleet: Fleet, node: str, component: str, running: str, wanted: str) -> None:
    async def seen() -> bool:
        return (await told(fleet, node)).get(component) == (running, wanted)

    await fleet.until(seen, f"{component} {running} of {node}, where {wanted} is wanted")


async def revisions(fleet: Fleet) -> list[str]:
    """Which revision each node's inventory has: it changes with every write."""
    found = [await fleet.plane.get(resources.GPUNODEINVENTORY, node) or {} for node in NODES]
    return [one["metadata"]["resourceVersion"] for one in found]


async def test_versions_are_told_follow_a_roll_out_and_cost_a_quiet_fleet_nothing(fleet: Fleet) -> None:
    await fleet.nodes(*NODES)
    (machine,) = node_manifests(["a30-4"])
    info = machine["status"]["nodeInfo"]
    for node in NODES:
        await until(fleet, node, "toolkit", "v1.20.0", "v1.20.0")
        found = await told(fleet, node)
        assert [found[part] for part in ("kernel", "os", "runtime", "kubelet")] == [
            (info["kernelVersion"], None),
            (info["osImage"], None),
            (info["containerRuntimeVersion"], None),
            (info["kubeletVersion"], None),
        ]
        assert list(found) == [component for component in ORDER if component in found]
        assert {"driver", "cuda", "agent", "gfd", "dcgm", "dcgm-exporter", "driver-validator", "validator"} <= set(
            found
        )

    await at_rest(lambda: revisions(fleet), "the inventories")

    await fleet.configure(bootstrap={"gfd": {"version": "v0.21.0"}})
    for node in NODES:
        await until(fleet, node, "gfd", "v0.21.0", "v0.21.0")
    await at_rest(lambda: revisions(fleet), "the inventories")

    metrics = await fleet.metrics()
    for node in NODES:
        assert metrics[f'gpu_software_info{{component="gfd",node="{node}",version="v0.21.0"}}'] == 1
        assert f'gpu_software_info{{component="gfd",node="{node}",version="v0.20.0"}}' not in metrics
        assert f'gpu_software_skew{{component="gfd",node="{node}"}}' not in metrics

    await fleet.gone(*NODES)

    async def forgotten() -> bool:
        return not [name for name in await fleet.metrics() if name.startswith("gpu_software") and "versions-" in name]

    await fleet.until(forgotten, "no series of nodes that are gone")
