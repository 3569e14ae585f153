"""All dumps at once: one cluster, a node for each, the real process, a real API server."""

from __future__ import annotations

import json
import re
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest

from controllers.api import names, resources
from tests.data import facts
from tests.golden import node, outcome, table
from tests.golden.given import given
from tests.inventory.plane import Plane
from tests.kit.reports import reported

if TYPE_CHECKING:
    from pathlib import Path

    from tests.data.told import Told
    from tests.golden.table import Expected

pytestmark = pytest.mark.cluster
MODULE = "controllers.inventory"
# A table of 1,213 equal nodes says no more than its first few.
OF_ONE_DUMP = 8


def expected_nodes() -> list[tuple[Told, Expected]]:
    """Every node with what is expected of it."""
    found = []
    for expected in table.expectations():
        nodes = [given(told, expected.given) for told in facts.nodes(expected.file)]
        mine = [told for told in nodes if not expected.node or told.name == expected.node]
        found += [(told, expected) for told in mine[:OF_ONE_DUMP]]
    assert len({told.node_name for told, _ in found}) == len(found)
    return found


async def put(plane: Plane, told: Told, *, labelled: bool) -> None:
    """What the kubelet, NFD and the agent of a node would write."""
    name = told.node_name
    made = node.node(told, name, labelled=labelled)
    await plane.node(name)  # every field of nodeInfo that the server asks for
    await plane.put(resources.NODE, {"metadata": made["metadata"]})
    await plane.status(resources.NODE, name, {"nodeInfo": {"bootID": made["status"]["nodeInfo"]["bootID"]}})
    report = node.agent_report(told, name)
    for one in [*node.reports(told, name), *([report] if report else [])]:
        meta = {key: one["metadata"][key] for key in ("name", "namespace", "labels")}
        await plane.put(
            resources.NODEFEATURE, {"metadata": {**meta, "namespace": names.NAMESPACE}, "spec": one["spec"]}
        )


async def looked_at(plane: Plane, sentinel: str) -> None:
    """Wait until the process has come past everything that is there: a node that is added now is on record."""
    await plane.node(sentinel)
    await plane.report(sentinel, [reported(0)])
    await complete(plane, sentinel)


async def complete(plane: Plane, name: str) -> None:
    """Wait until a node's cards are on record."""

    async def told() -> bool:
        found = await plane.condition(resources.GPUNODEINVENTORY, name, "InventoryIncomplete")
        return found is not None and found["reason"] == "Complete"

    await plane.until(told, f"{name} on record")


async def versions(plane: Plane) -> dict[str, str]:
    """The version of every card and node but the sentinels: what was written has another one."""
    found = [*await plane.list(resources.GPUDEVICE), *await plane.list(resources.GPUNODEINVENTORY)]
    metas = [one["metadata"] for one in found]
    return {meta["name"]: meta["resourceVersion"] for meta in metas if not meta["name"].startswith("sentinel-")}


async def on_record(plane: Plane) -> tuple[list[dict[str, Any]], dict[str, dict[str, Any]]]:
    """All cards, and all nodes by name."""
    summaries = await plane.list(resources.GPUNODEINVENTORY)
    return await plane.list(resources.GPUDEVICE), {one["metadata"]["name"]: one for one in summaries}


def compare(told: Told, expected: Expected, devices: list[dict[str, Any]], summary: dict[str, Any] | None) -> list[str]:
    """How a node differs from the table."""
    found: list[Any] = [outcome.rows(devices, told.node_name), summary is not None]
    wanted: list[Any] = [expected.rows, expected.gpu_node]
    if summary is not None and expected.gpu_node:
        incomplete = outcome.condition(summary, "InventoryIncomplete")
        found += [incomplete["reason"] if incomplete["status"] == "True" else "", summary["status"]["hw"]["present"]]
        wanted += [expected.incomplete, expected.present]
    return [
        f"{told.node_name}: {one} instead of {other}" for one, other in zip(found, wanted, strict=True) if one != other
    ]


def complaints(log: str) -> list[str]:
    """Lines of a log that tell of something wrong with the process, not with a node that it tells an Event of."""
    lines = [json.loads(line) for line in log.splitlines() if line.startswith("{")]
    own = [line for line in lines if not str(line.get("event", "")).startswith("GPU")]
    return [str(line) for line in own if line.get("level") in ("warning", "error", "critical")] + re.findall(
        "Traceback.*", log
    )


async def test_every_dump_in_one_cluster_comes_to_the_golden_table(plane: Plane, tmp_path: Path) -> None:
    nodes = expected_nodes()
    await plane.node("neighbour")
    await plane.report("neighbour", [reported(number) for number in range(8)])
    async with plane.run(MODULE, tmp_path) as process:
        await complete(plane, "neighbour")
        await looked_at(plane, "sentinel-1")
        first = {name: version for name, version in (await versions(plane)).items() if name.startswith("neighbour")}
        assert len(first) == 9
        for told, expected in nodes:
            await put(plane, told, labelled=expected.labelled)

        async def differences() -> list[str]:
            devices, summaries = await on_record(plane)
            if new := [one["metadata"]["name"] for one in [*devices, *summaries.values()] if "status" not in one]:
                return [f"{new}: no status yet"]
            pairs = [(told, expected, summaries.get(told.node_name)) for told, expected in nodes]
            return [text for told, expected, one in pairs for text in compare(told, expected, devices, one)]

        async def none() -> bool:
            return await differences() == []

        with suppress(AssertionError):
            await plane.until(none, "the golden table")
        assert await differences() == []
        await looked_at(plane, "sentinel-2")
        settled = await versions(plane)
        await looked_at(plane, "sentinel-3")
        assert await versions(plane) == settled
        assert first.items() <= settled.items()
        assert complaints(process.log.read_text()) == []
        assert process.end() == 0
    # Another process finds nothing to do, however odd the dumps.
    async with plane.run(MODULE, tmp_path) as process:
        await looked_at(plane, "sentinel-4")
        assert await versions(plane) == settled
        assert complaints(process.log.read_text()) == []
