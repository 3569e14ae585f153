"""One control plane between measurements: nodes join, everything is recorded, everything is wiped.

The end of a cold start is told by a watch of GPUNodeInventories, whose events are few; that
every card is recorded is looked at afterwards, when nothing is timed any more.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from controllers.api import names
from controllers.api.resources import GPUDEVICE, GPUNODEINVENTORY, NODE, NODEFEATURE
from controllers.runtime.client import Client
from reliability.bench.environment import MANAGER, Environment
from reliability.bench.fleet import CARDS, Member, Write, writes
from reliability.bench.floor import RawClient
from reliability.bench.quiet import Moment, others, wait_for_quiet
from reliability.bench.records import Records
from reliability.bench.rows import Sizes
from reliability.bench.subject import START_SECONDS, Subject, running
from reliability.kit.actors import create_namespace
from reliability.kit.process import by_kind, cpu_seconds, total
from reliability.kit.progress import for_each, show_progress
from sim import controlplane
from sim.nodes.names import NFD_NAMESPACE
from tools.errors import UserError

if TYPE_CHECKING:
    from tools.programs import Progress

SERVERS = ("etcd", "kube-apiserver")
WRITES = "gpu_writes_total"
FILLED = "caches are filled"
"""What the process logs then."""


@dataclass(frozen=True, slots=True)
class Start:
    """One cold start; times in seconds from the start of the process."""

    wall: float
    caches_filled: float
    cpu: float
    rss_mb: float
    writes: float
    """Of cards and nodes' summaries."""
    events: int
    stall: float
    """Longest stall of the event loop, since `filled` where the caller asked to be told of that."""
    quiet_writes: float
    """Of every kind."""
    quiet_changes: int
    pages: dict[str, int]
    """Pages of its lists, by kind."""
    cached: dict[str, int]
    """Objects in its caches when all was recorded, by kind."""
    server_cpu: dict[str, float]
    others: float
    """Cores that others took meanwhile."""


@dataclass(frozen=True, slots=True)
class Floor:
    """One run of the floor; times in seconds."""

    wall: float
    cpu: float
    """Of the raw client."""
    writes: int
    server_cpu: dict[str, float]
    """Of etcd and the API server: what a write costs them, also where others use the machine."""
    others: float
    """Cores that others took meanwhile."""


def written(metrics: dict[str, float]) -> float:
    """Writes of cards and of nodes' summaries so far; a first start also makes the NodeFeatureRule."""
    kinds = (GPUDEVICE.kind, GPUNODEINVENTORY.kind)
    return sum(value for key, value in metrics.items() if key.startswith(tuple(f'{WRITES}{{kind="{k}"' for k in kinds)))


@dataclass
class Track:
    """The control plane between measurements."""

    environment: Environment
    client: Client
    account: Path
    sizes: Sizes
    progress: Progress
    records: Records = field(init=False)

    def __post_init__(self) -> None:
        """Look at what is on record with the same client."""
        self.records = Records(self.client)

    async def join(self, members: list[Member]) -> None:
        """Create nodes and both reports of each."""
        joined = 0

        async def join(member: Member) -> None:
            nonlocal joined
            await self.client.create(NODE, member.node, manager=MANAGER)
            for report in (member.nfd, member.report):
                body = {"apiVersion": NODEFEATURE.api_version, "kind": NODEFEATURE.kind, **report}
                await self.client.create(NODEFEATURE, body, report["metadata"]["namespace"], manager=MANAGER)
            joined += 1

        await create_namespace(self.client, NFD_NAMESPACE, manager=MANAGER)
        if members:
            title = f"adding {len(members)} nodes and their reports"
            async with show_progress(self.progress, title, lambda: joined, len(members)):
                await for_each(members, join)

    async def floor(self, raw: RawClient, planned: list[list[Write]], at_once: int) -> Floor:
        """Run the floor."""
        done, before, moment = 0, self._server_cpu(), self._now()

        def one_more() -> None:
            nonlocal done
            done += 1

        async with show_progress(
            self.progress, "the floor: the same writes by a raw client", lambda: done, len(planned)
        ):
            took = await raw.write(planned, at_once=at_once, done=one_more)
        disturbed = others(moment, self._now())
        return Floor(took.seconds, took.cpu_seconds, took.writes, self._server_cpu(before), disturbed)

    async def cold_start(self, title: str, filled: Callable[[Subject], Awaitable[None]] | None = None) -> Start:
        """Start the inventory, wait until everything is recorded, and see that it then rests.

        `filled` is called once the caches are filled; what it asks the process costs the process time.
        """
        nodes = self.sizes.nodes
        complete = asyncio.create_task(self.records.complete(nodes))
        try:
            before, moment = self._server_cpu(), self._now()
            async with self.inventory() as subject:
                async with show_progress(
                    self.progress, f"{title}, {nodes} nodes", lambda: len(self.records.summaries), nodes
                ):
                    if filled is not None:
                        await subject.until_logged(FILLED, START_SECONDS + nodes / 10)
                        await filled(subject)
                    ended = await self._wait(complete, subject)
                    server_cpu, disturbed = self._server_cpu(before), others(moment, self._now())
                    cpu, rss = subject.cpu_seconds(), subject.peak_rss_mb()
                    metrics = await subject.metrics()
                    await self.records.verify(nodes * CARDS)
                async with show_progress(self.progress, "and then nothing: writes while nothing changes"):
                    writes, quiet_writes, quiet_changes = await self._quiet(subject)
                filled_at = subject.logged(FILLED)
        finally:
            complete.cancel()
        return Start(
            wall=ended - subject.started,
            caches_filled=(filled_at or subject.started) - subject.started,
            cpu=cpu,
            rss_mb=rss,
            writes=writes,
            events=await self.records.events(),
            stall=metrics["gpu_event_loop_stall_seconds"],
            quiet_writes=quiet_writes,
            quiet_changes=quiet_changes,
            pages=by_kind(metrics, "gpu_list_pages_total"),
            cached=by_kind(metrics, "gpu_cached_objects"),
            server_cpu=server_cpu,
            others=disturbed,
        )

    def inventory(self, *, wait: bool = False) -> AbstractAsyncContextManager[Subject]:
        """The inventory under its own account, until the end of the block; `wait`: until its caches are filled."""
        return running(self.environment.plane.dir, names.INVENTORY, self.account, wait=wait)

    def _now(self) -> Moment:
        return Moment.now(self.environment.plane.dir)

    def _server_cpu(self, since: dict[str, float] | None = None) -> dict[str, float]:
        """CPU seconds of the control plane's processes, in all or since then."""
        processes = controlplane.status(self.environment.plane.dir).processes
        now = {name: cpu_seconds(processes[name].pid) for name in SERVERS}
        return {name: round(cpu - (since or {}).get(name, 0.0), 2) for name, cpu in now.items()}

    async def _wait(self, complete: asyncio.Task[float], subject: Subject) -> float:
        """When everything was recorded, in seconds since the epoch."""
        limit = time.monotonic() + 60 + 0.3 * self.sizes.nodes
        while not complete.done():
            await asyncio.wait((complete,), timeout=1.0)
            if not complete.done():
                subject.check()
                if time.monotonic() > limit:
                    raise UserError(
                        f"{len(self.records.summaries)} of {self.sizes.nodes} nodes are recorded, and it is late"
                    )
        return complete.result()

    async def _quiet(self, subject: Subject) -> tuple[float, float, int]:
        """Records written before, and writes and objects that changed in, the time that nothing happens; no lease."""
        await asyncio.sleep(self.sizes.settle)
        metrics, before = await subject.metrics(), await self.records.versions()
        await asyncio.sleep(self.sizes.quiet)
        after = await self.records.versions()
        changed = len({name for name, _ in set(before.items()) ^ set(after.items())})
        quiet = total(await subject.metrics(), WRITES) - total(metrics, WRITES)
        return written(metrics), quiet, changed

    async def wipe(self) -> None:
        """Remove everything that was recorded, and the lease, and wait until it is gone."""
        async with show_progress(self.progress, "removing what was recorded"):
            await self.records.remove()
            await asyncio.sleep(self.sizes.settle)
            await wait_for_quiet(self.environment.plane.dir, self.sizes.patience)


async def put_on_record(environment: Environment, members: list[Member], progress: Progress) -> None:
    """Record every card of nodes that joined, with the inventory's own writes and without the inventory."""
    from controllers.inventory.loops.nodes import WORKERS

    done = 0

    def one_more() -> None:
        nonlocal done
        done += 1

    planned = [writes(member, time.time()) for member in members]
    async with (
        RawClient(environment.kubeconfig(names.INVENTORY), names.MANAGER_INVENTORY) as raw,
        show_progress(progress, "putting the cards on record", lambda: done, len(members)),
    ):
        await raw.write(planned, at_once=WORKERS, done=one_more)
