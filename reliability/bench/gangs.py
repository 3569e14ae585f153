"""Gangs whose pods come in any order, many more than there are cards for, while gpupool-controller is killed.

The cluster of `make up`, but that leases last five seconds. A gang ends half a second after all its pods run, so that
others get its cards. First nothing happens to the controller; then it is killed (`kill -9`) so many times, each time
that it has led for a moment. What a kill does at each single write is asked by the fault campaign's story `gang`.
"""

from __future__ import annotations

import asyncio
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
from controllers.api.resources import GPUDEVICE, POD
from controllers.api.tenant import TenantPod
from controllers.domain.queue.gates import is_gated
from controllers.runtime.reflector import Reflector, Scope
from controllers.runtime.store import Store
from reliability.bench.environment import MANAGER
from reliability.bench.fleet import CARDS
from reliability.bench.gpu_pool import POOL
from reliability.bench.rows import Result, Row, Sizes
from reliability.bench.subject import Subject
from reliability.bench.whole_cluster import ready_for_pooling, slots_available, whole_cluster
from reliability.kit.actors import create_namespace, create_pod, create_pool, delete
from reliability.kit.caches import kept
from reliability.kit.process import total
from reliability.kit.progress import for_each, show_progress
from sim import controlplane
from sim.module.processes import Timers
from sim.view import View
from sim.workload import gpu_pod

if TYPE_CHECKING:
    from pathlib import Path

    from sim.controlplane import ControlPlane
    from tools.programs import Progress

TEAM: Final = "gangs"
SIZE: Final = 4
TRIES: Final = 600.0
"""Seconds in which all gangs are to have run: where they have not, they wait for each other."""
RUNS: Final = 0.5
"""Seconds that a gang runs."""
LEADS: Final = (0.0, 2.0)
"""Seconds between the moment at which the controller leads and the next kill."""
TIMERS: Final = Timers(lease_duration=5.0, renew_deadline=4.0, retry_period=0.5)
TORN: Final = 20.0
"""Seconds for which a gang may be partly released: a killed process is started again after up to 5, and leads when the
lease of the one before has ended."""


@dataclass(frozen=True, slots=True)
class Run:
    """How the gangs fared; times in seconds."""

    served: int
    """Gangs all of whose pods ran at once."""
    torn: int
    """Gangs that were partly released for longer than `TORN`."""
    longest_torn: float
    """That a gang was partly released."""
    kills: int
    took: float


def measure(folder: Path, sizes: Sizes, progress: Progress) -> Result:
    """Measure on a cluster in `folder`; raises UserError."""
    nodes = -(-sizes.gang_cards // CARDS)
    with whole_cluster(folder, nodes, progress, TIMERS) as plane:
        return asyncio.run(_measure(plane, nodes, sizes, progress))


async def _measure(plane: ControlPlane, nodes: int, sizes: Sizes, progress: Progress) -> Result:
    cards = sizes.gang_cards
    async with View(plane.kubeconfig) as view:
        await ready_for_pooling(view, nodes, progress)
        await create_namespace(view.client, TEAM, manager=MANAGER)
        await create_pool(view.client, POOL, manager=MANAGER)
        for card in sorted(device.name for device in view.devices)[:cards]:
            body = {"metadata": {"annotations": {names.ASSIGNMENT: POOL}}}
            await view.client.merge(GPUDEVICE, card, body, manager=MANAGER)
        runs = []
        for kills in (0, sizes.gang_kills):
            await slots_available(view, POOL, cards, progress)
            runs.append(await _run(view, plane, sizes, progress, kills))
    calm, killed = runs
    what = f"{sizes.gangs} gangs of {SIZE} for {cards} cards"
    rows = (*_rows(what, calm, sizes), *_rows(f"{what}, gpupool-controller killed", killed, sizes))
    kills_row = Row("  kills", killed.kills, digits=0, exactly=sizes.gang_kills)
    return Result((*rows, kills_row), {"calm": asdict(calm), "killed": asdict(killed)})


async def _run(view: View, plane: ControlPlane, sizes: Sizes, progress: Progress, kills: int) -> Run:
    """Create the gangs' pods, and wait until all have run."""
    pods: Store[TenantPod] = Store("Pod")
    scope = Scope(labels=names.LABEL_POOL, fields=names.TENANT_PODS)
    async with kept(Reflector(view.client, POD, TenantPod, pods, scope=scope)):
        gangs = _Gangs(view, pods)
        pods.subscribe(lambda _old, _new: gangs.look())
        began = time.monotonic()
        order = [f"gang-{kills}-{number}-{member}" for number in range(sizes.gangs) for member in range(SIZE)]
        random.Random(1).shuffle(order)  # noqa: S311 - no secret
        what = f"gangs run{f' while the controller is killed {kills} times' if kills else ''}"
        async with show_progress(progress, what, lambda: len(gangs.served), sizes.gangs), asyncio.TaskGroup() as group:
            killer = group.create_task(_kill(plane, kills, began + TRIES))
            await for_each(order, gangs.create)
            # Who is served before the last kill is no reason to spare the controller.
            while not (killer.done() and len(gangs.served) == sizes.gangs) and time.monotonic() < began + TRIES:
                gangs.look()
                for gang in gangs.over():
                    group.create_task(gangs.end(gang))
                await asyncio.sleep(0.1)
        took = time.monotonic() - began
        await view.client.request("DELETE", POD.path(TEAM), query={"gracePeriodSeconds": "0"}, timeout=60)
    return Run(len(gangs.served), gangs.torn, gangs.longest(), killer.result(), took)


class _Gangs:
    """The gangs of one run, as caches show them."""

    def __init__(self, view: View, pods: Store[TenantPod]) -> None:
        self._view, self._pods = view, pods
        self.served: set[str] = set()
        self._ending: set[str] = set()
        self._torn_since: dict[str, float] = {}
        self._spans: dict[str, float] = defaultdict(float)
        """By gang, the longest for which it was partly released."""

    async def create(self, name: str) -> None:
        """Create a pod; its gang is its name but for the last number."""
        pod = gpu_pod(name, POOL, 1)
        pod["metadata"]["annotations"] = {GANG: name.rpartition("-")[0], GANG_SIZE: str(SIZE)}
        await create_pod(self._view.client, pod, TEAM, manager=MANAGER)

    def look(self) -> None:
        """Note who runs, and who is partly released."""
        now, ready = time.monotonic(), {pod.key for pod in self._view.pods if pod.ready}
        for gang, pods in self._by_gang().items():
            waiting = sum(is_gated(pod.spec) for pod in pods)
            if 0 < waiting < len(pods):
                since = self._torn_since.setdefault(gang, now)
                self._spans[gang] = max(self._spans[gang], now - since)
            else:
                self._torn_since.pop(gang, None)
            if len(pods) == SIZE and {pod.key for pod in pods} <= ready:
                self.served.add(gang)

    @property
    def torn(self) -> int:
        """Gangs that were partly released for too long."""
        return sum(span > TORN for span in self._spans.values())

    def longest(self) -> float:
        """Seconds for which one was."""
        return max(self._spans.values(), default=0.0)

    def over(self) -> set[str]:
        """Gangs that have begun to run since this was asked last."""
        found = self.served - self._ending
        self._ending |= found
        return found

    async def end(self, gang: str) -> None:
        """Let a gang end after its time."""
        await asyncio.sleep(RUNS)
        for pod in self._by_gang().get(gang, ()):
            await delete(self._view.client, POD, pod.name, TEAM)

    def _by_gang(self) -> dict[str, list[TenantPod]]:
        found: dict[str, list[TenantPod]] = defaultdict(list)
        for pod in self._pods:
            found[pod.metadata.annotations.get(GANG, "")].append(pod)
        return found


async def _kill(plane: ControlPlane, times: int, until: float) -> int:
    """Kill the controller so many times, each time that it leads again; returns how often that was, before `until`."""
    chance, kills, last = random.Random(2), 0, None  # noqa: S311 - no secret
    while kills < times and time.monotonic() < until:
        await asyncio.sleep(0.1)
        state = controlplane.status(plane.dir).processes[names.POOL_CONTROLLER]
        if state.phase != "ready" or state.identity is None or state.identity == last:
            continue
        with suppress(OSError, aiohttp.ClientError):
            if total(await Subject.of(plane.dir, state).metrics(), "gpu_leader"):
                await asyncio.sleep(chance.uniform(*LEADS))
                state.identity.signal(signal.SIGKILL)
                last, kills = state.identity, kills + 1
    return kills


def _rows(what: str, run: Run, sizes: Sizes) -> tuple[Row, ...]:
    return (
        Row(f"{what}: gangs that ran", run.served, digits=0, exactly=sizes.gangs),
        Row(f"  partly released for longer than {TORN:g} s", run.torn, digits=0, exactly=0.0),
        Row("  longest with some pods released and others gated", run.longest_torn, "s", 2),
        Row("  all had run after", run.took, "s", 1),
    )
