"""Nodes that get their driver from the module, on a whole cluster: how soon, how many at once, and what it costs.

The cluster of `make up` with the fifth process, and nodes whose hosts are bare; what a driver's pods do is played, with
an installation of ten seconds. First single nodes join, one after another, and each is timed from its agent's first
report. Then nodes whose driver cannot be had: none of them may be started. Then the fleet joins, at once or in batches,
and after it has come into service nothing happens for a minute. Last come two hundred GPUDrivers of mode Host,
every second one of which matches nodes that another one has.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

from controllers.api import names
from controllers.api.resources import GPUDRIVER, NODE
from reliability.bench.environment import MANAGER
from reliability.bench.rows import Result, Row, Sizes
from reliability.bench.subject import Subject
from reliability.bench.whole_cluster import brought_up
from reliability.kit.process import total
from reliability.kit.progress import for_each, show_progress
from sim import controlplane
from sim.cluster import Options
from sim.nodes.leaving import remove_node
from sim.nodes.manifests import create_nodes, node_manifests
from sim.nodes.names import TAKES
from sim.view import View
from sim.workload import gpudriver

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from controllers.api.gpunodeinventory import GPUNodeInventory
    from controllers.api.nodefeature import NodeFeature
    from sim.controlplane import ControlPlane
    from tools.programs import Progress

SHAPE: Final = "l40s-4@ubuntu24.04+bare"
VERSION: Final = "580.178.04"
UNHEARD: Final = "599.1.1"
"""A version of which there is no image."""
UNSERVED: Final = "6.8.0-71-lowlatency"
"""A kernel of which there is no precompiled image."""
TOOK: Final = {TAKES: "pull=1,look=0,prepare=1,install=10"}
GROUP: Final = "bench/group"
DRIVER: Final = "bench"
BUDGET_NODES: Final = 1000
WITHIN: Final = 3600.0
WRITES: Final = "gpu_writes_total"
FLEET_SECONDS: Final = 360.0
MEMORY: Final = 120.0
"""MB."""


@dataclass(frozen=True, slots=True)
class Fleet:
    """Many nodes that join, in batches; times in seconds."""

    nodes: int
    batch: int
    """So many join at once."""
    took: float
    """From the first creation until all are in service."""
    at_once: int
    """Nodes that were in phase Installing at the same time, at most."""
    writes: float
    """Of the driver's controller, Events among them."""
    cores: float
    rss_mb: float
    quiet_writes: float
    quiet_rss_mb: float


@dataclass(frozen=True, slots=True)
class Resolved:
    """Many GPUDrivers; times in seconds."""

    took: float
    """From the first one's creation."""
    after_last: float
    """From the answer to the last one's creation."""
    overlapping: int
    disturbed: int
    """Nodes that are at work then, or out of service."""


@dataclass(frozen=True, slots=True)
class Measured:
    """All of it."""

    first: list[float]
    unserved: int
    started: int
    fleet: Fleet
    resolved: Resolved


def measure(folder: Path, sizes: Sizes, progress: Progress) -> Result:
    """Measure on a control plane in `folder`; raises UserError."""
    with brought_up(folder, Options(nodes=0, driver=True, webhooks=1), progress) as plane:
        return asyncio.run(_measure(plane, sizes, progress))


@asynccontextmanager
async def observed(plane: ControlPlane) -> AsyncIterator[tuple[View, Subject]]:
    """A cluster as it is seen, and its driver's controller, inside the block; also for the themes of rollouts."""
    process = controlplane.status(plane.dir).processes[names.DRIVER_CONTROLLER]
    async with View(plane.kubeconfig) as view:
        yield view, Subject.of(plane.dir, process)


async def _measure(plane: ControlPlane, sizes: Sizes, progress: Progress) -> Result:
    async with observed(plane) as (view, subject):
        bench = Bench(view, subject, sizes, progress)
        first = await bench.first()
        unserved, started = await bench.unserved()
        found = Measured(first, unserved, started, await bench.fleet(), await bench.resolved())
    return Result(_rows(sizes, found), asdict(found) | {"drivers": sizes.driver_objects})


class Bench:
    """One cluster that is measured; `first` makes the GPUDriver that the others go by."""

    def __init__(self, view: View, subject: Subject, sizes: Sizes, progress: Progress) -> None:
        """Follow reports and work from now on."""
        self._view, self._subject, self._sizes, self._progress = view, subject, sizes, progress
        self._reported: dict[str, float] = {}
        self._installing: dict[str, float] = {}
        self._now: set[str] = set()
        self._most = 0
        view.features.subscribe(self._report)
        view.inventories.subscribe(self._work)

    def _report(self, _: NodeFeature | None, new: NodeFeature | None) -> None:
        if new is not None and new.is_agent_report:
            self._reported.setdefault(new.metadata.labels.get(names.NFD_NODE_NAME, ""), time.monotonic())

    def _work(self, old: GPUNodeInventory | None, new: GPUNodeInventory | None) -> None:
        name = (new or old).name if new or old else ""  # type: ignore[union-attr]
        work = new.status.driver_work if new is not None else None
        if work is not None and work.phase == "Installing":
            self._installing.setdefault(name, time.monotonic())
            self._now.add(name)
            self._most = max(self._most, len(self._now))
        else:
            self._now.discard(name)

    async def _driver(self, name: str, version: str, group: str, **spec: Any) -> None:
        target = {"nodeSelector": {"matchLabels": {GROUP: group}}}
        await self._view.client.create(GPUDRIVER, gpudriver(name, version, target=target, **spec), manager=MANAGER)

    async def _join(self, count: int, prefix: str, group: str, kernel: str = "") -> list[str]:
        made = node_manifests([SHAPE] * count, prefix=prefix, annotations=TOOK)
        for one in made:
            one["metadata"]["labels"][GROUP] = group
            if kernel:
                one["status"]["nodeInfo"]["kernelVersion"] = kernel
        await create_nodes(self._view.client, made)
        return [one["metadata"]["name"] for one in made]

    async def _leave(self, nodes: list[str]) -> None:
        await for_each(nodes, lambda node: remove_node(self._view.client, node))
        gone = set(nodes)
        view = self._view
        await view.until(lambda: not gone & {i.name for i in view.inventories}, WITHIN, lambda: "nodes stay on record")

    def _phases(self) -> dict[str, str]:
        works = {one.name: one.status.driver_work for one in self._view.inventories}
        return {name: f"{work.phase} {work.reason or ''}" for name, work in works.items() if work is not None}

    async def _serving(self, count: int) -> None:
        """Wait until so many nodes are in service, and nothing is done to any."""
        view = self._view
        await view.until(
            lambda: view.ready() == count and not self._phases(), WITHIN, lambda: f"{self._phases()}; {view.unready()}"
        )

    def _current(self) -> int:
        """Nodes that the GPUDriver's status counts as served: it is written last, once changes have settled."""
        driver = self._view.drivers.get(DRIVER)
        return driver.status.counts.current if driver is not None and driver.status.counts is not None else 0

    async def first(self) -> list[float]:
        """Seconds from a node's first report to its installation, of nodes that join one after another."""
        await self._driver(DRIVER, VERSION, "all")
        nodes: list[str] = []
        count = self._sizes.driver_first
        async with show_progress(self._progress, "bare nodes join one by one", lambda: len(nodes), count):
            for number in range(count):
                nodes += await self._join(1, f"one-{number}", "all")
                await self._serving(number + 1)
        found = [self._installing[node] - self._reported[node] for node in nodes]
        await self._leave(nodes)
        return found

    async def unserved(self) -> tuple[int, int]:
        """How many nodes' driver cannot be had, and how many of them were started all the same."""
        count = self._sizes.driver_unserved
        await self._driver("unheard", UNHEARD, "unheard")
        await self._driver("unserved", "580", "unserved", mode="Precompiled")
        nodes = await self._join(count, "unheard", "unheard")
        nodes += await self._join(count, "unserved", "unserved", UNSERVED)

        def blocked() -> int:
            return sum(phase.startswith("Blocked") for phase in self._phases().values())

        async with show_progress(self._progress, "nodes whose driver cannot be had", blocked, len(nodes)):
            await self._view.until(lambda: blocked() == len(nodes), WITHIN, lambda: str(self._phases()))
        labels = {node.name for node in self._view.nodes if names.DRIVER_VARIANT in node.metadata.labels}
        started = len({*labels, *self._installing} & set(nodes))
        for name in ("unheard", "unserved"):
            await self._view.client.request("DELETE", GPUDRIVER.path(None, name))
        await self._leave(nodes)
        return len(nodes), started

    async def fleet(self) -> Fleet:
        """Let the fleet join, and rest."""
        count, view = self._sizes.driver_nodes, self._view
        batch = min(count, self._sizes.batch)
        before, cpu = total(await self._subject.metrics(), WRITES), self._subject.cpu_seconds()
        self._most, began = 0, time.monotonic()
        title = f"{count} bare nodes join and come into service"
        async with show_progress(self._progress, title, view.ready, count):
            for start in range(0, count, batch):
                more = min(batch, count - start)
                joining = asyncio.create_task(self._join(more, f"fleet-{start}", "all"))
                await self._serving(start + more)
                await joining
        took, cores = time.monotonic() - began, self._subject.cpu_seconds() - cpu
        await view.until(lambda: self._current() == count, WITHIN, lambda: f"{self._current()} of {count} are told")
        await self._subject.until_idle(WITHIN)
        await asyncio.sleep(self._sizes.settle)
        written = total(await self._subject.metrics(), WRITES)
        async with show_progress(self._progress, f"{self._sizes.driver_quiet:.0f} s without a change"):
            await asyncio.sleep(self._sizes.driver_quiet)
        quiet = total(await self._subject.metrics(), WRITES) - written
        return Fleet(
            count,
            batch,
            took,
            self._most,
            written - before,
            cores / took,
            self._subject.peak_rss_mb(),
            quiet,
            self._subject.rss_mb(),
        )

    async def resolved(self) -> Resolved:
        """Let GPUDrivers come, until each knows its nodes."""
        count, view = self._sizes.driver_objects, self._view
        groups = max(1, count // 2)
        nodes = sorted(node.name for node in view.nodes)

        async def label(place: int) -> None:
            body = {"metadata": {"labels": {f"{GROUP}-{place % groups}": ""}}}
            await view.client.merge(NODE, nodes[place], body, manager=MANAGER)

        await for_each(range(len(nodes)), label)
        await self._subject.until_idle(WITHIN)

        async def create(place: int) -> None:
            group = place % groups if place % 2 else place // 2 % groups
            target = {"nodeSelector": {"matchLabels": {f"{GROUP}-{group}": ""}}}
            body = gpudriver(f"many-{place:04d}", VERSION, target=target, mode="Host", priority=10)
            await view.client.create(GPUDRIVER, body, manager=MANAGER)

        began = time.monotonic()
        await for_each(range(count), create)
        created = time.monotonic()

        def told() -> int:
            many = [driver for driver in view.drivers if driver.name.startswith("many-")]
            had = sum(d.status.counts.nodes for d in many if d.status.counts is not None)
            said = sum(d.status.observed_generation is not None for d in many)
            return said if had == len(nodes) else min(said, count - 1)

        async with show_progress(self._progress, f"{count} GPUDrivers are resolved", told, count):
            await view.until(lambda: told() == count, WITHIN, lambda: f"{told()} of {count} have their nodes")
        ended = time.monotonic()
        conditions = [condition for driver in view.drivers for condition in driver.status.conditions]
        overlapping = sum(one.type == "Overlaps" and one.status == "True" for one in conditions)
        disturbed = len(self._phases()) + len(nodes) - view.ready()
        return Resolved(ended - began, ended - created, overlapping, disturbed)


def _rows(sizes: Sizes, found: Measured) -> tuple[Row, ...]:
    fleet, resolved = found.fleet, found.resolved
    large, quiet = fleet.nodes == BUDGET_NODES, f"{sizes.driver_quiet:.0f} s"
    many, served = f"  {fleet.nodes} bare nodes, install played 10 s", fleet.took
    together = fleet.batch == fleet.nodes
    many += "" if together else f", {fleet.batch} at once"

    def memory(name: str, megabytes: float) -> Row:
        return Row(name, megabytes, "MB", 0, at_most=MEMORY, judged=large or megabytes > MEMORY)

    return (
        Row("drivers: first report of a bare node → Installing, the slowest", max(found.first), "s", at_most=5.0),
        Row(f"{many}: all in service", served, "s", 1, at_most=FLEET_SECONDS, judged=large and together),
        Row("  writes of the driver's controller for a node", fleet.writes / fleet.nodes, at_most=14.0),
        Row("  nodes in Installing at once", fleet.at_once, "", 0, at_most=50.0),
        Row("  its cores meanwhile", fleet.cores),
        memory("  its peak RSS", fleet.rss_mb),
        Row(f"  writes in {quiet} without a change", fleet.quiet_writes, "", 0, exactly=0.0),
        memory("  RSS after them", fleet.quiet_rss_mb),
        Row(f"  of {found.unserved} nodes without image or kernel: started", found.started, "", 0, exactly=0.0),
        Row(f"  {sizes.driver_objects} GPUDrivers: resolved after the last", resolved.after_last, "s", at_most=2.0),
        Row("    from the first one's creation", resolved.took, "s", note=f"{resolved.overlapping} overlap"),
        Row("    nodes that were disturbed", resolved.disturbed, "", 0, exactly=0.0),
    )
