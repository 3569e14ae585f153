"""Plans on one environment, each from a wiped state to a verdict; what shows only later is told of the plan before."""

from __future__ import annotations

import asyncio
import time
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from controllers.runtime.errors import RuntimeFault
from reliability.faults import injections, observation, oracles, plans
from reliability.faults.budgets import budget
from reliability.faults.cleanup import Dirty
from reliability.faults.environment import TTL
from reliability.faults.observation import Seen
from reliability.faults.processes import PACE
from reliability.faults.run_record import Run, Verdict
from reliability.faults.snapshot import Picture, differences, picture
from reliability.faults.stack_actors import StackActors
from reliability.faults.workloads import WORKLOADS
from sim.view import LateError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from reliability.faults.environment import Environment
    from reliability.faults.injections.injection import Injection
    from reliability.faults.plans import Plan
    from reliability.faults.run_record import Reference

QUIET: dict[str, float] = {"smoke": 3.0, "campaign": 2 * TTL, "long": 30.0}
"""Seconds without a write in the end: campaign, twice the scaled reservation TTL; long, once for each workload."""
CONVERGE = 40.0 * PACE
STORY = 150.0 * PACE
"""Seconds for a workload, whatever its own patience adds up to."""
HEAL = 120.0 * PACE
"""Seconds for taking a fault back."""
SAME = 60.0 * PACE
"""Seconds after a wipe in which the environment must look as it did when it was new. On a busy machine a process may
lose its lease in them, and takes a quarter of a minute to come back."""


@dataclass
class Result:
    """What became of a plan."""

    plan: str
    outcome: str
    """passed, failed, `not reached` where the fault found nothing to strike, or `not judged` where nothing failed but
    what depends on the machine, which did not give it the time."""
    failures: Sequence[str] = ()
    certain: int = 0
    """So many of the failures, the first, cannot be chance."""
    paced: Sequence[str] = ()
    """What was written too often or took too long, whether it is judged or not."""
    busy: str = ""
    """Why that is not judged; empty where it is."""
    struck: str = ""
    seconds: float = 0.0
    recovery: float = 0.0
    """By which the story and its rest took longer than in the reference."""

    def as_dict(self) -> dict[str, Any]:
        """For a line of JSON."""
        return asdict(self)


Later = tuple[str, list[str], bool]
"""Of a plan that has its result already: what showed when it was wiped away, and whether that cannot be chance."""


class Bench:
    """An environment, and what was done on it last."""

    def __init__(self, environment: Environment) -> None:
        self.environment = environment
        self.later: list[Later] = []
        self._last = ""
        self._judged: dict[str, int] = {}
        """Lines of each log that have been judged, from where it began to be read."""
        self._new: Picture | None = None
        """The environment when it was wiped first."""

    async def run(
        self, plan: Plan, reference: Reference | None, *, quiet: float = QUIET["smoke"]
    ) -> tuple[Result, Seen]:
        """Wipe, arm, run the workload, heal, wait for rest, judge; raises Dirty where a wipe fails."""
        await self._prepare()
        environment, began = self.environment, time.monotonic()
        self._last = str(plan)
        injection, started = injections.arm(environment, plan), observation.starts(environment)
        held, trouble = _held_up(environment), await self._story(plan)
        told = time.monotonic()
        await _heal(injection, plan)
        healed = time.monotonic()
        if plan.fault != plans.REFERENCE and not trouble and not injection.what:
            await environment.end()
            self._judged = {short: len(lines) for short, lines in environment.logs().items()}
            missed = Result(str(plan), "not reached", seconds=round(time.monotonic() - began, 1))
            return missed, Seen(Run(), observation.facts(environment))
        rested = await self._settle(plan, reference, quiet)
        await environment.end()
        environment.recorder.check()
        found = observation.run(environment, plan, began, started, rested=rested)
        found.trouble = trouble
        found.story, found.after = told - began - held[0], max(0.0, environment.active_at() - healed)
        self._judged = {short: len(lines) for short, lines in found.logs.items()}
        verdict = oracles.verdict(found, reference, budget(plan))
        self._suspect(plan, verdict)
        result = Result(
            str(plan),
            "failed" if verdict.failures else "not judged" if verdict.busy else "passed",
            verdict.failures,
            len(verdict.certain),
            verdict.paced,
            verdict.busy,
            injection.what,
            round(time.monotonic() - began, 1),
            round(oracles.recovery(found, reference), 1) if reference else 0.0,
        )
        return result, Seen(found, observation.facts(environment))

    async def _story(self, plan: Plan) -> list[str]:
        """What people do; what they do not get done."""
        try:
            async with asyncio.timeout(STORY):
                await WORKLOADS[plan.workload].tell(StackActors(self.environment))
        except (LateError, RuntimeFault, TimeoutError) as error:
            return [f"the workload does not come to its end: {error or 'it takes too long'}"]
        return []

    async def _prepare(self) -> None:
        """A clean ground from which a run begins, or Dirty."""
        await self.finish()
        self.environment.begin()
        self._judged = {}

    async def finish(self) -> None:
        """Wipe the last plan away, or raise Dirty; whatever is found on the way there is that plan's."""
        try:
            await self.environment.wipe()
            self.environment.recorder.check()
            await self._looks_new()
        except Dirty as error:
            self._tell([f"afterwards: {error}"], certain=False)
            raise
        if not self._last:
            return
        since = {short: lines[self._judged.get(short, 0) :] for short, lines in self.environment.logs().items()}
        self._tell([f"while it was wiped away: {line}" for line in oracles.unhandled(since)], certain=True)
        self._last = ""

    def _tell(self, sentences: list[str], *, certain: bool) -> None:
        if self._last and sentences:
            self.later.append((self._last, sentences, certain))

    async def _looks_new(self) -> None:
        if self._new is None:
            self._new = picture(self.environment.recorder.now)
        deadline = time.monotonic() + SAME
        while left := differences(self._new, picture(self.environment.recorder.now)):
            if time.monotonic() > deadline:
                first = [f"{path} is {now!r} and was {then!r}" for path, (then, now) in list(left.items())[:5]]
                raise Dirty(f"the environment is not as it was when it was new: {'; '.join(first)}")
            await asyncio.sleep(0.2)

    def _suspect(self, plan: Plan, verdict: Verdict) -> None:
        """Whose caches went through something: the next run begins with fresh ones."""
        if plan.process and plan.fault in (*plans.EVENTS, *plans.ONE, *plans.WATCHES, *plans.AT_PROCESS_STEP):
            self.environment.suspect.add(plan.process)
        if verdict.failures:
            self.environment.suspect.update(self.environment.proxies)

    async def _settle(self, plan: Plan, reference: Reference | None, quiet: float) -> bool:
        """Wait until nothing moves any more and the end is the reference's; False where something moves on and on.

        An end that differs is given the time in which a sweep may mend it, but no longer.
        """
        environment, deadline = self.environment, time.monotonic() + CONVERGE + quiet
        while True:
            if not await environment.rest(quiet, max(quiet + 1.0, deadline - time.monotonic())):
                return False
            if reference is None or not differences(
                reference.end, observation.shown(environment, plan), reference.masked
            ):
                return True
            if time.monotonic() > deadline:
                return True
            await environment.stirs(deadline)


def _held_up(environment: Environment) -> list[float]:
    """Seconds for which a fault's own preparation keeps people waiting, as they add up."""
    spent, inner = [0.0], environment.before_step
    if inner is not None:

        async def before(step: int) -> None:
            began = time.monotonic()
            try:
                await inner(step)
            finally:
                spent[0] += time.monotonic() - began

        environment.before_step = before
    return spent


async def _heal(injection: Injection, plan: Plan) -> None:
    try:
        async with asyncio.timeout(HEAL):
            await injection.heal()
    except TimeoutError as error:
        raise RuntimeError(f"the fault of {plan} does not end within {HEAL:.0f} s") from error
