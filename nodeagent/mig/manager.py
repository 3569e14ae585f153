"""The MIG manager's loop: scans, writes `migApply`, and has cards partitioned, under the node's lock.

Nothing is remembered from pass to pass that a restart would miss: the layout, `migApply` and the journal say how far
each card is. A pass that began work is finished before the process ends; what is cut short all the same goes on from
the journal.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

import structlog

from controllers.api.gpudevice import MIG_OVER, MigApply
from controllers.runtime.controller import Controller
from controllers.runtime.errors import Conflict
from nodeagent.mig import metrics
from nodeagent.mig.cards import plan
from nodeagent.mig.cards.records import HostEvidence, Loading, NodeScan
from nodeagent.mig.files import Taken

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Mapping, Sequence
    from contextlib import AbstractContextManager
    from typing import Protocol

    from controllers.api.gpudevice import GPUDevice
    from controllers.domain.mig import NodeLayout
    from nodeagent.mig.cards.records import Attempt, Job
    from nodeagent.mig.cluster import Cluster
    from nodeagent.mig.scanner import NodeScanner
    from nodeagent.mig.work import Memory, Work

    class NodeLock(Protocol):
        """The node's lock."""

        def held(self) -> AbstractContextManager[None]:
            """Have it; raises Taken."""


log = structlog.get_logger()
TAKEN_SECONDS: Final = 0.5
FINISH_SECONDS: Final = 50.0
"""For a pass that is under way when the process is to end; the DaemonSet grants 60 s."""
SAY_TRIES: Final = 5


@dataclass(frozen=True, slots=True)
class Intervals:
    """Seconds."""

    check: float = 5.0
    """Between two looks while a card waits for something that no watch tells of."""
    slowest: float = 300.0
    """The driver is asked again, where nothing that is to be seen has changed, after pauses that grow up to this."""
    clients_deadline: float = 420.0
    """For programs that hold cards open; bootstrap brings them back after ten minutes (`bootstrap.phaseDeadline`)."""


@dataclass(frozen=True, slots=True)
class Rest:
    """A pass came to nothing, and nobody tells when the next would not: what was to be seen then, and until when."""

    observed: Hashable
    pause: float
    until: float


@dataclass
class Manager:
    """The work of the process."""

    cluster: Cluster
    scanner: NodeScanner
    work: Work
    memory: Memory
    lock: NodeLock
    intervals: Intervals = field(default_factory=Intervals)
    clock: Callable[[], float] = time.monotonic
    acknowledged: bool = field(default=False, init=False)
    """Whether every version that the layout asks for has been acknowledged."""
    _held_since: dict[str, tuple[str, float]] = field(default_factory=dict, init=False)
    _blockers: dict[str, str] = field(default_factory=dict, init=False)
    _unreadable: bool = field(default=False, init=False)
    _stopping: bool = field(default=False, init=False)
    _loading: Loading | None = field(default=None, init=False)
    """That of the look at hand: what is said of a card was seen under it."""
    _evidence: HostEvidence = field(default_factory=HostEvidence, init=False)
    """What was to be seen of the node at the last pass."""
    _rest: Rest | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        """Prepare; nothing is done before `run`."""
        self._controller = Controller("mig-manager", self._guarded, workers=1)
        self._busy = asyncio.Lock()

    def enqueue(self) -> None:
        """Ask for a pass."""
        self._controller.add("node")

    async def run(self) -> None:
        """Work until cancelled, and then to the end of the pass at hand."""
        self.enqueue()
        running = asyncio.create_task(self._controller.run(), name="passes")
        following = asyncio.create_task(self._follow(), name="signs")
        try:
            # Neither ends by itself: one that does has failed, and the process with it, rather than to go on deaf.
            await asyncio.wait((running, following), return_when=asyncio.FIRST_COMPLETED)
            for task in (running, following):
                if task.done():
                    task.result()
        except asyncio.CancelledError:
            self._stopping = True
            self.work.hurry()
            with suppress(TimeoutError):
                async with asyncio.timeout(FINISH_SECONDS), self._busy:
                    pass
            raise
        finally:
            for task in (running, following):
                task.cancel()
            await asyncio.gather(running, following, return_exceptions=True)

    async def _follow(self) -> None:
        """Ask for a pass when the node looks otherwise than at the last one: no watch tells of a driver loaded anew."""
        while True:
            await asyncio.sleep(self.intervals.check)
            if await self.scanner.collect_evidence(plan.by_address(self.cluster.cards()).keys()) != self._evidence:
                self.enqueue()

    async def _guarded(self, _: str) -> float | None:
        async with self._busy:
            return None if self._stopping else await self.turn()

    async def turn(self) -> float | None:
        """One pass; returns the seconds after which another is due whatever happens."""
        layout = self._layout()
        if layout is None:
            return None
        cards = plan.by_address(self.cluster.cards())
        self._evidence = await self.scanner.collect_evidence(cards.keys())
        loading = self._evidence.loading
        if plan.is_settled(layout, cards, loading):
            self._note(())
            self.acknowledged, self._rest = True, None
            return None
        if (left := self._left(layout, cards)) > 0:
            return left
        rests = self._blockers and not self._late() and not plan.is_stale(layout, cards, loading)
        if rests and plan.still_wait(self._blockers, layout, cards, await self._clients()):
            return self.intervals.check if plan.CLIENTS in self._blockers.values() else None
        try:
            with self.lock.held():
                return await self._turn(layout, cards)
        except Taken:
            return TAKEN_SECONDS

    def _layout(self) -> NodeLayout | None:
        layout = plan.desired_layout(self.cluster.layout())
        if layout is None and not self._unreadable:
            log.error("the node's layout cannot be relied on; cards stay as they are")
        self._unreadable = layout is None
        return layout

    async def _turn(self, layout: NodeLayout, cards: Mapping[str, GPUDevice]) -> float | None:
        attempts = plan.remembered(self.memory.read(), layout, cards)
        if attempts != self.memory.read():
            self.memory.write(attempts)
        look = await self.scanner.scan(cards.keys())
        self._loading = look.loading
        if look.unavailable_reason:
            log.warning("the driver tells nothing of the cards", why=look.unavailable_reason)
        cards = await self._tell(layout, cards, look, attempts)
        self.acknowledged = True
        jobs = plan.jobs(layout, cards, look, attempts, self.cluster.pods())
        if any(job.needs_reset and not job.blocker for job in jobs):
            jobs = plan.jobs(layout, cards, look, attempts, await self.cluster.clients())
        left = await self._without_late(jobs)
        ready = await self._begin([job for job in left if not job.blocker])
        if ready:
            await self._do(ready)
            return 0.0  # what it was is said; what came meanwhile is looked at anew
        self._note(left)
        obstacles = {job.blocker for job in left} - {plan.IN_USE}
        if not (plan.is_stale(layout, cards, look.loading) or look.lost or obstacles):
            return None
        # A gate that closes is to be seen by the quorum alone, and its card's deadline runs; no driver is asked for it.
        return self.intervals.check if plan.CLIENTS in obstacles else self._rested(layout, cards)

    def _observed_state(self, layout: NodeLayout, cards: Mapping[str, GPUDevice]) -> Hashable:
        """All that may change what a pass comes to, but for the driver's own answer."""
        return layout.version, self._evidence, plan.visible(cards), self.cluster.pods()

    def _left(self, layout: NodeLayout, cards: Mapping[str, GPUDevice]) -> float:
        """Seconds that the driver is left alone yet: nothing has changed since it was asked last."""
        rest = self._rest
        return (
            rest.until - self.clock()
            if rest is not None and rest.observed == self._observed_state(layout, cards)
            else 0.0
        )

    def _rested(self, layout: NodeLayout, cards: Mapping[str, GPUDevice]) -> float:
        """The pause after a pass that came to nothing: twice the one before it, where all looks the same."""
        seen, before = self._observed_state(layout, cards), self._rest
        same = before is not None and before.observed == seen
        pause = min(before.pause * 2, self.intervals.slowest) if before is not None and same else self.intervals.check
        self._rest = Rest(seen, pause, self.clock() + pause)
        return pause

    async def _tell(
        self, layout: NodeLayout, cards: Mapping[str, GPUDevice], look: NodeScan, attempts: Mapping[str, Attempt]
    ) -> dict[str, GPUDevice]:
        """Acknowledge every version; returns the cards as they are then."""
        parts = {part.address: part for part in layout.cards}
        after = dict(cards)
        for address, card in cards.items():
            now = card.status.mig_apply
            said = plan.plan_status(parts.get(address), now, look, attempts.get(address))
            if said != now:
                after[address] = await self._write_status(card, said)
        return after

    async def _write_status(self, card: GPUDevice, said: MigApply | None) -> GPUDevice:
        if said is not None and said.phase in MIG_OVER and (loading := self._loading) is not None:
            said = replace(said, boot_id=loading.boot, driver_load=loading.driver or None)
        after = await self.cluster.write_status(card, said)
        if said is not None and said.phase in MIG_OVER:
            metrics.CARDS.labels(said.phase.lower()).inc()
        log.info(
            "told of a card", card=card.name, phase=said.phase if said else None, why=said.reason if said else None
        )
        return after or card

    async def _clients(self) -> frozenset[str]:
        """Who holds cards open; nobody is asked where no card waits for that."""
        if plan.CLIENTS not in self._blockers.values():
            return frozenset()
        return self.cluster.pods() or await self.cluster.clients()

    def _late(self) -> bool:
        now = self.clock()
        return any(now - since >= self.intervals.clients_deadline for _, since in self._held_since.values())

    async def _without_late(self, jobs: Sequence[Job]) -> list[Job]:
        """The jobs less those whose card was held open for too long: these have failed."""
        now, left = self.clock(), []
        self._held_since = {job.address: self._since(job, now) for job in jobs if job.blocker == plan.CLIENTS}
        for job in jobs:
            since = self._held_since.get(job.address)
            if since is None or now - since[1] < self.intervals.clients_deadline:
                left.append(job)
                continue
            who = ", ".join(sorted(self.cluster.pods() or await self.cluster.clients()))
            after = f"{self.intervals.clients_deadline:g} s"
            why = f"ClientsStay: the card is to be reset, and was held open for {after} by {who}"
            if job.begun:
                why += f"; it stays as the work left it. {job.failed}".rstrip()
            await self._write_status(job.card, _failed(job, why))
            del self._held_since[job.address]
        return left

    def _since(self, job: Job, now: float) -> tuple[str, float]:
        before = self._held_since.get(job.address)
        return before if before is not None and before[0] == job.part.version else (job.part.version, now)

    async def _begin(self, jobs: Sequence[Job]) -> list[Job]:
        """Those that nobody uses by the quorum, each told of as Applying."""
        ready = []
        for job in jobs:
            card = await self.cluster.fresh(job.card)
            if card is None or not plan.is_clear(card, job.part):
                continue  # the cache is about to say so
            applying = MigApply(version=job.part.version, phase="Applying")
            if card.status.mig_apply != applying:
                try:
                    await self._write_status(card, applying)
                except Conflict:
                    continue  # somebody has just changed it
            ready.append(job)
        return ready

    async def _do(self, jobs: Sequence[Job]) -> None:
        log.info("dividing cards", cards=[job.address for job in jobs], again=[j.address for j in jobs if j.begun])
        started = time.monotonic()
        ends = await self.work.carry_out(jobs)
        metrics.WORK_SECONDS.observe(time.monotonic() - started)
        for job in jobs:
            why = ends[job.address]
            await self._end(job, _failed(job, why) if why else MigApply(version=job.part.version, phase="Done"))
        self.memory.write({address: a for address, a in self.memory.read().items() if address not in ends})

    async def _end(self, job: Job, said: MigApply) -> None:
        """Say how the work ended, where the cluster still reads of it; others write to the card meanwhile."""
        applying = MigApply(version=job.part.version, phase="Applying")
        for left in reversed(range(SAY_TRIES)):
            card = await self.cluster.fresh(job.card)
            if card is None or card.status.mig_apply != applying:
                return
            try:
                await self._write_status(card, said)
            except Conflict:
                if not left:
                    raise
            else:
                return

    def _note(self, jobs: Sequence[Job]) -> None:
        """Tell metrics and, at each change, the log what is waited for."""
        waits = {job.address: job.blocker for job in jobs}
        counted = Counter(waits.values())
        for why in plan.OBSTACLES:
            metrics.WAITING.labels(why).set(counted[why])
        for address, why in waits.items() - self._blockers.items():
            log.info("a card waits", address=address, why=why)
        self._blockers = waits


def _failed(job: Job, why: str) -> MigApply:
    return MigApply(version=job.part.version, phase="Failed", reason=why[: plan.REASON_MAX])
