"""A large cluster: one cold start of the inventory, a quiet minute, and a restart with everything on record.

No floors: their ratio is measured where its budget is. What is looked at here is what grows with
the cluster: memory, pages of lists, and stalls of the event loop. These are told apart by reading
the process's metrics once when its caches are filled, when there is little to tell yet.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from controllers.api import names
from controllers.runtime.client import Client
from reliability.bench.environment import MANAGER, Environment, running_environment
from reliability.bench.fleet import CARDS, Member, fleet, writes
from reliability.bench.quiet import LIMIT, wait_for_quiet
from reliability.bench.rows import Result, Row, Sizes
from reliability.bench.subject import START_SECONDS, Subject
from reliability.bench.track import FILLED, WRITES, Start, Track
from reliability.kit.process import by_kind, total
from reliability.kit.progress import show_progress
from sim.controlplane.layout import Layout

if TYPE_CHECKING:
    from tools.programs import Progress

STALL = "gpu_event_loop_stall_seconds"
LOOKED = 'gpu_reconciles_total{controller="inventory",result="ok"}'
MEMORY_BUDGET, STALL_BUDGET, CPU_BUDGET = 150.0, 50.0, 2.0  # MB, ms, ms


@dataclass(frozen=True, slots=True)
class Restart:
    """A start with everything on record; times in seconds from the start of the process."""

    caches_filled: float
    looked: float
    """Every node was looked at, and the process rested."""
    filling_stall: float
    looking_stall: float
    """The reading of the metrics when the caches were filled included."""
    reading_stall: float
    """For one reading of the metrics."""
    cpu: float
    rss_mb: float
    writes: float
    pages: dict[str, int]
    cached: dict[str, int]


def measure(folder: Path, sizes: Sizes, progress: Progress) -> Result:
    """Measure on a control plane in `folder`; raises UserError."""
    with running_environment(folder, progress) as environment:
        return asyncio.run(_measure(environment, sizes, progress))


async def _measure(environment: Environment, sizes: Sizes, progress: Progress) -> Result:
    sizes = replace(sizes, nodes=sizes.large_nodes, quiet=sizes.large_quiet)
    members = fleet(sizes.nodes)
    expected = sum(_expected(member) for member in members)
    filling: list[float] = []

    async def filled(subject: Subject) -> None:
        filling.append((await subject.metrics())[STALL])

    async with AsyncExitStack() as stack:
        client = await Client.connect(environment.plane.kubeconfig, user_agent=MANAGER)
        stack.push_async_callback(client.close)
        track = Track(environment, client, environment.kubeconfig(names.INVENTORY), sizes, progress)
        began = time.monotonic()
        await track.join(members)
        joined = time.monotonic() - began
        await wait_for_quiet(environment.plane.dir, sizes.patience)
        start = await track.cold_start("cold start of the inventory", filled)
        async with show_progress(progress, "a restart of the inventory, everything on record"):
            restart = await _restart(track)
    etcd = (Layout.of(environment.plane.dir).etcd / "member" / "snap" / "db").stat().st_size / 1e6
    raw = {
        "nodes": sizes.nodes,
        "cards": sizes.nodes * CARDS,
        "expected_writes": expected,
        "joining": joined,
        "etcd_mb": etcd,
        "filling_stall": filling[0],
        "start": asdict(start),
        "restart": asdict(restart),
    }
    return Result((*_rows(sizes, expected, start, filling[0], restart), Row("  etcd's database", etcd, "MB", 0)), raw)


def _expected(member: Member) -> int:
    return len(writes(member, time.time()))


async def _restart(track: Track) -> Restart:
    nodes = track.sizes.nodes
    within = START_SECONDS + nodes / 10
    async with track.inventory() as subject:
        filled = await subject.until_logged(FILLED, within)
        first = await subject.metrics()
        looked, metrics = await _looked(subject, nodes, within)
        cpu, rss = subject.cpu_seconds(), subject.peak_rss_mb()
        again = await subject.metrics()
        return Restart(
            caches_filled=filled - subject.started,
            looked=looked - subject.started,
            filling_stall=first[STALL],
            looking_stall=metrics[STALL],
            reading_stall=again[STALL],
            cpu=cpu,
            rss_mb=rss,
            writes=total(again, WRITES),
            pages=by_kind(again, "gpu_list_pages_total"),
            cached=by_kind(again, "gpu_cached_objects"),
        )


async def _looked(subject: Subject, nodes: int, within: float) -> tuple[float, dict[str, float]]:
    """Wait until the process has looked at every node; when that was, and its metrics then.

    It is asked only when it rests: each answer costs it a stall, which would be measured.
    """
    while True:
        at = await subject.until_idle(within)
        metrics = await subject.metrics()
        if metrics.get(LOOKED, 0.0) >= nodes:
            return at, metrics


def _rows(sizes: Sizes, expected: int, start: Start, filling: float, restart: Restart) -> tuple[Row, ...]:
    nodes, cards = sizes.nodes, sizes.nodes * CARDS
    note = f"others took {start.others:.2f} cores" if start.others > LIMIT else ""

    def stall(name: str, seconds: float, note: str = "") -> Row:
        return Row(name, 1000 * seconds, "ms", 0, at_most=STALL_BUDGET, judged=False, note=note)

    def memory(name: str, megabytes: float) -> Row:
        return Row(name, megabytes, "MB", 0, at_most=MEMORY_BUDGET, judged=False, note="the budget is for 1,000 nodes")

    def counts(name: str, of: dict[str, int]) -> Row:
        shown = sorted(((kind, count) for kind, count in of.items() if count), key=lambda one: -one[1])
        return Row(name, sum(of.values()), "", 0, note=", ".join(f"{kind} {count:,}" for kind, count in shown))

    cpu = 1000 * start.cpu / cards
    return (
        Row(f"large: cold start, {nodes} nodes × {CARDS} cards: wall", start.wall, "s", 1, note=note),
        Row("  caches filled after", start.caches_filled, "s", 1),
        Row("  CPU for one card", cpu, "ms", at_most=CPU_BUDGET, judged=False),
        memory("  peak RSS", start.rss_mb),
        stall("  longest stall of the event loop while the caches are filled", filling),
        stall("  longest stall while writing", start.stall),
        counts("  pages of its lists", start.pages),
        counts("  objects in its caches when all is recorded", start.cached),
        Row("  writes ÷ expected writes", start.writes / expected, exactly=1.0),
        Row(f"  writes in {sizes.quiet:.0f} s without a change", start.quiet_writes, "", 0, exactly=0.0),
        Row("  objects that changed in that time", start.quiet_changes, "", 0, exactly=0.0),
        Row("  restart with everything on record: caches filled after", restart.caches_filled, "s", 1),
        Row("  every node looked at after", restart.looked, "s", 1),
        Row("  writes of the restart", restart.writes, "", 0, exactly=0.0),
        counts("  pages of its lists", restart.pages),
        memory("  peak RSS of the restart", restart.rss_mb),
        stall("  longest stall while the caches are filled", restart.filling_stall),
        stall("  longest stall while every node is looked at", restart.looking_stall, "a reading of metrics included"),
        stall("  stall for one reading of its metrics", restart.reading_stall),
    )
