"""A fleet whose drivers the module brought, in pools, and what a watch shows of it while another version comes.

For the benchmarks `roll`, `drain` and `strata`. Lives as long as one of them.
"""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from controllers.api import names
from controllers.api.conditions import find
from controllers.api.resources import GPUDEVICE, GPUDRIVER, GPUPOOL, NODE
from reliability.bench.drivers import GROUP, TOOK, VERSION, WITHIN
from reliability.bench.environment import MANAGER
from reliability.kit import actors
from reliability.kit.progress import for_each, show_progress
from sim.nodes.manifests import create_nodes, node_manifests
from sim.nodes.names import FAULT
from sim.workload import gpudriver, gpupool

if TYPE_CHECKING:
    from collections.abc import Sequence

    from controllers.api.gpunodeinventory import GPUNodeInventory
    from sim.view import View
    from tools.programs import Progress

DRIVER: Final = "fleet"
BETTER: Final = "595.91.07"
BAD: Final = "610.57.04"
"""A version that does not load on a node that is told so."""
TEAM: Final = "bench"


@dataclass(slots=True)
class Watched:
    """What a watch shows of a fleet."""

    out: set[str] = field(default_factory=set)
    most: int = 0
    most_in_pool: int = 0
    hit: set[str] = field(default_factory=set)
    """Nodes that were taken out of service."""
    failed_at: float = 0.0
    """When a node was first seen to have failed, monotonic."""

    def begin(self) -> None:
        """From now on."""
        self.most = self.most_in_pool = 0
        self.hit, self.failed_at = set(), 0.0


class Fleet:
    """The nodes of one GPUDriver."""

    def __init__(self, view: View, progress: Progress, pools: int) -> None:
        """Follow their work from now on."""
        self.view, self.progress, self.pools = view, progress, pools
        self.count, self.seen, self.pool_of = 0, Watched(), dict[str, str]()
        view.inventories.subscribe(self._work)

    def _work(self, old: GPUNodeInventory | None, new: GPUNodeInventory | None) -> None:
        name = (new or old).name if new or old else ""  # type: ignore[union-attr]
        work, seen = new.status.driver_work if new is not None else None, self.seen
        if work is None or work.out_since is None:
            seen.out.discard(name)
        else:
            seen.out.add(name)
            seen.hit.add(name)
        seen.most = max(seen.most, len(seen.out))
        in_pools = Counter(self.pool_of.get(node, "") for node in seen.out)
        seen.most_in_pool = max([seen.most_in_pool, *(n for pool, n in in_pools.items() if pool)])
        if work is not None and work.reason and work.fault is not None and not seen.failed_at:
            seen.failed_at = time.monotonic()

    def have(self, version: str) -> int:
        """How many nodes serve with a version, and nothing is done to."""
        found = (one.status for one in self.view.inventories)
        return sum(
            one.driver_work is None and one.driver is not None and one.driver.version == version for one in found
        )

    def phases(self) -> str:
        """How many nodes are in which phase, and why."""
        works = (one.status.driver_work for one in self.view.inventories)
        return str(Counter(f"{work.phase} {work.reason or ''}" for work in works if work is not None))

    def is_halted(self) -> bool:
        """Whether the GPUDriver says so."""
        driver = self.view.drivers.get(DRIVER)
        condition = find(driver.status.conditions, "Halted") if driver is not None else None
        return condition is not None and condition.status == "True"

    async def serve(self, shapes: Sequence[str], rollout: dict[str, Any], batch: int) -> None:
        """Nodes come, so many at once, and get their driver; each belongs to a pool with all of its cards."""
        self.count = len(shapes)
        target = {"nodeSelector": {"matchLabels": {GROUP: "roll"}}}
        driver = gpudriver(DRIVER, VERSION, target=target, rollout=rollout)
        await self.view.client.create(GPUDRIVER, driver, manager=MANAGER)
        made = node_manifests(shapes, prefix="roll", annotations=TOOK)
        for place, one in enumerate(made):
            one["metadata"]["labels"][GROUP] = "roll"
            self.pool_of[one["metadata"]["name"]] = f"roll-{place % self.pools}"
        for start in range(0, self.count, batch):
            come = made[start : start + batch]
            await create_nodes(self.view.client, come)
            there = start + len(come)
            await self.all_have(VERSION, f"{there} of {self.count} nodes come into service", there)
        for number in range(self.pools):
            await self.view.client.create(GPUPOOL, gpupool(f"roll-{number}"), manager=MANAGER)
        await actors.create_namespace(self.view.client, TEAM, manager=MANAGER)
        await self._assign()

    async def _assign(self) -> None:
        cards = [(one.name, self.pool_of[one.status.node_name or ""]) for one in self.view.devices]

        async def assign(card: tuple[str, str]) -> None:
            body = {"metadata": {"annotations": {names.ASSIGNMENT: card[1]}}}
            await self.view.client.merge(GPUDEVICE, card[0], body, manager=MANAGER)

        await for_each(cards, assign)

        def offered() -> int:
            return sum(one.status.published is not None for one in self.view.devices)

        async with show_progress(self.progress, f"{len(cards)} cards go into pools", offered, len(cards)):
            await self.view.until(lambda: offered() == len(cards), WITHIN, lambda: f"{offered()} of {len(cards)}")

    async def change(self, **spec: Any) -> None:
        """Change the GPUDriver's spec."""
        await self.view.client.merge(GPUDRIVER, DRIVER, {"spec": spec}, manager=MANAGER)

    async def all_have(self, version: str, title: str, count: int | None = None) -> None:
        """Wait until so many nodes, or all, serve with a version. Raises LateError."""
        wanted = self.count if count is None else count
        async with show_progress(self.progress, title, lambda: self.have(version), wanted):
            await self.view.until(lambda: self.have(version) == wanted, WITHIN, self.phases)

    async def break_bad(self, nodes: Sequence[str]) -> None:
        """Let version `BAD` not load on these nodes."""

        async def breaks(node: str) -> None:
            body = {"metadata": {"annotations": {FAULT: f"driver@{BAD}=insmod-fails"}}}
            await self.view.client.merge(NODE, node, body, manager=MANAGER)

        await for_each(nodes, breaks)
