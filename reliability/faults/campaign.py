"""Many plans on several environments at once: references first, then every plan that has no result of its kind yet.

Results are appended to a file, a line of JSON each, with a key: a hash of the code that they are about, and of all that
decides how it was asked. A campaign that was cut short goes on where it was, and one over other code begins anew. What
failed and could be chance, or struck nothing, is run once more (`outcomes`).
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import re
import sys
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from reliability.faults import outcomes, plans, runner
from reliability.faults.fingerprint import code_hash
from reliability.faults.plans import Facts, Plan
from reliability.faults.processes import PACE
from reliability.faults.references import joined
from reliability.faults.worker_process import WorkerProcess
from reliability.faults.workloads import WORKLOADS

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

ALONE_MOST: Final = 60
"""Plans in doubt that are run one at a time: more are no chance, and would take hours so."""
GB_EACH: Final = 2.5
"""Memory of one control plane with everything."""


def workers_for_machine() -> int:
    """One control plane more than there are cores, since they mostly wait, and as many as there is memory for."""
    pages = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / (1 << 30)
    return max(1, min((os.cpu_count() or 1) + 1, int(pages / GB_EACH)))


@dataclass
class Campaign:
    """One campaign in a folder. `wrapped`: what processes are started through, for bugs on purpose."""

    folder: Path
    workers: int
    quiet: float
    wrapped: Sequence[str] = ()
    tell: Callable[[str], None] = print
    code: str = field(default_factory=code_hash)
    last: float = 0.0
    """How long the last reference of each workload is to be quiet, at least."""
    deadline: float = float("inf")
    """No plan is begun after this, monotonic."""
    results: dict[str, dict[str, Any]] = field(default_factory=dict)
    _processes: list[WorkerProcess] = field(default_factory=list)

    @property
    def key(self) -> str:
        """What a result is about: the code, and how it is asked."""
        asked = [self.code, self.quiet, self.last, PACE, *self.wrapped]
        return hashlib.sha256(json.dumps(asked).encode()).hexdigest()[:12]

    @property
    def file(self) -> Path:
        """Where results are appended."""
        return self.folder / "results.jsonl"

    @property
    def _plan_file(self) -> Path:
        return self.folder / "planned" / f"{self.key}.json"

    @property
    def planned(self) -> list[str]:
        """The plans that the last campaign of this kind was to run; none before it."""
        found: list[str] = json.loads(self._plan_file.read_text()) if self._plan_file.exists() else []
        return found

    @planned.setter
    def planned(self, chosen: Sequence[str]) -> None:
        self._plan_file.parent.mkdir(parents=True, exist_ok=True)
        self._plan_file.write_text(json.dumps(list(chosen)))

    def reference_file(self, workload: str) -> Path:
        """Where a workload's reference is."""
        return self.folder / "references" / f"{self.key}-{workload}.json"

    def load(self) -> None:
        """Take over what was found before and has the same key."""
        if self.file.exists():
            for line in self.file.read_text().splitlines():
                result = json.loads(line)
                if result.get("key") == self.key:
                    self.results[result["plan"]] = result

    def facts(self, workload: str) -> Facts:
        """Where faults can strike, once there is a reference."""
        return Facts(**json.loads(self.reference_file(workload).read_text())["facts"])

    def masked(self, workloads: Collection[str]) -> dict[str, list[str]]:
        """The paths that are not compared, by workload, of those that have a reference."""
        there = [name for name in workloads if self.reference_file(name).exists()]
        return {name: json.loads(self.reference_file(name).read_text())["masked"] for name in there}

    def every_plan(self, workloads: Collection[str], *, sampled: bool = False) -> list[Plan]:
        """All plans of workloads that have a reference: crashes and others; `sampled`: a share of both."""
        found: list[Plan] = []
        for turn, workload in enumerate(WORKLOADS):
            if workload in workloads and self.reference_file(workload).exists():
                facts = self.facts(workload)
                # A step on: where one workload takes a fault's first plan, the next one takes its second.
                found += plans.crashes_once(workload, facts, turn) if sampled else plans.crashes(workload, facts)
                found += plans.sampled(workload, facts, turn) if sampled else plans.others(workload, facts)
        return found

    async def refer(self, workloads: Sequence[str], runs: int = 2) -> None:
        """Make the references that are missing; one that fails is made once more."""
        self.reference_file("x").parent.mkdir(parents=True, exist_ok=True)
        for _ in range(2):
            missing = [w for w in workloads if not self.reference_file(w).exists()]
            tasks = [{"refer": name, "runs": runs, "quiet": self.quiet, "last": self.last} for name in missing]
            await self._work(tasks, self._keep_reference)

    def _keep_reference(self, answer: dict[str, Any]) -> None:
        results = answer.get("results", [answer])
        for result in results:
            self._keep(result)
        if answer.get("reference") and all(r["outcome"] != outcomes.FAILED for r in results):
            workload = Plan.parse(results[0]["plan"]).workload
            self.reference_file(workload).write_text(json.dumps(answer["reference"]))

    async def run(self, chosen: Sequence[Plan]) -> None:
        """Run the plans that have no result yet and whose workload has a reference; once more those in doubt.

        In an order that mixes all: what is cut short has been everywhere.
        """
        mixed = sorted(chosen, key=lambda plan: hashlib.sha256(str(plan).encode()).digest())
        able = [plan for plan in mixed if self.reference_file(plan.workload).exists()]
        await self._work(self._tasks([plan for plan in able if str(plan) not in self.results]), self._keep)
        await self._finish()
        for _ in range(outcomes.ROUNDS):
            again = [plan for plan in able if outcomes.is_doubtful(self.results.get(str(plan), {"outcome": ""}))]
            await self._control([plan for plan in again if outcomes.is_control_wanted(self.results[str(plan)])])
            # One at a time: with other control planes at work beside it a process may lose its lease by itself.
            await self._work(self._tasks(again), self._keep, most=1 if len(again) <= ALONE_MOST else self.workers)
            await self._finish()

    async def _control(self, doubted: Sequence[Plan]) -> None:
        """Let runs without a fault join the references of what wrote or took more than these, one workload at a time.

        How often a state is told of depends on how long each lasts: on the hour's machine, and on luck, of which a few
        references had one side. What a run without a fault does now, too, is not the fault's.
        """
        tasks = []
        for name in dict.fromkeys(plan.workload for plan in doubted):
            known = json.loads(self.reference_file(name).read_text())
            tasks.append({"control": name, "first": len(known["made"]) + 1, "quiet": self.quiet})
        await self._work(tasks, self._keep_control, most=1)
        await self._finish()

    def _keep_control(self, answer: dict[str, Any]) -> None:
        """One that fails by what may be chance says nothing of the plan in doubt, and is not counted."""
        results = answer.get("results", [answer])
        for result in results:
            if result["outcome"] == outcomes.PASSED or result["certain"]:
                self._keep(result)
        if answer.get("reference") and all(r["outcome"] == outcomes.PASSED for r in results):
            file = self.reference_file(Plan.parse(results[0]["plan"]).workload)
            file.write_text(json.dumps(joined(json.loads(file.read_text()), answer["reference"])))

    def _tasks(self, chosen: Sequence[Plan]) -> list[dict[str, Any]]:
        return [
            {"plan": str(plan), "reference": str(self.reference_file(plan.workload)), "quiet": self.quiet}
            for plan in chosen
        ]

    async def _finish(self) -> None:
        """What the last plan of each ground left is wiped away, too."""
        for answer in await asyncio.gather(*(worker.ask({"finish": True}) for worker in self._processes)):
            self._later(answer)

    def _keep(self, result: dict[str, Any]) -> None:
        before = self.results.get(result["plan"])
        self._write(outcomes.together(before, result) if before and outcomes.is_doubtful(before) else result)

    def _later(self, answer: dict[str, Any]) -> None:
        """What showed of plans after they had their result."""
        for name, sentences, certain in answer.pop("later", ()):
            if name in self.results:
                self._write(outcomes.amended(self.results[name], sentences, certain=certain))
                self.tell(f"afterwards, of {name}: {sentences[0][:160]}")

    def _write(self, result: dict[str, Any]) -> None:
        result = {**result, "code": self.code, "key": self.key}
        self.results[result["plan"]] = result
        with self.file.open("a") as file:
            file.write(json.dumps(result) + "\n")

    async def _work(
        self, tasks: list[dict[str, Any]], keep: Callable[[dict[str, Any]], None], most: int = sys.maxsize
    ) -> None:
        """Have the workers, or so many of it, do tasks; it stays for more, until `dismiss`."""
        waiting, done, began = list(reversed(tasks)), [0], time.monotonic()
        while len(self._processes) < min(self.workers, most, len(tasks)):
            self._processes.append(WorkerProcess(self.folder / f"worker-{len(self._processes)}", self.wrapped))

        async def one(worker: WorkerProcess) -> None:
            while waiting and time.monotonic() < self.deadline:
                answer = await worker.ask(waiting.pop())
                self._later(answer)
                keep(answer)
                done[0] += 1
                self._progress(answer, done[0], len(tasks), began)

        try:
            await asyncio.gather(*map(one, self._processes[:most]))
        except asyncio.CancelledError:
            await self.dismiss(now=True)
            raise

    async def dismiss(self, *, now: bool = False) -> None:
        """Have the workers take its control planes down; `now`: whatever it has in hand."""
        processes, self._processes = self._processes, []
        await asyncio.gather(*(worker.end(now=now) for worker in processes))

    def _progress(self, answer: dict[str, Any], done: int, of: int, began: float) -> None:
        took = time.monotonic() - began
        left = took / done * (of - done)
        for result in answer.get("results", [answer]):
            first = (": " + result["failures"][0][:160]) if result["failures"] else ""
            seconds = f"{result.get('seconds', 0.0):.1f} s"
            self.tell(
                f"[{done}/{of}, {left / 60:.0f} min left] {result['outcome']:11} {result['plan']} {seconds}{first}"
            )


def all_workloads() -> list[str]:
    """Their names."""
    return list(WORKLOADS)


QUIET = runner.QUIET


def workloads_of(only: str) -> list[str]:
    """The workloads that an expression over plans' names speaks of; all where it does not begin with some."""
    outside = re.sub(r"\([^()]*\)", "", only)  # an alternative out there may speak of any
    before, slash, _ = only.partition("/")
    with suppress(re.error):
        # What stands before a slash is the end of a workload's name: `driver/` does not speak of driver-roll.
        found = [name for name in all_workloads() if re.search(f"(?:{before})$" if slash else before, name)]
        if found and "|" not in outside:
            return found
    return all_workloads()
