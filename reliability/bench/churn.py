"""Half an hour in which more jobs come than there are cards for, with a queue and, the same jobs, with refusals.

Two clusters of `make up`, side by side, so that both have the same machine: the real scheduler and Job controller, two
replicas of the webhook, simulated nodes. Jobs come
at their times whatever became of those before (`churn_trace`); a pod that runs is told of as ended after its time, as
a kubelet does. Where pods are refused, the Job controller tries again by its own back-off. Four times a second it is
looked at which free cards a job that waits could have had.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter, defaultdict
from contextlib import AsyncExitStack, suppress
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Final

from controllers.api import names
from controllers.api.queue import QueueHold
from controllers.api.resources import GPUPOOL, POD
from controllers.domain.slots import issuable
from controllers.runtime.errors import NotFound
from reliability.bench import churn_trace, stats
from reliability.bench.churn_trace import Sample, sample
from reliability.bench.environment import MANAGER
from reliability.bench.fleet import CARDS, SHAPE
from reliability.bench.gpu_pool import POOL
from reliability.bench.rows import Result, Row, Sizes
from reliability.kit.actors import create_namespace
from reliability.kit.progress import show_progress
from sim import controlplane
from sim.cluster import Options, bring_up
from sim.view import LateError, View
from sim.workload import gpupool, pod_spec
from tools.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from controllers.api.kube import Pod
    from controllers.api.queue import OnShortage
    from reliability.bench.churn_trace import Arrival
    from sim.controlplane import ControlPlane
    from tools.programs import Progress

TEAMS: Final = tuple(f"churn-{number}" for number in range(10))
WITHIN: Final = 180.0
"""Seconds for what takes moments."""
EVERY: Final = 0.25
"""Seconds between two looks."""
LARGE: Final = 8
"""Cards of the jobs whose waiting is compared."""
KEPT_WAITING: Final = 10_000
"""Pods of a namespace that may wait: none is refused for their number."""


@dataclass
class Run:
    """One run of the trace; times in seconds since it began."""

    seconds: float
    cards: int
    began: dict[str, float] = field(default_factory=dict)
    """By job, when its pod was on a node."""
    used: dict[str, float] = field(default_factory=dict)
    """By team, card seconds after the warm-up."""
    samples: list[Sample] = field(default_factory=list)

    def waits(self, arrivals: Sequence[Arrival], cards: int) -> list[float]:
        """Of the jobs of a size; one that never began has waited until the end."""
        return [self.began.get(each.name, self.seconds) - each.at for each in arrivals if each.cards == cards]

    def share(self, part: str) -> float:
        """The mean of a part of the samples, over all cards."""
        return sum(getattr(each, part) for each in self.samples) / (len(self.samples) * self.cards)


def measure(folder: Path, sizes: Sizes, progress: Progress) -> Result:
    """Measure on two clusters in `folder`; raises UserError."""
    nodes = sizes.churn_nodes
    folders: dict[OnShortage, Path] = {"Queue": folder / "queue", "Refuse": folder / "refuse"}
    arrivals = churn_trace.trace(TEAMS, nodes * CARDS, sizes)
    try:
        options = Options(nodes=nodes, profile=f"{SHAPE}={nodes}")
        planes = {mode: bring_up(below, options, progress) for mode, below in folders.items()}
        queued, refused = asyncio.run(_both(planes, arrivals, sizes, progress))
    except LateError as late:
        raise UserError(str(late)) from late
    finally:
        for below in folders.values():
            controlplane.down(below)
    raw = {"jobs": len(arrivals), "queue": asdict(queued), "refuse": asdict(refused)}
    return Result(_rows(arrivals, sizes, queued, refused), raw)


async def _both(
    planes: Mapping[OnShortage, ControlPlane], arrivals: Sequence[Arrival], sizes: Sizes, progress: Progress
) -> list[Run]:
    """A run in each of the two modes, at once."""
    async with AsyncExitStack() as stack:
        runs = []
        for mode, plane in planes.items():
            view = await stack.enter_async_context(View(plane.kubeconfig))
            runs.append(churn := _Churn(view, arrivals, sizes))
            async with show_progress(progress, f"a pool of {sizes.churn_nodes * CARDS} cards, onShortage {mode}"):
                await churn.prepare(mode)
        what = f"{len(arrivals)} jobs for {sizes.churn_nodes * CARDS} cards, seconds"
        async with show_progress(progress, what, lambda: round(runs[0].now()), round(sizes.churn_seconds)):
            return list(await asyncio.gather(*(churn.run() for churn in runs)))


class _Churn:
    """One run."""

    def __init__(self, view: View, arrivals: Sequence[Arrival], sizes: Sizes) -> None:
        self._view, self._client = view, view.client
        self._arrivals, self._sizes = arrivals, sizes
        self._of_job = {arrival.name: arrival for arrival in arrivals}
        self._came: dict[str, float] = {}
        self._ends: list[asyncio.Task[None]] = []
        self._run = Run(sizes.churn_seconds, sizes.churn_nodes * CARDS)
        self._begin = time.monotonic()
        self._over = False

    async def prepare(self, on_shortage: OnShortage) -> None:
        """Make the teams' namespaces and the pool, and wait for its cards."""
        view, nodes = self._view, self._sizes.churn_nodes
        await view.until(lambda: view.ready() == nodes, WITHIN, view.unready)
        for team in TEAMS:
            await create_namespace(self._client, team, manager=MANAGER)
        queue = {"onShortage": on_shortage, "maxWaiting": KEPT_WAITING}
        pool = gpupool(POOL, deviceAssignment={"requireAnnotation": False}, queue=queue)
        await self._client.create(GPUPOOL, pool, manager=MANAGER)
        await view.until(lambda: self._available() == self._run.cards, WITHIN, lambda: str(self._available()))

    async def run(self) -> Run:
        """Run the trace."""
        self._begin = time.monotonic()
        self._view.pods.subscribe(self._pod_changed)
        looks = asyncio.create_task(self._look())
        try:
            await self._come()
            await asyncio.sleep(max(0.0, self._sizes.churn_seconds - self.now()))
        finally:
            self._over = True
            for task in (looks, *self._ends):
                task.cancel()
            await asyncio.gather(looks, *self._ends, return_exceptions=True)
        return self._run

    def now(self) -> float:
        """Seconds since the trace began."""
        return time.monotonic() - self._begin

    def _available(self) -> int:
        pool = self._view.pools.get(POOL)
        return pool.status.capacity.available if pool is not None and pool.status.capacity is not None else 0

    async def _come(self) -> None:
        """Create the jobs at their times."""
        for arrival in self._arrivals:
            await asyncio.sleep(max(0.0, arrival.at - self.now()))
            spec = pod_spec(POOL, arrival.cards, restartPolicy="Never")
            body = {
                "metadata": {"name": arrival.name},
                "spec": {"backoffLimit": 0, "ttlSecondsAfterFinished": 5, "template": {"spec": spec}},
            }
            self._came[arrival.name] = self.now()
            await self._client.request("POST", _jobs(arrival.team), body=body)

    def _pod_changed(self, _old: Pod | None, new: Pod | None) -> None:
        """A pod that is on a node has begun; it ends after its time."""
        job = new.metadata.labels.get("batch.kubernetes.io/job-name", "") if new is not None else ""
        if self._over or new is None or job not in self._of_job or job in self._run.began or not new.ready:
            return
        self._run.began[job] = self.now()
        self._ends.append(asyncio.create_task(self._end(new, self._of_job[job])))

    async def _end(self, pod: Pod, arrival: Arrival) -> None:
        began = self.now()
        try:
            await asyncio.sleep(arrival.runs)
        finally:
            # Of a run that is cut off by the end counts what there was of it.
            until, warm_up = min(self.now(), self._sizes.churn_seconds), self._sizes.churn_warm_up
            had = arrival.cards * max(0.0, until - max(began, warm_up))
            self._run.used[arrival.team] = self._run.used.get(arrival.team, 0.0) + had
        with suppress(NotFound):
            body = {"status": {"phase": "Succeeded"}}
            await self._client.merge(POD, pod.name, body, manager=MANAGER, namespace=arrival.team, subresource="status")

    async def _look(self) -> None:
        """Follow how many free cards could be had by a job that waits."""
        hold_after = QueueHold().after
        while True:
            await asyncio.sleep(EVERY)
            if self.now() < self._sizes.churn_warm_up:
                continue
            placed = self._placed()
            waiting = [(self._of_job[job].cards, came) for job, came in self._came.items() if job not in placed]
            self._run.samples.append(sample(self.now(), self._free(), waiting, hold_after=hold_after))

    def _placed(self) -> Mapping[str, object]:
        """Jobs that have cards reserved by now, or have begun."""
        pods = self._view.pods
        reserved = {
            pod.metadata.labels.get("batch.kubernetes.io/job-name", ""): pod
            for pod in pods
            if names.DEVICES in pod.metadata.annotations
        }
        return reserved | self._run.began

    def _free(self) -> dict[str, int]:
        """Cards that nobody has and that are promised to nobody, by node."""
        found: Counter[str] = Counter()
        for card in self._view.devices:
            status = card.status
            if issuable(card, POOL) and not status.allocations and not status.reservations and status.node_name:
                found[status.node_name] += 1
        return dict(found)


def _jobs(team: str) -> str:
    return f"/apis/batch/v1/namespaces/{team}/jobs"


def _rows(arrivals: Sequence[Arrival], sizes: Sizes, queued: Run, refused: Run) -> tuple[Row, ...]:
    share = "% of card time"
    what = f"{sizes.churn_seconds / 60:g} min, {len(arrivals)} jobs of {len(TEAMS)} teams for {queued.cards} cards: "
    large, other = (stats.percentile(run.waits(arrivals, LARGE), 0.95) for run in (queued, refused))
    sizes_of: dict[int, list[float]] = defaultdict(list)
    for run in (queued, refused):
        for cards in churn_trace.MIX:
            sizes_of[cards].append(stats.percentile(run.waits(arrivals, cards), 0.5))
    least = min((each.waiting for each in queued.samples), default=0)
    return (
        Row(f"{what}jobs that wait, at least", least, digits=0, at_least=1),
        Row("  cards idle though a waiting pod fits", 100 * queued.share("idle"), share, at_most=1.0),
        Row("  the same where pods are refused", 100 * refused.share("idle"), share),
        Row("  cards kept for a pod that has waited for 10 minutes", 100 * queued.share("kept"), share),
        Row("  Jain's index of card time, equal weights", churn_trace.jain(queued.used.values()), "", 3, at_least=0.98),
        Row("  the same where pods are refused", churn_trace.jain(refused.used.values()), "", 3),
        Row(f"  {LARGE}-card jobs: p95 of the wait ÷ where pods are refused", large / other, at_most=0.5),
        *(
            Row(f"  {cards}-card jobs: p50 of the wait, and {then:.0f} s where pods are refused", now, "s", 0)
            for cards, (now, then) in sizes_of.items()
        ),
        Row("  jobs that began ÷ where pods are refused", len(queued.began) / max(1, len(refused.began)), at_least=1.0),
    )
