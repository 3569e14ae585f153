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
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

from controllers.api.resources import POD
from controllers.runtime.errors import NotFound
from reliability.bench.drivers import MEMORY, SHAPE, VERSION, WITHIN, WRITES, observed
from reliability.bench.environment import MANAGER
from reliability.bench.rolled import BAD, BETTER, TEAM, Fleet
from reliability.bench.rows import Result, Row, Sizes
from reliability.bench.subject import Subject
from reliability.bench.whole_cluster import brought_up
from reliability.kit import actors
from reliability.kit.progress import show_progress
from sim.cluster import Options
from sim.view import View
from sim.workload import gpu_pod

if TYPE_CHECKING:
    from pathlib import Path

    from controllers.api.gpunodeinventory import GPUNodeInventory
    from controllers.api.kube import Pod
    from sim.controlplane import ControlPlane
    from tools.programs import Progress

LAST: Final = VERSION
WAVES: Final = (10, 30, 100)
FULL_NODES: Final = 1000
"""The size for which the bars hold."""
ROLL_SECONDS: Final = 720.0
HALT_SECONDS: Final = 5.0
PAUSE_SECONDS: Final = 1.0


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
    begun: float
    """From the end of a pause until a node is prepared for its new driver."""
    resumed: float
    """From the end of a pause until one is out of service."""
    writes_by: dict[str, float]
    """Writes of the driver's controller in the rollout, by the labels of its metric."""


def measure(folder: Path, sizes: Sizes, progress: Progress) -> Result:
    """Measure on a control plane in `folder`; raises UserError."""
    with brought_up(folder, Options(nodes=0, driver=True, webhooks=1), progress) as plane:
        return asyncio.run(_measure(plane, sizes, progress))


async def _measure(plane: ControlPlane, sizes: Sizes, progress: Progress) -> Result:
    async with observed(plane) as (view, subject):
        found = await Bench(view, subject, sizes, progress).run()
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
        self._view, self._subject, self._progress, self._sizes = view, subject, progress, sizes
        self._fleet = Fleet(view, progress, sizes.roll_pools)
        self._pods, self._killed, self._ended = 0, 0, set[str]()
        view.pods.subscribe(self._pod)

    async def run(self) -> Found:
        """All of it, one after another."""
        await self._fleet.serve([SHAPE] * self._sizes.roll_nodes, rollout(self._sizes), self._sizes.batch)
        churn = asyncio.create_task(self._churn())
        try:
            took, writes, cores = await self._roll()
        finally:
            churn.cancel()
            await asyncio.gather(churn, return_exceptions=True)
            await self._empty()
        seen, pods = self._fleet.seen, self._pods
        most, in_pool = seen.most, seen.most_in_pool
        paused, begun, resumed = await self._pause()
        halted, back = await self._bad()
        return Found(
            self._fleet.count,
            self._fleet.pools,
            took,
            most,
            in_pool,
            self._killed,
            pods,
            sum(writes.values()),
            cores,
            self._subject.peak_rss_mb(),
            len(seen.hit),
            halted,
            back,
            paused,
            begun,
            resumed,
            writes,
        )

    def _pod(self, old: Pod | None, new: Pod | None) -> None:
        if old is not None and new is None and old.metadata.namespace == TEAM:
            self._killed += old.name not in self._ended

    async def _churn(self) -> None:
        """In each pool pods with a card come one after the other, and stay for 5 to 60 s, in turns."""
        count = self._fleet.count

        async def one(number: int) -> None:
            turn = number
            while True:
                low, high = self._sizes.roll_stay
                stays, name = low + (turn * 17) % (high - low), f"pod-{number}-{turn}"
                body = gpu_pod(name, f"roll-{number % self._fleet.pools}", 1)
                await actors.create_pod(self._view.client, body, TEAM, manager=MANAGER)
                self._pods += 1
                await asyncio.sleep(stays)
                self._ended.add(name)
                try:
                    await self._view.client.request("DELETE", POD.path(TEAM, name))
                except NotFound:
                    self._killed += 1
                turn += count

        await asyncio.gather(*(one(number) for number in range(count)))

    async def _empty(self) -> None:
        """The pods that are left end."""
        left = [pod.name for pod in self._view.pods if pod.metadata.namespace == TEAM]
        self._ended.update(left)
        for name in left:
            await actors.delete(self._view.client, POD, name, TEAM)

        def there() -> int:
            return sum(pod.metadata.namespace == TEAM for pod in self._view.pods)

        await self._view.until(lambda: not there(), WITHIN, lambda: f"{there()} pods stay")

    async def _roll(self) -> tuple[float, dict[str, float], float]:
        """A good version; seconds, writes and cores of the driver's controller."""
        self._fleet.seen.begin()
        before, cpu, began = await self._writes(), self._subject.cpu_seconds(), time.monotonic()
        await self._fleet.change(version=BETTER)
        await self._fleet.all_have(BETTER, f"a new version comes onto {self._fleet.count} nodes")
        took = time.monotonic() - began
        cores = (self._subject.cpu_seconds() - cpu) / took
        return took, {key: value - before.get(key, 0.0) for key, value in (await self._writes()).items()}, cores

    async def _writes(self) -> dict[str, float]:
        found = await self._subject.metrics()
        return {key: value for key, value in found.items() if key.startswith(WRITES)}

    async def _pause(self) -> tuple[float, float, float]:
        """Seconds from a pause to the last start after it; from its end to the next node begun, and the next start."""
        view, fleet, seen = self._view, self._fleet, self._fleet.seen
        seen.begin()
        await fleet.change(version=LAST)
        await view.until(lambda: len(seen.hit) > 1, WITHIN, fleet.phases)
        starts = [time.monotonic()]
        known = set(seen.hit)

        def noted(_: GPUNodeInventory | None, __: GPUNodeInventory | None) -> None:
            if fresh := seen.hit - known:
                known.update(fresh)
                starts.append(time.monotonic())

        view.inventories.subscribe(noted)
        began = time.monotonic()
        await fleet.change(rollout={"paused": True})
        await view.until(lambda: not seen.out, WITHIN, fleet.phases)
        paused = max(0.0, starts[-1] - began)
        seen.hit.clear()
        began = time.monotonic()
        await fleet.change(rollout={"paused": False})
        await view.until(self._is_begun, WITHIN, fleet.phases)
        begun = time.monotonic() - began
        await view.until(lambda: bool(seen.hit), WITHIN, fleet.phases)
        resumed = time.monotonic() - began
        await fleet.all_have(LAST, "it goes on after a pause")
        return paused, begun, resumed

    def _is_begun(self) -> bool:
        works = (one.status.driver_work for one in self._view.inventories)
        return any(work is not None and work.to is not None and work.phase != "Soaking" for work in works)

    async def _bad(self) -> tuple[float, float]:
        """Seconds from the first failure to Halted, and until all nodes have their former driver."""
        view, fleet = self._view, self._fleet
        await fleet.break_bad([node.name for node in view.nodes])
        await self._subject.until_idle(WITHIN)
        fleet.seen.begin()
        await fleet.change(version=BAD)
        async with show_progress(self._progress, "a version that does not load"):
            await view.until(fleet.is_halted, WITHIN, fleet.phases)
            at = time.monotonic()
            await view.until(lambda: not fleet.seen.out, WITHIN, fleet.phases)
            back = time.monotonic() - at
        return max(0.0, at - fleet.seen.failed_at), back


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
        Row("  resume: a node is prepared", found.begun, "s", at_most=PAUSE_SECONDS),
        Row("    and is out of service", found.resumed, "s"),
        Row("  a version that does not load: nodes that it hits", found.hit, "", 0, at_most=1.0),
        Row("    Halted after the failure", found.halted, "s", at_most=HALT_SECONDS),
        Row("    all back in service", found.back, "s", 1),
    )
