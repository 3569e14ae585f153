"""Gangs whose pods come in any order, many more than there are cards for, while gpupool-controller is killed.

The cluster of `make up`, but that leases last five seconds. A gang ends half a second after all its pods run, so that
others get its cards. First nothing happens to the controller; then it is killed (`kill -9`) each time that it has led
for a moment. What a kill does at each single write is asked by the fault campaign's story `gang`.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import time
from collections import defaultdict
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Final

import aiohttp

from controllers.api import names
from controllers.api.gangs import GANG, GANG_SIZE
from controllers.api.resources import GPUDEVICE, GPUPOOL, POD
from controllers.api.tenant import TenantPod
from controllers.domain.queue.gates import is_gated
from controllers.runtime.reflector import Reflector, Scope
from controllers.runtime.store import Store
from reliability.bench.environment import MANAGER
from reliability.bench.fleet import CARDS, SHAPE
from reliability.bench.gpu_pool import POOL
from reliability.bench.rows import Result, Row, Sizes
from reliability.bench.subject import Subject
from reliability.kit.actors import create_namespace
from reliability.kit.process import total
from reliability.kit.progress import for_each, show_progress
from sim import controlplane
from sim.cluster import Options, bring_up
from sim.module.processes import Timers
from sim.view import LateError, View
from sim.workload import gpu_pod, gpupool
from tools.errors import UserError

if TYPE_CHECKING:
    from pathlib import Path

    from sim.controlplane import ControlPlane
    from tools.programs import Progress

TEAM: Final = "gangs"
SIZE: Final = 4
WITHIN: Final = 120.0
"""Seconds for what takes moments."""
TRIES: Final = 480.0
"""Seconds in which all gangs are to have run: where they have not, they wait for each other."""
RUNS: Final = 0.5
"""Seconds that a gang runs."""
AT_WORK: Final = (0.0, 2.0)
"""Seconds between the moment at which the controller leads and the next kill."""
TIMERS: Final = Timers(lease_duration=5.0, renew_deadline=4.0, retry_period=0.5)


@dataclass(frozen=True, slots=True)
class Run:
    """How the gangs fared; times in seconds."""

    served: int
    """Gangs all of whose pods ran at once."""
    torn: int
    """Gangs of which a part still waits in the end, and others were let go on."""
    longest_torn: float
    """That a gang was partly let go on."""
    kills: int
    took: float


def measure(folder: Path, sizes: Sizes, progress: Progress) -> Result:
    """Measure on a cluster in `folder`; raises UserError."""
    nodes = -(-sizes.gang_cards // CARDS)
    try:
        plane = bring_up(folder, Options(nodes=nodes, profile=f"{SHAPE}={nodes}", timers=TIMERS), progress)
        return asyncio.run(_measure(plane, nodes, sizes, progress))
    except LateError as late:
        raise UserError(str(late)) from late
    finally:
        controlplane.down(folder)


async def _measure(plane: ControlPlane, nodes: int, sizes: Sizes, progress: Progress) -> Result:
    async with View(plane.kubeconfig) as view:
        async with show_progress(progress, f"{nodes} nodes become ready for pooling"):
            await view.until(lambda: view.ready() == nodes, WITHIN, view.unready)
        await create_namespace(view.client, TEAM, manager=MANAGER)
        await view.client.create(GPUPOOL, gpupool(POOL), manager=MANAGER)
        for card in sorted(device.name for device in view.devices)[: sizes.gang_cards]:
            body = {"metadata": {"annotations": {names.ASSIGNMENT: POOL}}}
            await view.client.merge(GPUDEVICE, card, body, manager=MANAGER)
        async with show_progress(progress, f"{sizes.gang_cards} cards come into the pool"):
            await view.until(lambda: _available(view) == sizes.gang_cards, WITHIN, lambda: str(_available(view)))
        calm = await _Gangs(view, plane, sizes, progress).run(kills=False)
        killed = await _Gangs(view, plane, sizes, progress).run(kills=True)
    rows = (
        *_rows(f"{sizes.gangs} gangs of {SIZE} for {sizes.gang_cards} cards", calm, sizes),
        *_rows(f"the same, gpupool-controller killed {killed.kills} times", killed, sizes),
    )
    return Result(rows, {"calm": asdict(calm), "killed": asdict(killed)})


def _available(view: View) -> int:
    pool = view.pools.get(POOL)
    return pool.status.capacity.available if pool is not None and pool.status.capacity is not None else 0


class _Gangs:
    """One run; follows the pods by a watch of its own."""

    def __init__(self, view: View, plane: ControlPlane, sizes: Sizes, progress: Progress) -> None:
        self._view, self._client, self._plane = view, view.client, plane
        self._sizes, self._progress = sizes, progress
        self._pods: Store[TenantPod] = Store("Pod")
        self._served: set[str] = set()
        self._torn_since: dict[str, float] = {}
        self._longest = 0.0
        self._kills = 0
        self._ends: list[asyncio.Task[None]] = []

    async def run(self, *, kills: bool) -> Run:
        """Create the gangs' pods, and wait until all have run."""
        scope = Scope(labels=names.LABEL_POOL, fields=names.TENANT_PODS)
        reflector = Reflector(self._client, POD, TenantPod, self._pods, scope=scope)
        following = [asyncio.create_task(reflector.run())]
        try:
            await reflector.synced.wait()
            self._pods.subscribe(lambda _old, _new: self._changed())
            self._view.pods.subscribe(lambda _old, _new: self._changed())
            if kills:
                following.append(asyncio.create_task(self._kill()))
            began = time.monotonic()
            names_of = [f"gang-{number}-{member}" for number in range(self._sizes.gangs) for member in range(SIZE)]
            random.Random(1).shuffle(names_of)  # noqa: S311 - no secret
            what = f"gangs run{' while the controller is killed' if kills else ''}"
            async with show_progress(self._progress, what, lambda: len(self._served), self._sizes.gangs):
                await for_each(names_of, self._create)
                while len(self._served) < self._sizes.gangs and time.monotonic() - began < TRIES:
                    self._changed()
                    await asyncio.sleep(0.1)
            took = time.monotonic() - began
            torn = len(self._torn_since)
        finally:
            for task in following:
                task.cancel()
        await self._clear()
        return Run(len(self._served), torn, self._longest, self._kills, took)

    async def _create(self, name: str) -> None:
        pod = gpu_pod(name, POOL, 1)
        pod["metadata"]["annotations"] = {GANG: name.rpartition("-")[0], GANG_SIZE: str(SIZE)}
        await self._client.create(POD, pod, TEAM, manager=MANAGER)

    def _changed(self) -> None:
        """Look at all gangs: who runs, and who is torn."""
        gangs: dict[str, list[TenantPod]] = defaultdict(list)
        for pod in self._pods:
            gangs[pod.metadata.annotations.get(GANG, "")].append(pod)
        ready = {pod.name for pod in self._view.pods if pod.metadata.namespace == TEAM and pod.ready}
        now = time.monotonic()
        for gang, pods in gangs.items():
            waiting = sum(is_gated(pod.spec) for pod in pods)
            if 0 < waiting < len(pods):
                self._torn_since.setdefault(gang, now)
            elif (since := self._torn_since.pop(gang, None)) is not None:
                self._longest = max(self._longest, now - since)
            if gang not in self._served and len(pods) == SIZE and {pod.name for pod in pods} <= ready:
                self._served.add(gang)
                self._ends.append(asyncio.create_task(self._end(pods)))

    async def _end(self, pods: list[TenantPod]) -> None:
        await asyncio.sleep(RUNS)
        for pod in pods:
            await self._client.request("DELETE", POD.path(TEAM, pod.name), body={"gracePeriodSeconds": 0})

    async def _kill(self) -> None:
        """Kill the controller each time that it leads again."""
        chance, killed = random.Random(2), 0  # noqa: S311 - no secret
        while True:
            await asyncio.sleep(0.1)
            state = controlplane.status(self._plane.dir).processes[names.POOL_CONTROLLER]
            if state.phase != "ready" or state.pid in (None, killed):
                continue
            with suppress(OSError, aiohttp.ClientError):
                found = Subject(self._plane.dir, state.name, state.pid, state.started, state.ports["health"], 0)
                if total(await found.metrics(), "gpu_leader"):
                    await asyncio.sleep(chance.uniform(*AT_WORK))
                    os.kill(state.pid, signal.SIGKILL)
                    killed, self._kills = state.pid, self._kills + 1

    async def _clear(self) -> None:
        await asyncio.gather(*self._ends)
        await self._client.request("DELETE", POD.path(TEAM), query={"gracePeriodSeconds": "0"}, timeout=60)
        await self._view.until(
            lambda: _available(self._view) == self._sizes.gang_cards, WITHIN, lambda: str(_available(self._view))
        )


def _rows(what: str, run: Run, sizes: Sizes) -> tuple[Row, ...]:
    return (
        Row(f"{what}: gangs that ran", run.served, digits=0, exactly=sizes.gangs),
        Row("  torn at rest", run.torn, digits=0, exactly=0.0),
        Row("  longest that a gang was partly let go on", run.longest_torn, "s", 2),
        Row("  all had run after", run.took, "s", 1),
    )
