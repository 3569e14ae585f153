"""Cold start of the inventory: N nodes with 8 cards are there, nothing is recorded yet.

Floors and cold starts take turns on one control plane, everything recorded being wiped in
between, and the floor first and last. The floor is `reliability.bench.floor` with the bodies that the
inventory's own planner makes, under the same ServiceAccount's token, so that both pay the
same admission. A cold start lasts from the start of the process to the last write having
come true, which a watch of GPUNodeInventories tells: a node's summary is written after its cards.

A cold start or floor during which others used the machine does not count, and more are made,
up to twice as many.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from controllers.api import names
from controllers.api.resources import NODEFEATURE
from controllers.runtime.client import Client
from reliability.bench import stats
from reliability.bench.environment import MANAGER, Environment, running_environment
from reliability.bench.fleet import CARDS, fleet, writes
from reliability.bench.floor import RawClient
from reliability.bench.quiet import LIMIT
from reliability.bench.rows import Result, Row, Sizes
from reliability.bench.track import Floor, Start, Track

if TYPE_CHECKING:
    from collections.abc import Callable

    from tools.programs import Progress

BUDGET_NODES, MEMORY_NODES = 500, 1000
"""The sizes for which the budgets are stated (docs/dev/design.md, Budgets)."""
WARM_UP = 16
"""Nodes of a first floor and cold start that do not count: the API server compiles policies and
schemas with them, and opens the storage of kinds that nobody has asked for."""


def measure(folder: Path, sizes: Sizes, progress: Progress) -> Result:
    """Measure on a control plane in `folder`; raises UserError."""
    with running_environment(folder, progress) as environment:
        return asyncio.run(_measure(environment, sizes, progress))


async def _measure(environment: Environment, sizes: Sizes, progress: Progress) -> Result:
    from controllers.inventory.loops.nodes import WORKERS

    members = fleet(sizes.nodes)
    planned = [writes(member, time.time()) for member in members]
    account = environment.kubeconfig(names.INVENTORY)
    client = await Client.connect(environment.plane.kubeconfig, user_agent=MANAGER)
    floors: list[Floor] = []
    starts: list[Start] = []
    try:
        async with RawClient(account, names.MANAGER_INVENTORY) as raw:
            small = Track(
                environment, client, account, replace(sizes, nodes=min(WARM_UP, sizes.nodes), quiet=0), progress
            )
            await small.join(members[:WARM_UP])
            await raw.write(planned[:WARM_UP], at_once=WORKERS)
            await small.wipe()
            await small.cold_start("warming up")
            await small.wipe()
            track = Track(environment, client, account, sizes, progress)
            await track.join(members[WARM_UP:])
            floors.append(await track.floor(raw, planned, WORKERS))
            while enough(starts, floors) < sizes.rounds and len(starts) < sizes.tries * sizes.rounds:
                await track.wipe()
                starts.append(await track.cold_start("cold start of the inventory"))
                await track.wipe()
                floors.append(await track.floor(raw, planned, WORKERS))
        size = len(await client.get(NODEFEATURE, names.agent_feature(members[0].name), names.NAMESPACE))
    finally:
        await client.close()
    expected = sum(map(len, planned))
    measured = {
        "nodes": sizes.nodes,
        "cards": sizes.nodes * CARDS,
        "report_bytes": size,
        "expected_writes": expected,
        "at_once": WORKERS,
        "floors": floors,
        "starts": starts,
    }
    return Result(_rows(sizes, expected, floors, starts), measured)


def _ratios(starts: list[Start], floors: list[Floor], take: Callable[[Start], float]) -> list[float | None]:
    return stats.ratios(
        [stats.Timed(take(start), start.others <= LIMIT) for start in starts],
        [stats.Timed(floor.wall, floor.others <= LIMIT) for floor in floors],
    )


def enough(starts: list[Start], floors: list[Floor]) -> int:
    """Rounds that nobody disturbed."""
    return sum(found is not None for found in _ratios(starts, floors, lambda start: start.wall))


def _rows(sizes: Sizes, expected: int, floors: list[Floor], starts: list[Start]) -> tuple[Row, ...]:
    nodes, cards, quiet = sizes.nodes, sizes.nodes * CARDS, sizes.quiet * len(starts)
    alone = enough(starts, floors)
    note = f"{alone} of {len(starts)} rounds undisturbed" if alone < len(starts) else ""
    if not alone:  # figures of a machine that others used are better than none, and are not judged
        starts, floors = [replace(one, others=0.0) for one in starts], [replace(one, others=0.0) for one in floors]
    found = _ratios(starts, floors, lambda start: start.wall)
    counted = [one for one, ratio in zip(starts, found, strict=True) if ratio is not None]
    below = [one.wall for one in floors if one.others <= LIMIT]

    def ratio(take: Callable[[Start], float]) -> float:
        return statistics.median(one for one in _ratios(starts, floors, take) if one is not None)

    def median(take: Callable[[Start], float]) -> float:
        return statistics.median(take(start) for start in counted)

    rss = max(start.rss_mb for start in starts)
    large = nodes >= BUDGET_NODES
    title = f"cold start, {nodes} nodes × {CARDS} cards"
    return (
        Row(f"{title}: wall ÷ floor", ratio(lambda s: s.wall), at_most=1.15, judged=large and alone > 0, note=note),
        Row("  from caches filled ÷ floor", ratio(lambda s: s.wall - s.caches_filled)),
        Row("  wall", median(lambda s: s.wall), "s"),
        Row("  floor", statistics.median(below), "s", note=f"largest ÷ smallest {stats.spread(below):.2f}"),
        Row("  CPU for one card", 1000 * median(lambda s: s.cpu) / cards, "ms", at_most=2.0, judged=large),
        Row("  peak RSS", rss, "MB", 0, at_most=150.0, judged=nodes >= MEMORY_NODES or rss > 150),
        Row("  writes ÷ expected writes", max(s.writes for s in starts) / expected, exactly=1.0),
        Row("  longest stall of the event loop", 1000 * median(lambda s: s.stall), "ms", 0, at_most=50.0),
        Row(f"  writes in {quiet:.0f} s without a change", sum(s.quiet_writes for s in starts), "", 0, exactly=0.0),
    )
