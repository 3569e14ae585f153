"""Many plans on several grounds at once: references first, then every plan that has no result for this code yet.

Results are appended to a file, a line of JSON each, with a hash of the code that they are about: a campaign that was
cut short goes on where it was, and one over other code begins anew.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tests.faults import plans, runner
from tests.faults.crew import ROOT, Helper
from tests.faults.plans import Facts, Plan
from tests.faults.workloads import WORKLOADS

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

CODE: Final = ("controllers", "webhook", "sim", "templates", "crds", "tests/faults")
GB_EACH: Final = 2.5
"""Memory of one control plane with everything."""


def code_hash() -> str:
    """Of everything that decides what a plan does."""
    digest = hashlib.sha256()
    for folder in CODE:
        for path in sorted((ROOT / folder).rglob("*")):
            if path.is_file() and path.suffix in (".py", ".yaml", ".tpl", ".toml") and "__pycache__" not in path.parts:
                digest.update(str(path.relative_to(ROOT)).encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:12]


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
    deadline: float = float("inf")
    """No plan is begun after this, monotonic."""
    results: dict[str, dict[str, Any]] = field(default_factory=dict)
    _crew: list[Helper] = field(default_factory=list)

    @property
    def file(self) -> Path:
        """Where results are appended."""
        return self.folder / "results.jsonl"

    def reference_file(self, workload: str) -> Path:
        """Where a workload's reference is."""
        return self.folder / "references" / f"{self.code}-{workload}.json"

    def load(self) -> None:
        """Take over what was found about this code before."""
        if self.file.exists():
            for line in self.file.read_text().splitlines():
                result = json.loads(line)
                if result.get("code") == self.code:
                    self.results[result["plan"]] = result

    def facts(self, workload: str) -> Facts:
        """Where faults can strike, once there is a reference."""
        return Facts(**json.loads(self.reference_file(workload).read_text())["facts"])

    def every_plan(self, workloads: Collection[str], *, sampled: bool = False) -> list[Plan]:
        """All plans of workloads that have a reference: crashes and others; `sampled`: of these a share."""
        found = []
        for turn, workload in enumerate(WORKLOADS):
            if workload in workloads and self.reference_file(workload).exists():
                facts = self.facts(workload)
                found += plans.crashes(workload, facts)
                # A step on: where one workload takes a fault's first plan, the next one takes its second.
                found += plans.sampled(workload, facts, turn) if sampled else plans.others(workload, facts)
        return found

    async def refer(self, workloads: Sequence[str], runs: int = 2, last: float = 0.0) -> None:
        """Make the references that are missing; `last`: how long the last run of each is to be quiet, at least."""
        missing = [w for w in workloads if not self.reference_file(w).exists()]
        self.reference_file("x").parent.mkdir(parents=True, exist_ok=True)

        def keep(answer: dict[str, Any]) -> None:
            for result in answer.get("results", [answer]):
                self._keep(result)
            if answer.get("reference") and all(r["outcome"] == "passed" for r in answer["results"]):
                workload = Plan.parse(answer["results"][0]["plan"]).workload
                self.reference_file(workload).write_text(json.dumps(answer["reference"]))

        await self._work([{"refer": name, "runs": runs, "quiet": self.quiet, "last": last} for name in missing], keep)

    async def run(self, chosen: Sequence[Plan]) -> None:
        """Run the plans that have no result yet and whose workload has a reference."""
        tasks = [
            {"plan": str(plan), "reference": str(self.reference_file(plan.workload)), "quiet": self.quiet}
            for plan in chosen
            if str(plan) not in self.results and self.reference_file(plan.workload).exists()
        ]
        await self._work(tasks, self._keep)

    def _keep(self, result: dict[str, Any]) -> None:
        result["code"] = self.code
        self.results[result["plan"]] = result
        with self.file.open("a") as file:
            file.write(json.dumps(result) + "\n")

    async def _work(self, tasks: list[dict[str, Any]], keep: Callable[[dict[str, Any]], None]) -> None:
        """Have the crew do tasks; it stays for more, until `dismiss`."""
        waiting, done, began = list(reversed(tasks)), [0], time.monotonic()
        while len(self._crew) < min(self.workers, len(tasks)):
            self._crew.append(Helper(self.folder / f"worker-{len(self._crew)}", self.wrapped))

        async def one(helper: Helper) -> None:
            while waiting and time.monotonic() < self.deadline:
                answer = await helper.ask(waiting.pop())
                keep(answer)
                done[0] += 1
                self._progress(answer, done[0], len(tasks), began)

        try:
            await asyncio.gather(*map(one, self._crew))
        except asyncio.CancelledError:
            await self.dismiss(now=True)
            raise

    async def dismiss(self, *, now: bool = False) -> None:
        """Have the crew take its control planes down; `now`: whatever it has in hand."""
        crew, self._crew = self._crew, []
        await asyncio.gather(*(helper.end(now=now) for helper in crew))

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
