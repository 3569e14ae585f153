"""Nodes without a driver and GPUDrivers for them: what people do, and where a test sees what comes of it.

Every test has nodes and a GPUDriver of its own, which meet by a label, so that tests share a cluster.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson

from controllers.api import names, resources
from controllers.api.conditions import READY_FOR_POOLING, find, is_true
from sim.nodes.manifests import create_nodes, node_manifests
from sim.nodes.names import FAULT, TAKES
from sim.workload import gpudriver
from tests.kit.waiting import PATIENCE

if TYPE_CHECKING:
    from collections.abc import Iterable

    from controllers.api.driver_work import DriverWork
    from controllers.api.gpudriver import GPUDriver
    from controllers.api.gpunodeinventory import GPUNodeInventory
    from controllers.api.kube import Node, Pod
    from sim.view import View
    from tests.slice.people import People

TEST = "test/drivers"
"""Label of nodes: whose they are."""
BARE = "l40s-4@ubuntu24.04+bare"
QUICK = "pull=0,look=0,prepare=0,install=1,back_off=1"
WANTED, NEWER = "580.178.04", "595.91.07"


class Drivers:
    """Verbs over one cluster, for one test."""

    def __init__(self, people: People, name: str) -> None:
        self.people, self.name = people, name
        self.view: View = people.view
        self.client = people.client

    # --- what people do -----------------------------------------------------------------------

    async def nodes(self, *shapes: str, fault: str = "", takes: str = QUICK, prefix: str = "") -> list[str]:
        """Add nodes of this test; returns their names."""
        marks = {TAKES: takes} | ({FAULT: fault} if fault else {})
        made = node_manifests(shapes or [BARE], prefix=prefix or self.name, annotations=marks)
        for one in made:
            one["metadata"]["labels"][TEST] = self.name
        await create_nodes(self.client, made)
        return [one["metadata"]["name"] for one in made]

    async def driver(self, version: str = WANTED, name: str = "", **spec: Any) -> str:
        """Create a GPUDriver for the nodes of this test; returns its name."""
        target = {"nodeSelector": {"matchLabels": {TEST: self.name}}}
        body = gpudriver(name or self.name, version, **({"target": target} | spec))
        await self.client.create(resources.GPUDRIVER, body, manager="test")
        return name or self.name

    async def change(self, name: str = "", **spec: Any) -> None:
        """Change fields of a GPUDriver's spec."""
        await self.client.merge(resources.GPUDRIVER, name or self.name, {"spec": spec}, manager="test")

    async def breaks(self, node: str, fault: str | None) -> None:
        """A fault befalls a node, or is mended."""
        await self.mark(node, FAULT, fault)

    async def mark(self, node: str, annotation: str, value: str | None) -> None:
        """Annotate a node, or take that back."""
        body = {"metadata": {"annotations": {annotation: value}}}
        await self.client.merge(resources.NODE, node, body, manager="test")

    # --- what is there -------------------------------------------------------------------------

    def node(self, name: str) -> Node:
        found = self.view.nodes.get(name)
        assert found is not None
        return found

    def inventory(self, node: str) -> GPUNodeInventory | None:
        return self.view.inventories.get(node)

    def work(self, node: str) -> DriverWork | None:
        """What is done to a node for its driver's sake."""
        found = self.inventory(node)
        return found.status.driver_work if found is not None else None

    def found(self, name: str = "") -> GPUDriver | None:
        return self.view.drivers.get(name or self.name)

    def said(self, kind: str, name: str = "") -> tuple[str, str, str]:
        """Status, reason and message of a condition of a GPUDriver, now."""
        found = self.found(name)
        told = find(found.status.conditions, kind) if found is not None else None
        return (told.status, told.reason, told.message) if told is not None else ("", "", "")

    def label(self, node: str) -> str | None:
        """The variant that a node is to have."""
        return self.node(node).metadata.labels.get(names.DRIVER_VARIANT)

    def pods(self, node: str, *, checks: bool = False) -> list[Pod]:
        """The pods that bring a driver onto a node, or those that look at it."""
        here = (pod for pod in self.view.pods if pod.node == node and names.LABEL_DRIVER in pod.metadata.labels)
        return [pod for pod in here if any(o.kind == "DaemonSet" for o in pod.metadata.owner_references) is not checks]

    def ready(self, node: str) -> tuple[str, str]:
        """Status and reason of a node's ReadyForPooling, now."""
        found = self.inventory(node)
        told = find(found.status.conditions, READY_FOR_POOLING) if found is not None else None
        return (told.status, told.reason) if told is not None else ("", "")

    def serves(self, node: str, version: str) -> bool:
        """Whether a node is in service with a version, and nothing is done to it any more."""
        found = self.inventory(node)
        if found is None or found.status.driver is None or found.status.driver_work is not None:
            return False
        return is_true(found.status.conditions, READY_FOR_POOLING) and found.status.driver.version == version

    async def objects(self, kind: resources.Resource) -> list[dict[str, Any]]:
        """Objects of a kind that this test's GPUDriver has in the module's namespace."""
        query = {"labelSelector": f"{names.LABEL_DRIVER}={self.name}"}
        answer = await self.client.request("GET", kind.path(names.NAMESPACE), query=query)
        return list(orjson.loads(answer)["items"])

    async def daemonsets(self) -> list[str]:
        """DaemonSets of this test's GPUDriver, by name."""
        return [item["metadata"]["name"] for item in await self.objects(resources.DAEMONSET)]

    # --- what is waited for ---------------------------------------------------------------------

    async def in_service(self, nodes: Iterable[str], version: str = WANTED) -> None:
        wanted = list(nodes)
        await self.view.until(lambda: all(self.serves(node, version) for node in wanted), PATIENCE, self.told)

    async def works(self, node: str, phase: str, reason: str | None = None) -> str:
        """Wait until a node is so far, and for this reason where one is given; returns what it says."""

        def is_there() -> bool:
            work = self.work(node)
            return work is not None and work.phase == phase and reason in (None, work.reason)

        await self.view.until(is_there, PATIENCE, self.told)
        work = self.work(node)
        return (work.message or "") if work is not None else ""

    async def says(self, kind: str, status: str, reason: str | None = None, name: str = "") -> str:
        """Wait for a condition of a GPUDriver; returns its message."""

        def is_said() -> bool:
            told = self.said(kind, name)
            return told[0] == status and reason in (None, told[1])

        await self.view.until(is_said, PATIENCE, self.told)
        return self.said(kind, name)[2]

    def told(self) -> str:
        """Everything about the test's GPUDrivers and nodes, for a failure."""
        works = {node.name: self.work(node.name) for node in self.view.nodes if node.metadata.labels.get(TEST)}
        conditions = {
            driver.name: [(c.type, c.status, c.reason, c.message) for c in driver.status.conditions]
            for driver in self.view.drivers
        }
        return f"{works}\n{conditions}\n{self.view.unready()}"
