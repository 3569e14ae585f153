"""A new version of a driver on a fleet that serves, on a whole cluster: how long it takes, and who is disturbed.

The cluster of `make up` with the fifth process; nodes whose drivers the module brought, in pools, under pods that come
and go. An installation is played in ten seconds, and what has to be waited for by default (a canary for an hour, a wave
for a quarter of one) takes ten, too. First a version that is good comes onto all; what is out of service is counted on
each change that a watch shows. Then a rollout is paused in the middle, and goes on. Last comes a version that does not
load, and it is seen whom it hits.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Final

from controllers.api import names
from controllers.api.conditions import find
from controllers.api.resources import GPUDEVICE, GPUDRIVER, GPUPOOL, NODE, POD
from controllers.runtime.errors import NotFound
from reliability.bench.drivers import GROUP, MEMORY, SHAPE, TOOK, VERSION, WITHIN, WRITES
from reliability.bench.environment import MANAGER
from reliability.bench.rows import Result, Row, Sizes
from reliability.bench.subject import Subject
from reliability.bench.whole_cluster import brought_up
from reliability.kit import actors
from reliability.kit.process import total
from reliability.kit.progress import for_each, show_progress
from sim import controlplane
from sim.cluster import Options
from sim.nodes.manifests import create_nodes, node_manifests
from sim.nodes.names import FAULT
from sim.view import View
from sim.workload import gpu_pod, gpudriver, gpupool

if TYPE_CHECKING:
    from pathlib import Path

    from controllers.api.gpunodeinventory import GPUNodeInventory
    from controllers.api.kube import Pod
    from sim.controlplane import ControlPlane
    from tools.programs import Progress

DRIVER: Final = "fleet"
BETTER: Final = "595.91.07"
BAD: Final = "610.57.04"
LAST: Final = VERSION
WAVES: Final = (10, 30, 100)
TEAM: Final = "bench"
FULL_NODES: Final = 1000
"""The size for which the bars hold."""
ROLL_SECONDS: Final = 720.0
HALT_SECONDS: Final = 5.0
PAUSE_SECONDS: Final = 1.0


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
    halted_at: float = 0.0
    killed: int = 0
    """Pods that ended otherwise than their owner ended them."""

    def begin(self) -> None:
        """From now on."""
        self.most = self.most_in_pool = 0
        self.hit, self.failed_at, self.halted_at = set(), 0.0, 0.0


@dataclass(frozen=True, slots=True)
class Found:
    """All figures; times in seconds."""

    nodes: int
    pools: int
    took: float
    most: int
    most_in_pool: int
    killed: int
    pods: int
    writes: float
    cores: float
    rss_mb: float
    hit: int
    halted: float
    back: float
    paused: float
    resumed: float


def measure(folder: Path, sizes: Sizes, progress: Progress) -> Result:
    """Measure on a control plane in `folder`; raises UserError."""
    with brought_up(folder, Options(nodes=0, driver=True, webhooks=1), progress) as plane:
        return asyncio.run(_measure(plane, sizes, progress))


async def _measure(plane: ControlPlane, sizes: Sizes, progress: Progress) -> Result:
    process = controlplane.status(plane.dir).processes[names.DRIVER_CONTROLLER]
    async with View(plane.kubeconfig) as view:
        found = await Bench(view, Subject.of(plane.dir, process), sizes, progress).run()
    return Result(_rows(sizes, found), asdict(found))


def rollout(sizes: Sizes) -> dict[str, Any]:
    """How the fleet is rolled."""
    share = f"{sizes.roll_percent}%"
    return {
        "canary": {"soak": f"{sizes.roll_soak}s", "evidence": "None"},
        "waveSoak": f"{sizes.roll_soak}s",
        "waves": list(WAVES),
        "maxUnavailable": {"nodes": share, "perPool": share, "cards": 0},
    }


class Bench:
    """One fleet."""

    def __init__(self, view: View, subject: Subject, sizes: Sizes, progress: Progress) -> None:
        """Follow work and pods from now on."""
        self._view, self._subject, self._progress = view, subject, progress
        self._count, self._pools, self._sizes = sizes.roll_nodes, sizes.roll_pools, sizes
        self._seen, self._pool_of = Watched(), dict[str, str]()
        self._pods, self._ended = 0, set[str]()
        view.inventories.subscribe(self._work)
        view.pods.subscribe(self._pod)

    async def run(self) -> Found:
        """All of it, one after another."""
        await self._fleet()
        churn = asyncio.create_task(self._churn())
        try:
            took, writes, cores = await self._roll()
        finally:
            churn.cancel()
            await asyncio.gather(churn, return_exceptions=True)
            await self._empty()
        most, in_pool, pods = self._seen.most, self._seen.most_in_pool, self._pods
        paused, resumed = await self._pause()
        halted, back = await self._bad()
        return Found(
            self._count,
            self._pools,
            took,
            most,
            in_pool,
            self._seen.killed,
            pods,
            writes,
            cores,
            self._subject.peak_rss_mb(),
            len(self._seen.hit),
            halted,
            back,
            paused,
            resumed,
        )

    # --- what is seen ---------------------------------------------------------------------------

    def _work(self, old: GPUNodeInventory | None, new: GPUNodeInventory | None) -> None:
        name = (new or old).name if new or old else ""  # type: ignore[union-attr]
        work, seen = new.status.driver_work if new is not None else None, self._seen
        if work is None or work.out_since is None:
            seen.out.discard(name)
        else:
            seen.out.add(name)
            seen.hit.add(name)
        seen.most = max(seen.most, len(seen.out))
        in_pools = Counter(self._pool_of.get(node, "") for node in seen.out)
        seen.most_in_pool = max([seen.most_in_pool, *(n for pool, n in in_pools.items() if pool)])
        if work is not None and work.reason and work.fault is not None and not seen.failed_at:
            seen.failed_at = time.monotonic()

    def _pod(self, old: Pod | None, new: Pod | None) -> None:
        if old is not None and new is None and old.metadata.namespace == TEAM:
            self._seen.killed += old.name not in self._ended

    def _version(self, version: str) -> int:
        """Nodes that serve with a version, and nothing is done to."""
        found = (one.status for one in self._view.inventories)
        return sum(
            one.driver_work is None and one.driver is not None and one.driver.version == version for one in found
        )

    def _phases(self) -> str:
        works = (one.status.driver_work for one in self._view.inventories)
        return str(Counter(f"{work.phase} {work.reason or ''}" for work in works if work is not None))

    # --- what is done -----------------------------------------------------------------------------

    async def _fleet(self) -> None:
        """Nodes come and get their driver; each belongs to a pool with all of its cards."""
        view, client = self._view, self._view.client
        target = {"nodeSelector": {"matchLabels": {GROUP: "roll"}}}
        await client.create(
            GPUDRIVER, gpudriver(DRIVER, VERSION, target=target, rollout=rollout(self._sizes)), manager=MANAGER
        )
        made = node_manifests([SHAPE] * self._count, prefix="roll", annotations=TOOK)
        for place, one in enumerate(made):
            one["metadata"]["labels"][GROUP] = "roll"
            self._pool_of[one["metadata"]["name"]] = f"roll-{place % self._pools}"
        await create_nodes(client, made)
        title = f"{self._count} nodes come into service"
        async with show_progress(self._progress, title, lambda: self._version(VERSION), self._count):
            await view.until(lambda: self._version(VERSION) == self._count, WITHIN, self._phases)
        for number in range(self._pools):
            await client.create(GPUPOOL, gpupool(f"roll-{number}"), manager=MANAGER)
        await actors.create_namespace(client, TEAM, manager=MANAGER)
        cards = [(one.name, self._pool_of[one.status.node_name or ""]) for one in view.devices]

        async def assign(card: tuple[str, str]) -> None:
            body = {"metadata": {"annotations": {names.ASSIGNMENT: card[1]}}}
            await client.merge(GPUDEVICE, card[0], body, manager=MANAGER)

        await for_each(cards, assign)

        def offered() -> int:
            return sum(one.status.published is not None for one in view.devices)

        async with show_progress(self._progress, f"{len(cards)} cards go into pools", offered, len(cards)):
            await view.until(lambda: offered() == len(cards), WITHIN, lambda: f"{offered()} of {len(cards)}")

    async def _churn(self) -> None:
        """In each pool pods with a card come one after the other, and stay for 5 to 60 s, in turns."""

        async def one(number: int) -> None:
            turn = number
            while True:
                low, high = self._sizes.roll_stay
                stays, name = low + (turn * 17) % (high - low), f"pod-{number}-{turn}"
                body = gpu_pod(name, f"roll-{number % self._pools}", 1)
                await self._view.client.create(POD, body, TEAM, manager=MANAGER)
                self._pods += 1
                await asyncio.sleep(stays)
                self._ended.add(name)
                try:
                    await self._view.client.request("DELETE", POD.path(TEAM, name))
                except NotFound:
                    self._seen.killed += 1
                turn += self._count

        await asyncio.gather(*(one(number) for number in range(self._count)))

    async def _empty(self) -> None:
        """The pods that are left end."""
        left = [pod.name for pod in self._view.pods if pod.metadata.namespace == TEAM]
        self._ended.update(left)
        for name in left:
            await actors.delete(self._view.client, POD, name, TEAM)

        def there() -> int:
            return sum(pod.metadata.namespace == TEAM for pod in self._view.pods)

        await self._view.until(lambda: not there(), WITHIN, lambda: f"{there()} pods stay")

    async def _change(self, **spec: Any) -> None:
        await self._view.client.merge(GPUDRIVER, DRIVER, {"spec": spec}, manager=MANAGER)

    async def _all_have(self, version: str, title: str) -> None:
        async with show_progress(self._progress, title, lambda: self._version(version), self._count):
            await self._view.until(lambda: self._version(version) == self._count, WITHIN, self._phases)

    async def _roll(self) -> tuple[float, float, float]:
        """A good version; seconds, writes and cores of the driver's controller."""
        self._seen.begin()
        before, cpu, began = total(await self._subject.metrics(), WRITES), self._subject.cpu_seconds(), time.monotonic()
        await self._change(version=BETTER)
        await self._all_have(BETTER, f"a new version comes onto {self._count} nodes")
        took = time.monotonic() - began
        cores = (self._subject.cpu_seconds() - cpu) / took
        return took, total(await self._subject.metrics(), WRITES) - before, cores

    async def _pause(self) -> tuple[float, float]:
        """Seconds from a pause to the last start after it, and from its end to the next start."""
        self._seen.begin()
        await self._change(version=LAST)
        view, seen = self._view, self._seen
        await view.until(lambda: len(seen.hit) > 1, WITHIN, self._phases)
        starts = [time.monotonic()]
        known = set(seen.hit)

        def noted(_: GPUNodeInventory | None, __: GPUNodeInventory | None) -> None:
            if fresh := seen.hit - known:
                known.update(fresh)
                starts.append(time.monotonic())

        view.inventories.subscribe(noted)
        began = time.monotonic()
        await self._change(rollout={"paused": True})
        await view.until(lambda: not seen.out, WITHIN, self._phases)
        paused = max(0.0, starts[-1] - began)
        seen.hit.clear()
        began = time.monotonic()
        await self._change(rollout={"paused": False})
        await view.until(lambda: bool(seen.hit), WITHIN, self._phases)
        resumed = time.monotonic() - began
        await self._all_have(LAST, "it goes on after a pause")
        return paused, resumed

    async def _bad(self) -> tuple[float, float]:
        """Seconds from the first failure to Halted, and until all nodes have their former driver."""
        client, view = self._view.client, self._view

        async def breaks(node: str) -> None:
            body = {"metadata": {"annotations": {FAULT: f"driver@{BAD}=insmod-fails"}}}
            await client.merge(NODE, node, body, manager=MANAGER)

        await for_each([node.name for node in view.nodes], breaks)
        await self._subject.until_idle(WITHIN)
        self._seen.begin()
        await self._change(version=BAD)

        def halted() -> bool:
            driver = view.drivers.get(DRIVER)
            said = find(driver.status.conditions, "Halted") if driver is not None else None
            return said is not None and said.status == "True"

        async with show_progress(self._progress, "a version that does not load"):
            await view.until(halted, WITHIN, self._phases)
            at = time.monotonic()
            await view.until(lambda: not self._seen.out, WITHIN, self._phases)
            back = time.monotonic() - at
        return max(0.0, at - self._seen.failed_at), back


def _rows(sizes: Sizes, found: Found) -> tuple[Row, ...]:
    full, pools, percent = found.nodes >= FULL_NODES, -(-found.nodes // found.pools), sizes.roll_percent
    return (
        Row(
            f"roll: {found.nodes} nodes, {found.pools} pools, canary and {len(WAVES)} waves, all have the version",
            found.took,
            "s",
            1,
            at_most=ROLL_SECONDS,
            judged=full,
            note=f"installation played 10 s, soaks {sizes.roll_soak} s",
        ),
        Row("  nodes out of service at once", found.most, "", 0, at_most=max(1, found.nodes * percent // 100)),
        Row("    of one pool", found.most_in_pool, "", 0, at_most=max(1, pools * percent // 100)),
        Row(f"  of {found.pods} pods: ended by it", found.killed, "", 0, exactly=0.0),
        Row("  writes of the driver's controller for a node", found.writes / found.nodes, at_most=14.0),
        Row("  its cores meanwhile", found.cores, at_most=0.3, judged=full),
        Row("  its peak RSS", found.rss_mb, "MB", 0, at_most=MEMORY, judged=full),
        Row("  pause: the last start after it", found.paused, "s", at_most=PAUSE_SECONDS),
        Row("  resume: the first start after it", found.resumed, "s", at_most=PAUSE_SECONDS),
        Row("  a version that does not load: nodes that it hits", found.hit, "", 0, at_most=1.0),
        Row("    Halted after the failure", found.halted, "s", at_most=HALT_SECONDS),
        Row("    all back in service", found.back, "s", 1),
    )
