"""`python -m reliability.agreement`: fleets, pods, what differs, one table, and `agreement.json`.

The control plane lies in `<folder>/agreement` and is taken down whatever happens; that of `make up` is not touched.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, Final

from controllers.domain.verdict.nodes import node_verdict
from controllers.runtime.client import Client
from reliability.agreement import cases, wishes
from reliability.agreement.cluster import Cluster
from reliability.agreement.fleet import Fleet
from reliability.agreement.live import APISERVER_FLAGS, MANAGER, Scheduler
from reliability.agreement.placement import chance
from reliability.agreement.records import Difference, Outcome, asked, differences
from reliability.agreement.report import show
from reliability.agreement.tally import Sizes, Tally, summary
from reliability.kit.exclusive_lock import orderly_end, refuse_second
from reliability.kit.machine import facts
from reliability.kit.progress import show_progress
from reliability.kit.report import results, write_json
from sim import controlplane
from tools import programs

if TYPE_CHECKING:
    from reliability.agreement.cluster import Rule
    from tools.programs import Progress

PODS_A_FLEET: Final = 250
TURN: Final = 10
"""Pods between two changes of the fleet."""


def agree(folder: Path, sizes: Sizes, keep: Path, output: str = "text", rule: Rule = node_verdict) -> int:
    """Ask, compare and print; returns the exit status: 1 where a bar is missed.

    `keep`: where cases are written. `output`: text or json. `rule`: what is compared; tests give a wrong one.
    """
    below, progress, started = folder / "agreement", programs.for_stream(), time.time()
    refuse_second(below, "agreement")
    with orderly_end():
        try:
            plane = controlplane.up(
                below,
                extra_apiserver_flags=APISERVER_FLAGS,
                with_controller_manager=False,
                with_kwok=False,
                progress=progress,
            )
            tally = asyncio.run(_ask_all(plane.kubeconfig, sizes, keep, progress, rule))
        finally:
            controlplane.down(below)
    found = results(started, machine=facts(), sizes=asdict(sizes), **summary(tally))
    write_json(folder / "agreement.json", found)
    show(found, output)
    return 0 if all(row["met"] for row in found["rows"]) else 1


async def _ask_all(kubeconfig: Path, sizes: Sizes, keep: Path, progress: Progress, rule: Rule) -> Tally:
    client = await Client.connect(kubeconfig, user_agent=MANAGER)
    tally = Tally()
    try:
        asking = _Asking(Scheduler(client), sizes, tally, keep, progress, rule)
        async with (
            asking.scheduler.following(),
            show_progress(progress, f"asking the scheduler about {sizes.pods} pods", lambda: tally.pods, sizes.pods),
        ):
            for number in range(-(-sizes.pods // PODS_A_FLEET)):
                await _Fleet(asking, number).ask()
    finally:
        await client.close()
    return tally


@dataclass(frozen=True, slots=True)
class _Asking:
    """What all fleets share."""

    scheduler: Scheduler
    sizes: Sizes
    tally: Tally
    keep: Path
    progress: Progress
    rule: Rule


class _Fleet:
    """One fleet and the pods that are asked about on it."""

    def __init__(self, asking: _Asking, number: int) -> None:
        self._asking, self._number = asking, number
        self._sizes, self._tally, self._scheduler = asking.sizes, asking.tally, asking.scheduler
        self._random = Random(f"{self._sizes.seed}/{number}")  # noqa: S311 - a seed makes the same pods again
        self._fleet = Fleet(self._random, self._sizes.nodes, self._sizes.pools)
        self._cluster = Cluster()
        self._ours: list[str] = []

    async def ask(self) -> None:
        await self._scheduler.bring(self._fleet, self._cluster)
        first = self._number * PODS_A_FLEET
        for turn, at in enumerate(range(first, min(first + PODS_A_FLEET, self._sizes.pods))):
            if turn and turn % TURN == 0:
                await self._change()
            await self._one(at)

    async def _one(self, at: int) -> None:
        pod = wishes.pod(self._random, f"pod-{at}", self._fleet.pool_names)
        stored, outcome = await self._scheduler.ask(pod)
        demands = {**stored, "spec": {key: value for key, value in stored["spec"].items() if key != "nodeName"}}
        expected = self._cluster.expect(demands, self._asking.rule)
        tally, found = self._tally, differences(expected, outcome)
        tally.pods += 1
        tally.unknown += bool(expected.unknown) or not expected.is_whole
        tally.asked.update(asked(expected, outcome))
        tally.differ.update(one.question for one in found)
        if outcome.node is None:
            tally.reasons.update(set(expected.reasons))
        self._note(demands, outcome, frozenset([*expected.reasons, "bound" if outcome.node else "refused"]), found)
        if outcome.node is not None:
            tally.bound += 1
            self._cluster.put_pod(stored)
            self._ours.append(stored["metadata"]["name"])

    def _note(self, pod: Any, outcome: Outcome, kind: frozenset[str], found: tuple[Difference, ...]) -> None:
        tally, name = self._tally, pod["metadata"]["name"]
        where = f"seed {self._sizes.seed}, fleet {self._number}, {name}"
        about = {"seed": self._sizes.seed, "fleet": self._number, "nodes asked for": self._sizes.nodes}
        for one in found:
            line = f"{where}: {one.question}: {one.text}"
            tally.lines.append(line)
            self._asking.progress.note(line)
        if found:
            cases.save(self._asking.keep / f"seed-{self._sizes.seed}-{name}.json", self._cluster, pod, outcome, **about)
        elif len(tally.kinds) < self._sizes.examples and kind not in tally.kinds:
            tally.kinds.add(kind)
            cases.save(self._asking.keep / f"example-{len(tally.kinds):02}.json", self._cluster, pod, outcome, **about)

    async def _change(self) -> None:
        """Some of the pods go, some of the nodes change."""
        gone = [name for name in self._ours if chance(self._random, 0.4)]
        self._ours = [name for name in self._ours if name not in gone]
        await self._scheduler.remove(gone, self._cluster)
        for _ in range(self._random.choice((0, 1, 3))):
            await self._scheduler.change(*self._fleet.change(), self._cluster)
        await self._scheduler.settle(self._cluster)
