"""One plan on one ground, from a wiped state to a verdict."""

from __future__ import annotations

import asyncio
import re
import time
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from controllers.runtime.errors import RuntimeFault
from sim.view import LateError
from tests.faults import oracles, plans, strikes
from tests.faults.ground import PACE
from tests.faults.hands import Hands
from tests.faults.oracles import Run
from tests.faults.picture import Picture, differences, picture
from tests.faults.workloads import WORKLOADS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.faults.ground import Ground
    from tests.faults.oracles import Reference
    from tests.faults.plans import Plan

QUIET: dict[str, float] = {"smoke": 3.0, "campaign": 12.0, "long": 30.0}
"""Seconds without a write in the end: campaign, twice the scaled reservation TTL; long, once for each workload."""
SETTLED = 6.0
"""Seconds after which a reference has written what it writes at most every five seconds (a pool's candidates)."""
CONVERGE = 40.0 * PACE
STORY = 150.0 * PACE
"""Seconds for a workload, whatever its own patience adds up to."""


@dataclass
class Result:
    """What became of a plan."""

    plan: str
    outcome: str
    """passed, failed, or `not reached` where the fault found nothing to strike."""
    failures: Sequence[str] = ()
    struck: str = ""
    seconds: float = 0.0
    recovery: float = 0.0
    """From the fault's end to rest."""
    code: str = ""

    def as_dict(self) -> dict[str, Any]:
        """For a line of JSON."""
        return asdict(self)


@dataclass
class Seen:
    """A run as it was, for references."""

    run: Run
    facts: plans.Facts
    order: dict[str, list[str]] = field(default_factory=dict)
    """Each process's writes, in order."""


async def run(
    ground: Ground, plan: Plan, reference: Reference | None, *, quiet: float = QUIET["smoke"]
) -> tuple[Result, Seen]:
    """Wipe, arm, tell the workload, heal, wait for rest, judge; raises Dirty where the ground cannot be wiped."""
    await ground.wipe()
    ground.begin()
    began, workload = time.monotonic(), WORKLOADS[plan.workload]
    strike, due, trouble = strikes.arm(ground, plan), strikes.due(plan), list[str]()
    try:
        async with asyncio.timeout(STORY):
            await workload.tell(Hands(ground))
    except (LateError, RuntimeFault, TimeoutError) as error:
        trouble.append(f"the workload does not come to its end: {error or 'it takes too long'}")
    told = time.monotonic()
    await strike.heal()
    if plan.fault != plans.REFERENCE and not trouble and not strike.what:
        await ground.end()
        return Result(str(plan), "not reached", seconds=time.monotonic() - began), _seen(ground, plan, Run())
    rested = await _settle(ground, plan, reference, quiet)
    await ground.end()
    found = Run(
        end=_picture(ground, plan),
        initial=ground.recorder.initial,
        history=list(ground.recorder.history),
        sent=[sent for tap in ground.taps.values() for sent in tap.sent()],
        ended={short: list(tap.marks) for short, tap in ground.taps.items()},
        logs=ground.logs(),
        plain=list(ground.plain),
        until=time.time(),
        recovery=max(0.0, max(ground.active_at(), told) - max(strike.ended, 0.0)) if strike.ended else 0.0,
        rested=rested,
        trouble=trouble,
    )
    failures = oracles.verdict(found, reference, due)
    if plan.fault in (*plans.EVENTS, *plans.AT_PROCESS_STEP) and plan.process:
        ground.suspect.add(plan.process)  # its caches went through something: the next run begins with fresh ones
    if failures:
        ground.suspect.update(ground.taps)
    result = Result(
        str(plan),
        "failed" if failures else "passed",
        failures,
        strike.what,
        round(time.monotonic() - began, 1),
        round(found.recovery, 1),
    )
    return result, _seen(ground, plan, found)


async def _settle(ground: Ground, plan: Plan, reference: Reference | None, quiet: float) -> bool:
    """Wait until nothing moves any more and the end is the reference's; False where something moves on and on.

    An end that differs is given the time in which a sweep may mend it, but no longer.
    """
    deadline = time.monotonic() + CONVERGE + quiet
    while True:
        if not await ground.rest(quiet, max(quiet + 1.0, deadline - time.monotonic())):
            return False
        if reference is None or not differences(reference.end, _picture(ground, plan), reference.masked):
            return True
        if time.monotonic() > deadline:
            return True
        await ground.stirs(deadline)


def _picture(ground: Ground, plan: Plan) -> Picture:
    made = picture(ground.recorder.now)
    for pattern, stands in WORKLOADS[plan.workload].alike:
        made = {
            re.sub(pattern, stands, path): re.sub(pattern, stands, value) if isinstance(value, str) else value
            for path, value in made.items()
        }
    return made


def _seen(ground: Ground, plan: Plan, found: Run) -> Seen:
    taps = ground.taps
    facts = plans.Facts(
        writes={short: tap.number for short, tap in taps.items() if tap.number},
        reads={short: tap.reads for short, tap in taps.items() if tap.reads},
        watched={short: sorted(tap.seen_events) for short, tap in taps.items() if tap.seen_events},
        steps=ground.step,
    )
    order = {
        short: [f"{s.verb} {s.about}" for s in tap.sent() if s.resource != "leases"] for short, tap in taps.items()
    }
    return Seen(found, facts, order)


async def refer(
    ground: Ground, workload: str, *, runs: int = 2, quiet: float = QUIET["smoke"], last: float = 0.0
) -> tuple[list[Result], dict[str, Any]]:
    """Runs without a fault: their results, and what they have in common, for `reference_of`.

    `last`: how long the last of them is to be quiet, where that is longer.
    """
    results, seen = [], list[Seen]()
    for number in range(1, runs + 1):
        plan = plans.Plan(workload, plans.REFERENCE, str(number))
        rest = max(quiet, SETTLED, last if number == runs else 0.0)
        result, one = await run(ground, plan, None, quiet=rest)
        results.append(result)
        seen.append(one)
    return results, common(seen)


def common(seen: Sequence[Seen]) -> dict[str, Any]:
    """What runs without a fault have in common, as JSON can hold it."""
    from tests.faults.picture import mask

    most: dict[str, int] = {}
    for one in seen:
        for key, count in oracles.tally(one.run.sent).items():
            most[key] = max(most.get(key, 0), count)
    first = seen[0]
    return {
        "end": first.run.end,
        "masked": sorted(mask([one.run.end for one in seen])),
        "made": [dict(oracles.counted(one.run.history)) for one in seen],
        "writes": most,
        "facts": {
            "writes": {p: min(s.facts.writes.get(p, 0) for s in seen) for p in first.facts.writes},
            "reads": {p: min(s.facts.reads.get(p, 0) for s in seen) for p in first.facts.reads},
            "watched": {p: sorted(kinds) for p, kinds in first.facts.watched.items()},
            "steps": first.facts.steps,
        },
        "order": first.order,
    }


def reference_of(found: dict[str, Any]) -> Reference:
    """What plans are compared with."""
    from collections import Counter

    return oracles.Reference(
        found["end"], set(found["masked"]), [Counter(one) for one in found["made"]], Counter(found["writes"])
    )
