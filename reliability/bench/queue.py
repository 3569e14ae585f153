"""What a full pool costs those who create pods, and how fast a freed card finds its next pod: on a whole cluster.

The cluster of `make up`: scheduler, two replicas of the webhook, simulated nodes with a hundred free cards in one pool.
First a thousand pods at once, of ten namespaces, twice: as the floor they ask for no card, then for one each. Then
pods that have cards are deleted one by one: a latency counts from the answer to the deletion to the moment at which a
watch shows another pod without our gate, so it includes the node's part, whose plugin has to see that the card is
free. Then series of pods with and without a card in turn, while the pool is full and pods wait. Last so many pods wait
as `queue_waiting`, and for a minute nothing happens.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from controllers.api import names
from controllers.api.resources import POD
from controllers.api.tenant import TenantPod
from controllers.domain.queue.gates import is_gated
from controllers.runtime.reflector import Reflector, Scope
from controllers.runtime.store import Store
from reliability.bench import stats
from reliability.bench.creators import CARD, PLAIN, Creation, Creators
from reliability.bench.environment import MANAGER
from reliability.bench.fleet import CARDS
from reliability.bench.gpu_pool import POOL, cards
from reliability.bench.quiet import wait_for_quiet
from reliability.bench.rows import Result, Row, Sizes
from reliability.bench.subject import Subject
from reliability.bench.whole_cluster import ready_for_pooling, slots_available, whole_cluster
from reliability.kit.actors import create_pool
from reliability.kit.caches import kept
from reliability.kit.process import total
from reliability.kit.progress import show_progress
from sim import controlplane
from sim.view import View
from tools.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sim.controlplane import ControlPlane
    from tools.programs import Progress

WITHIN = 120.0
"""Seconds for what takes moments."""


@dataclass(frozen=True, slots=True)
class Burst:
    """All at once; times in seconds."""

    pods: int
    """All of them were created; one that is refused ends the measurement."""
    at_once: int
    """Pods that had their card when they were created."""
    took: stats.Summary
    plain: stats.Summary
    """The same of as many pods that ask for no card."""
    too_many: int
    """Pods that were released beyond the cards that there are; which card each gets is kubelet's to say."""
    given: int
    """Pods that were released in the end."""
    all_given: float
    """Seconds from the first creation to the last card's promise."""


@dataclass(frozen=True, slots=True)
class Quiet:
    """A minute in which many wait and nothing changes."""

    waiting: int
    writes: float
    cores: dict[str, float]
    """By process."""
    grown: dict[str, float]
    """Megabytes of resident memory that the waiting pods add, by process."""


def measure(folder: Path, sizes: Sizes, progress: Progress) -> Result:
    """Measure on a cluster in `folder`; raises UserError."""
    nodes = -(-sizes.queue_cards // CARDS)
    with whole_cluster(folder, nodes, progress) as plane:
        return asyncio.run(_measure(plane, nodes, sizes, progress))


async def _measure(plane: ControlPlane, nodes: int, sizes: Sizes, progress: Progress) -> Result:
    async with View(plane.kubeconfig) as view:
        await ready_for_pooling(view, nodes, progress)
        await create_pool(view.client, POOL, manager=MANAGER, deviceAssignment={"requireAnnotation": False})
        await slots_available(view, POOL, nodes * CARDS, progress)
        async with Creators(plane, view.client) as creators:
            return await _Bench(view, plane, creators, sizes, progress).run()


class _Bench:
    """One run; follows the pods by a watch of its own."""

    def __init__(self, view: View, plane: ControlPlane, creators: Creators, sizes: Sizes, progress: Progress) -> None:
        self._client, self._folder, self._creators = view.client, plane.dir, creators
        self._sizes, self._progress = sizes, progress
        found = controlplane.status(plane.dir).processes
        self._processes = {
            name: Subject.of(plane.dir, state)
            for name, state in found.items()
            if name == names.POOL_CONTROLLER or name.startswith(names.WEBHOOK)
        }
        self._pods: Store[TenantPod] = Store("Pod")
        self._changed = asyncio.Event()
        self._pods.subscribe(lambda _old, _new: self._changed.set())

    async def run(self) -> Result:
        scope = Scope(labels=names.LABEL_POOL, fields=names.TENANT_PODS)
        async with kept(Reflector(self._client, POD, TenantPod, self._pods, scope=scope)):
            burst = await self._burst()
            freed = await self._freed()
            series = await self._series()
            quiet = await self._quiet()
        raw = {"burst": asdict(burst), "freed": freed, "series": series, "quiet": asdict(quiet)}
        return Result(_rows(burst, freed, series, quiet), raw)

    async def _until(self, true: Callable[[], bool], what: str) -> None:
        """Wait until the watch shows something; raises UserError."""
        limit = time.monotonic() + WITHIN
        while not true():
            self._changed.clear()
            try:
                async with asyncio.timeout(max(0.0, limit - time.monotonic())):
                    await self._changed.wait()
            except TimeoutError:
                raise UserError(f"waited {WITHIN:.0f} s for {what}") from None

    def _served(self) -> list[TenantPod]:
        return [pod for pod in self._pods if not is_gated(pod.spec)]

    async def _burst(self) -> Burst:
        count, slots = self._sizes.queue_burst, len(await cards(self._client))
        async with show_progress(self._progress, f"opening {count} connections"):
            await self._creators.open(count)
        async with show_progress(self._progress, f"{count} pods at once that ask for no card"):
            plain = await self._creators.several(count, PLAIN, count)
            await self._creators.clear()
        await wait_for_quiet(self._folder, self._sizes.patience)
        began = time.perf_counter()
        async with show_progress(self._progress, f"{count} pods at once for {slots} cards"):
            made = await self._creators.several(count, CARD, count)
            await self._until(lambda: len(self._served()) >= min(slots, count), "every card to be given")
        return _judged(made, plain, self._served(), slots, time.perf_counter() - began)

    async def _freed(self) -> list[float]:
        """Seconds from a freed card to the next pod's release."""
        found: list[float] = []
        wanted = self._sizes.queue_freed
        async with show_progress(self._progress, "cards are freed one by one", lambda: len(found), wanted):
            while len(found) < wanted:
                served = self._served()
                pod = served[len(found) % len(served)]
                known = {each.key for each in served}
                path = POD.path(pod.metadata.namespace, pod.name)
                await self._client.request("DELETE", path, body={"gracePeriodSeconds": 0})
                began = time.perf_counter()
                await self._until(lambda known=known: any(p.key not in known for p in self._served()), "the next pod")  # type: ignore[misc]
                found.append(time.perf_counter() - began)
                await asyncio.sleep(self._sizes.queue_pause)
        return found

    async def _series(self) -> list[float]:
        """Pods a second while pods wait, over pods a second without the webhook."""
        found: list[float] = []
        pods, at_once = self._sizes.series_pods, self._sizes.creators

        async def one(resource: str) -> float:
            began = time.perf_counter()
            await self._creators.several(pods, resource, at_once)
            return pods / (time.perf_counter() - began)

        async with show_progress(
            self._progress, "series of pods with and without cards", lambda: len(found), self._sizes.series_rounds
        ):
            for _ in range(self._sizes.series_rounds):
                await wait_for_quiet(self._folder, self._sizes.patience)
                plain = await one(PLAIN)
                found.append(await one(CARD) / plain)
        return found

    async def _quiet(self) -> Quiet:
        """Bring the queue to its size, let it come to rest, and look at it for a minute."""
        processes = self._processes
        await self._creators.clear()
        await self._until(lambda: not list(self._pods), "the pods to go")
        await self._creators.several(self._sizes.queue_cards, CARD, 8)
        await self._rest(processes.values())
        before = {name: subject.rss_mb() for name, subject in processes.items()}
        lacking = self._sizes.queue_waiting
        async with show_progress(self._progress, f"{lacking} pods come to wait"):
            await self._creators.several(lacking, CARD, 16)
            # A pod says why it waits when it has waited for a second.
            await self._until(
                lambda: all(pod.status.queued is not None for pod in self._pods if is_gated(pod.spec)),
                "their conditions",
            )
            await self._rest(processes.values())
        grown = {name: subject.rss_mb() - before[name] for name, subject in processes.items()}
        cpu = {name: subject.cpu_seconds() for name, subject in processes.items()}
        writes = await self._writes(processes.values())
        async with show_progress(self._progress, f"{self._sizes.queue_quiet:.0f} s without a change"):
            began = time.perf_counter()
            await asyncio.sleep(self._sizes.queue_quiet)
            took = time.perf_counter() - began
        cores = {name: (subject.cpu_seconds() - cpu[name]) / took for name, subject in processes.items()}
        waiting = sum(is_gated(pod.spec) for pod in self._pods)
        return Quiet(waiting, await self._writes(processes.values()) - writes, cores, grown)

    async def _rest(self, processes: Any) -> None:
        for subject in processes:
            await subject.until_idle(WITHIN * 3)

    async def _writes(self, processes: Any) -> float:
        return sum([total(await subject.metrics(), "gpu_writes_total") for subject in processes])


def _judged(
    made: Sequence[Creation], plain: Sequence[Creation], served: list[TenantPod], slots: int, took: float
) -> Burst:
    """What became of the pods, of which none has ended; `slots`: the cards that there are."""
    at_once = sum(names.DEVICES in (creation.pod["metadata"].get("annotations") or {}) for creation in made)
    return Burst(
        pods=len(made),
        at_once=at_once,
        took=stats.summary([creation.seconds for creation in made]),
        plain=stats.summary([creation.seconds for creation in plain]),
        too_many=max(0, len(served) - slots),
        given=len(served),
        all_given=took,
    )


def _rows(burst: Burst, freed: list[float], series: list[float], quiet: Quiet) -> tuple[Row, ...]:
    return (
        Row(f"{burst.pods} pods at once that ask for no card: p50 of a creation", 1000 * burst.plain.p50, "ms", 0),
        Row("  p99 of a creation", 1000 * burst.plain.p99, "ms", 0),
        Row(f"{burst.pods} pods at once for {burst.given} cards, two replicas: p50", 1000 * burst.took.p50, "ms", 0),
        Row("  p99 of a creation", 1000 * burst.took.p99, "ms", 0, at_most=250.0),
        Row("  p99 ÷ p99 of those that ask for no card", burst.took.p99 / burst.plain.p99, digits=1),
        Row("  pods released beyond the cards", burst.too_many, digits=0, exactly=0.0),
        Row("  had their card when they were created", burst.at_once, digits=0),
        Row("  every card given after", burst.all_given, "s", 1),
        Row("pods/s while pods wait ÷ pods/s without the webhook", median(series), at_least=0.4),
        Row("card freed → next pod released p50", 1000 * stats.percentile(freed, 0.5), "ms", 0, at_most=100.0),
        Row("card freed → next pod released p99", 1000 * stats.percentile(freed, 0.99), "ms", 0, at_most=500.0),
        Row(f"{quiet.waiting} pods wait, nothing changes: writes", quiet.writes, digits=0, exactly=0.0),
        Row("  cores of gpupool-controller", quiet.cores[names.POOL_CONTROLLER], digits=4, at_most=0.01),
        Row("  memory that they add to gpupool-controller", quiet.grown[names.POOL_CONTROLLER], "MB", 1, at_most=10.0),
        *(
            Row(f"  memory that they add to {name}", grown, "MB", 1)
            for name, grown in quiet.grown.items()
            if name != names.POOL_CONTROLLER
        ),
    )
