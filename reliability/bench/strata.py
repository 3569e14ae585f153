"""A version of a driver that one kind of node cannot load: whom it hits, and who waits without a write.

The cluster of `make up` with the fifth process, and a fleet of two kinds of node, one of which is a tenth of it. First
the new version waits for a window, then the rare kind's canary fails while the others' goes on.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from reliability.bench.drivers import SHAPE, WITHIN, WRITES, observed
from reliability.bench.rolled import BAD, Fleet
from reliability.bench.rows import Result, Row, Sizes
from reliability.bench.subject import Subject
from reliability.bench.whole_cluster import brought_up
from reliability.kit.process import total
from reliability.kit.progress import show_progress
from sim.cluster import Options
from sim.view import View
from tools.errors import UserError

if TYPE_CHECKING:
    from pathlib import Path

    from sim.controlplane import ControlPlane
    from tools.programs import Progress

RARE: Final = "t4-4@ubuntu22.04+bare"
HALT_SECONDS: Final = 5.0
REST: Final = 2.0
"""Seconds without a write after which all is written down: a GPUDriver's status is once a second at most."""


@dataclass(frozen=True, slots=True)
class Found:
    """All figures; times in seconds."""

    nodes: int
    rare: int
    quiet: float
    """How long it was looked at those who wait for a window, and at a canary that serves."""
    waiting_writes: float
    soak_writes: float
    hit: int
    """Nodes of the rare kind that were taken out of service."""
    halted: float
    back: float
    others: float
    """From the end of the canary's soak until all of the other kind have the version."""


def measure(folder: Path, sizes: Sizes, progress: Progress) -> Result:
    """Measure on a control plane in `folder`; raises UserError."""
    with brought_up(folder, Options(nodes=0, driver=True, webhooks=1), progress) as plane:
        return asyncio.run(_measure(plane, sizes, progress))


async def _measure(plane: ControlPlane, sizes: Sizes, progress: Progress) -> Result:
    async with observed(plane) as (view, subject):
        found = await Bench(view, subject, sizes, progress).run()
    return Result(_rows(found), asdict(found))


def rollout(sizes: Sizes) -> dict[str, Any]:
    """How the fleet is rolled: both kinds' canaries at once, which serve until they have been looked at."""
    most = str(max(2, sizes.strata_nodes // 5))
    return {
        "canary": {"percent": 100, "soak": "1h", "evidence": "None"},
        "waveSoak": "1s",
        "waves": [100],
        "maxUnavailable": {"nodes": most, "perPool": most, "cards": 0},
    }


def closed() -> list[dict[str, Any]]:
    """A window that opens tomorrow."""
    return [{"days": [(datetime.now(UTC) + timedelta(days=1)).strftime("%a")], "from": "00:00", "to": "23:59"}]


class Bench:
    """One fleet."""

    def __init__(self, view: View, subject: Subject, sizes: Sizes, progress: Progress) -> None:
        """Follow the fleet from now on."""
        self._view, self._subject, self._sizes, self._progress = view, subject, sizes, progress
        self._fleet = Fleet(view, progress, 1)

    async def run(self) -> Found:
        """All of it, one after another."""
        sizes, fleet, view = self._sizes, self._fleet, self._view
        rare = max(1, sizes.strata_nodes // 10)
        usual = sizes.strata_nodes - rare
        await fleet.serve([SHAPE] * usual + [RARE] * rare, rollout(sizes) | {"windows": closed()}, sizes.batch)
        fewer = set(list(fleet.pool_of)[usual:])
        await fleet.break_bad(sorted(fewer))
        await fleet.change(version=BAD)
        waiting = await self._quiet("the version waits for a window")
        fleet.seen.begin()
        await fleet.change(rollout={"windows": None})
        async with show_progress(self._progress, "a version that a tenth of the nodes cannot load"):
            await view.until(fleet.is_halted, WITHIN, fleet.phases)
            at = time.monotonic()
            await view.until(lambda: not fleet.seen.out & fewer, WITHIN, fleet.phases)
            back = time.monotonic() - at
            await view.until(self._only_soaks, WITHIN, fleet.phases)
        soaking = await self._quiet("the canary of the others serves")
        began = time.monotonic()
        await fleet.change(rollout={"canary": {"soak": "1s"}})
        await fleet.all_have(BAD, f"the {usual} others get it", usual)
        others = time.monotonic() - began
        return Found(
            sizes.strata_nodes,
            rare,
            sizes.strata_quiet,
            waiting,
            soaking,
            len(fleet.seen.hit & fewer),
            max(0.0, at - fleet.seen.failed_at),
            back,
            others,
        )

    def _only_soaks(self) -> bool:
        """Whether the canary of the usual kind serves, and nothing else is done to a node."""
        works = [one.status.driver_work for one in self._view.inventories]
        phases = {work.phase for work in works if work is not None}
        return "Soaking" in phases and phases <= {"Soaking", "RolledBack"}

    async def _quiet(self, title: str) -> float:
        """Writes of the driver's controller while nothing changes, Events among them."""
        before = await self._at_rest()
        async with show_progress(self._progress, title):
            await asyncio.sleep(self._sizes.strata_quiet)
        return await self._writes() - before

    async def _at_rest(self) -> float:
        """Wait until nothing has been written for `REST`; returns the writes until then. Raises UserError."""
        limit, before = time.monotonic() + WITHIN, await self._writes()
        while True:
            await asyncio.sleep(REST)
            now = await self._writes()
            if now == before:
                return now
            if time.monotonic() > limit:
                raise UserError(
                    f"something is written all the time for {WITHIN:.0f} s", do="look at the log of the controller"
                )
            before = now

    async def _writes(self) -> float:
        return total(await self._subject.metrics(), WRITES)


def _rows(found: Found) -> tuple[Row, ...]:
    title = f"strata: a version that {found.rare} of {found.nodes} nodes cannot load: it hits"
    return (
        Row(title, found.hit, "of that kind", 0, exactly=1.0),
        Row("  Halted after the failure", found.halted, "s", at_most=HALT_SECONDS),
        Row("  they are back in service", found.back, "s", 1),
        Row("  the other kind has it, after its canary", found.others, "s", 1),
        Row(f"  writes in {found.quiet:g} s in which all wait for a window", found.waiting_writes, "", 0, exactly=0.0),
        Row(f"  writes in {found.quiet:g} s in which a canary serves", found.soak_writes, "", 0, exactly=0.0),
    )
