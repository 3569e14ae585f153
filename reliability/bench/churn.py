"""Half an hour in which more jobs come than there are cards for, with a queue and, the same jobs, with refusals.

Two clusters of `make up`, side by side, so that both have the same machine: the real scheduler and Job controller, two
replicas of the webhook, simulated nodes, whose pods KWOK ends after their time. Jobs come at their times whatever
became of those before (`churn_trace`). Where pods are refused, the Job controller tries again by its own back-off. Four
times a second it is looked at which free cards a pod that waits could have had.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from contextlib import AsyncExitStack, ExitStack
from dataclasses import asdict, replace
from math import inf
from typing import TYPE_CHECKING, Any, Final

from controllers.api.queue import QueueHold
from controllers.domain.issuing import issuable
from controllers.domain.named_devices import named_devices, named_nodes
from controllers.domain.request import units_of
from reliability.bench import churn_trace, stats
from reliability.bench.churn_trace import MIX, TEAMS, Run, jain, sample
from reliability.bench.environment import MANAGER
from reliability.bench.fleet import CARDS
from reliability.bench.gpu_pool import POOL
from reliability.bench.rows import Result, Row, Sizes
from reliability.bench.whole_cluster import ready_for_pooling, slots_available, whole_cluster
from reliability.kit.actors import create_namespace, create_pool
from reliability.kit.progress import show_progress
from sim.nodes.names import RUN_FOR
from sim.view import View
from sim.workload import pod_spec

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from controllers.api.kube import Pod
    from controllers.api.queue import OnShortage
    from reliability.bench.churn_trace import Arrival
    from sim.controlplane import ControlPlane
    from tools.programs import Progress

EVERY: Final = 0.25
"""Seconds between two looks."""
LATE: Final = 5.0
"""Seconds after its time at which a job may come: beyond that it is another trace, and is not judged."""
LARGE: Final = 8
"""Cards of the jobs whose waiting is compared."""
WAITING_MAX: Final = 10_000
"""Pods of a namespace that may wait: none is refused for their number."""
HOUR: Final = 3600.0
"""Seconds that a job of which the trace's are a small copy runs: `queue.hold.after` is as much shorter as they are."""
JOB: Final = "batch.kubernetes.io/job-name"


def measure(folder: Path, sizes: Sizes, progress: Progress) -> Result:
    """Measure on two clusters in `folder`."""
    nodes = sizes.churn_nodes
    folders: dict[OnShortage, Path] = {"Queue": folder / "queue", "Refuse": folder / "refuse"}
    arrivals = churn_trace.trace(nodes * CARDS, sizes)
    with ExitStack() as stack:
        planes = {mode: stack.enter_context(whole_cluster(below, nodes, progress)) for mode, below in folders.items()}
        queued, refused = asyncio.run(_both(planes, arrivals, sizes, progress))
    raw = {"jobs": len(arrivals), "queue": _raw(queued), "refuse": _raw(refused)}
    late = max(queued.late, refused.late)
    rows = [replace(row, judged=late <= LATE) for row in _rows(arrivals, sizes, queued, refused)]
    rows.append(Row("  a job came after its time, at most", late, "s", 1, note=f"judged up to {LATE:g} s"))
    return Result(tuple(rows), raw)


def _raw(run: Run) -> dict[str, Any]:
    return asdict(run) | {"elsewhere": sorted(run.elsewhere)}


async def _both(
    planes: Mapping[OnShortage, ControlPlane], arrivals: Sequence[Arrival], sizes: Sizes, progress: Progress
) -> list[Run]:
    """A run in each of the two modes, at once."""
    async with AsyncExitStack() as stack:
        runs: list[_Churn] = []
        for mode, plane in planes.items():
            view = await stack.enter_async_context(View(plane.kubeconfig))
            runs.append(churn := _Churn(view, mode, arrivals, sizes))
            await churn.prepare(progress)
        what = f"{len(arrivals)} jobs for {sizes.churn_nodes * CARDS} cards, seconds"
        async with show_progress(progress, what, lambda: round(runs[0].now()), round(sizes.churn_seconds)):
            return list(await asyncio.gather(*(churn.run() for churn in runs)))


class _Churn:
    """One run."""

    def __init__(self, view: View, mode: OnShortage, arrivals: Sequence[Arrival], sizes: Sizes) -> None:
        self._view, self._client, self._mode = view, view.client, mode
        self._arrivals, self._nodes = arrivals, sizes.churn_nodes
        self._of_job = {arrival.name: arrival for arrival in arrivals}
        self._hold_after = QueueHold().after * sizes.churn_job / HOUR
        self._came: dict[str, float] = {}
        self._run = Run(sizes.churn_seconds, sizes.churn_warm_up, sizes.churn_nodes * CARDS)
        self._begin = time.monotonic()

    async def prepare(self, progress: Progress) -> None:
        """Make the teams' namespaces and the pool, and wait for its cards."""
        await ready_for_pooling(self._view, self._nodes, progress)
        for team in TEAMS:
            await create_namespace(self._client, team, manager=MANAGER)
        spec = {
            "deviceAssignment": {"requireAnnotation": False},
            "queue": {
                "onShortage": self._mode,
                "maxWaiting": WAITING_MAX,
                "hold": {"after": f"{round(self._hold_after * 1000)}ms"},
            },
        }
        await create_pool(self._client, POOL, manager=MANAGER, **spec)
        await slots_available(self._view, POOL, self._run.cards, progress)

    async def run(self) -> Run:
        """Run the trace."""
        self._begin = time.monotonic()
        self._view.pods.subscribe(self._pod_changed)
        async with asyncio.TaskGroup() as group:
            group.create_task(self._look())
            for arrival in self._arrivals:
                group.create_task(self._come(arrival))
        return self._run

    def now(self) -> float:
        """Seconds since the trace began."""
        return time.monotonic() - self._begin

    async def _come(self, arrival: Arrival) -> None:
        """Create a job at its time."""
        await asyncio.sleep(max(0.0, arrival.at - self.now()))
        template = {
            "metadata": {"annotations": {RUN_FOR: f"{arrival.runs:.3f}s"}},
            "spec": pod_spec(POOL, arrival.cards, restartPolicy="Never"),
        }
        body = {
            "metadata": {"name": arrival.name},
            "spec": {"backoffLimit": 0, "ttlSecondsAfterFinished": 5, "template": template},
        }
        await self._client.request("POST", f"/apis/batch/v1/namespaces/{arrival.team}/jobs", body=body)
        self._came[arrival.name] = self.now()
        self._run.late = max(self._run.late, self.now() - arrival.at)

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        """A job begins when its pod is ready, and ends when that has ended or is gone."""
        pod, now = new or old, self.now()
        job = pod.metadata.labels.get(JOB, "") if pod is not None else ""
        if job not in self._of_job or now > self._run.seconds:
            return
        if new is not None and new.node and named_devices(new) and new.node not in named_nodes(new):
            self._run.elsewhere.add(job)
        if new is not None and new.ready:
            self._run.began.setdefault(job, now)
        elif job in self._run.began and (new is None or new.finished):
            self._run.ended.setdefault(job, now)

    async def _look(self) -> None:
        """Follow how many free cards could be had by a pod that waits."""
        hold_after = self._hold_after if self._mode == "Queue" else inf
        while (now := self.now()) < self._run.seconds:
            if now >= self._run.warm_up:
                free = self._free()
                self._run.samples.append(sample(now, free, list(self._waiting()), hold_after=hold_after))
            await asyncio.sleep(EVERY)

    def _waiting(self) -> Iterator[tuple[int, float]]:
        """Cards that are waited for and since when: by pods that are gated, or by jobs whose pods are refused."""
        placed = {pod.metadata.labels.get(JOB, "") for pod in self._view.pods if named_devices(pod)}
        there = {pod.metadata.labels.get(JOB, "") for pod in self._view.pods}
        for job, came in self._came.items():
            waits = job in there if self._mode == "Queue" else True
            if waits and job not in placed and job not in self._run.began:
                yield self._of_job[job].cards, came

    def _free(self) -> dict[str, int]:
        """Cards that no pod has and that are promised to none, by node."""
        found: Counter[str] = Counter()
        node_of: dict[str, str] = {}
        for card in self._view.devices:
            if (node := card.status.node_name) is not None and issuable(card, POOL):
                found[node] += 1
                node_of[card.status.inventory_id or ""] = node
        for pod in self._view.pods:
            devices = named_devices(pod)
            if devices and not pod.finished and (node := pod.node or node_of.get(devices[0])):
                found[node] -= units_of(pod, POOL)
        return {node: max(0, count) for node, count in found.items()}


def _rows(arrivals: Sequence[Arrival], sizes: Sizes, queued: Run, refused: Run) -> Iterator[Row]:
    share, minutes = "% of card time", sizes.churn_seconds / 60
    least = min((each.waiting for each in queued.samples), default=0)
    what = f"{minutes:g} min, {len(arrivals)} jobs of {len(TEAMS)} teams for {queued.cards} cards"
    yield Row(f"{what}: jobs that wait, at least", least, digits=0, at_least=1)
    idle = "  cards idle though a waiting pod fits, beside those that queue.hold keeps"
    yield Row(idle, queued.share("idle"), share, at_most=1.0)
    yield Row("  cards that queue.hold keeps", queued.share("kept"), share)
    yield Row("  cards idle though a job waits that fits, with refusals", refused.share("idle"), share)
    used, other = queued.card_seconds(arrivals), refused.card_seconds(arrivals)
    yield Row("  Jain's index of card time, equal weights", jain(used.values()), "", 3, at_least=0.98)
    yield Row("  the same with refusals", jain(other.values()), "", 3)
    yield Row("  card time that was used ÷ with refusals", sum(used.values()) / max(1.0, sum(other.values())))
    note = f"{len(queued.began)} jobs began"
    yield Row(
        "  jobs that the scheduler took to another node than their cards'", len(queued.elsewhere), "", 0, note=note
    )
    for cards in MIX:
        waits, waits_refused = (sorted(run.waits(arrivals, cards)) for run in (queued, refused))
        if not waits:
            continue
        never, never_refused = (run.never_began(arrivals, cards) for run in (queued, refused))
        note = f"{never} such jobs never began, with refusals {never_refused}"
        if cards == LARGE:
            ratio = stats.percentile(waits, 0.95) / stats.percentile(waits_refused, 0.95)
            yield Row(f"  {cards}-card jobs: p95 of the wait ÷ with refusals", ratio, at_most=0.5, note=note)
        p50, p50_refused = (stats.percentile(each, 0.5) for each in (waits, waits_refused))
        note = f"with refusals {p50_refused:.0f} s" + ("" if cards == LARGE else f"; {note}")
        yield Row(f"  {cards}-card jobs: p50 of the wait", p50, "s", 0, note=note)
