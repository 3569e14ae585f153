"""What runs without a fault have in common: what plans are compared with, and where faults can strike."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from reliability.faults import oracles, plans, write_counts
from reliability.faults.observation import Seen
from reliability.faults.run_record import Reference, Run
from reliability.faults.runner import QUIET, Bench, Result
from reliability.faults.snapshot import mask
from reliability.faults.workloads import WORKLOADS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

ASIDE = 3
"""Runs of a workload's references that may fail by what depends on the machine and are made once more at once."""
SETTLED = 6.0
"""Seconds after which a reference has written what it writes at most every five seconds (a pool's candidates)."""
MOST = 4
"""Runs of a campaign's references, of those where people do not wait, and of those that differ in what is made on the
way: orders that are rare would be failures later."""
CONTROLS = 2
"""Runs that join a workload's references where a plan wrote oftener than those: of the same hour and machine."""


async def refer(
    bench: Bench, workload: str, *, runs: int = 2, quiet: float = QUIET["smoke"], last: float = 0.0
) -> tuple[list[Result], dict[str, Any]]:
    """Runs without a fault: their results, and what they have in common, for `reference_of`.

    `last`: how long the last of those that are always made is to be quiet, where that is longer. Where people do not
    wait there are always `MOST`: what a few have in common may still be luck.
    """
    told = WORKLOADS[workload]
    runs = MOST if told.hasty else runs
    results, seen, aside = list[Result](), list[Seen](), list[tuple[Result, Run]]()
    while len(seen) < runs or (len(seen) < MOST and differ(seen)):
        plan = plans.Plan(workload, plans.REFERENCE, str(len(results) + len(aside) + 1))
        result, one = await bench.run(plan, None, quiet=max(quiet, SETTLED, last if len(seen) + 1 == runs else 0.0))
        if len(aside) < ASIDE and result.failures and list(result.failures) == list(result.paced):
            aside.append((result, one.run))
            continue
        results.append(result)
        seen.append(one)
    found = common(seen)
    found["masked"] = sorted({*found["masked"], *told.luck})
    found["hasty"] = told.hasty
    return [*results, *excused(aside, reference_of(found))], found


def excused(aside: Sequence[tuple[Result, Run]], reference: Reference) -> Iterator[Result]:
    """Runs that failed by what depends on the machine: not judged where others passed that had more of it.

    One that had as much may be chance, as a plan's that fails one run of two; more of them are none.
    """
    why = [oracles.busy(run, reference) for _, run in aside]
    judged = "failed" if why.count("") > 1 else "1 of 2"
    for (result, _), busy in zip(aside, why, strict=True):
        failures = () if busy else result.failures
        yield replace(result, outcome="not judged" if busy else judged, failures=failures, busy=busy)


async def control(bench: Bench, workload: str, *, quiet: float, first: int) -> tuple[list[Result], dict[str, Any]]:
    """More runs without a fault, numbered from `first`: their results, and what they have in common, for `joined`."""
    results, seen = list[Result](), list[Seen]()
    for number in range(first, first + CONTROLS):
        plan = plans.Plan(workload, plans.REFERENCE, str(number))
        result, one = await bench.run(plan, None, quiet=max(quiet, SETTLED))
        results.append(result)
        seen.append(one)
    return results, common(seen)


def differ(seen: Sequence[Seen]) -> bool:
    """Whether runs made other things on their way, or came to another end."""
    made = [oracles.counted(one.run.history) for one in seen]
    return any(one != made[0] for one in made) or bool(mask([one.run.end for one in seen]))


def common(seen: Sequence[Seen]) -> dict[str, Any]:
    """What runs without a fault have in common, as JSON can hold it."""
    return {
        "end": seen[0].run.end,
        "masked": sorted(mask([one.run.end for one in seen])),
        "made": [dict(oracles.counted(one.run.history)) for one in seen],
        "tallies": [dict(write_counts.tally(one.run)) for one in seen],
        "waits": [one.run.given.wait for one in seen],
        "story": max(one.run.story for one in seen),
        "after": max(one.run.after for one in seen),
        "facts": asdict(plans.shared([one.facts for one in seen])),
    }


def joined(known: dict[str, Any], more: dict[str, Any]) -> dict[str, Any]:
    """References with runs that were made later; where faults can strike stays."""
    differ = mask([known["end"], more["end"]])
    return known | {
        "masked": sorted({*known["masked"], *more["masked"], *differ}),
        **{part: [*known[part], *more[part]] for part in ("made", "tallies", "waits")},
        **{part: max(known[part], more[part]) for part in ("story", "after")},
    }


def reference_of(found: dict[str, Any]) -> Reference:
    """What plans are compared with."""
    tallies = [Counter[str](one) for one in found["tallies"]]
    keys = {key for one in tallies for key in one}
    most = Counter({key: max(one[key] for one in tallies) for key in keys})
    return Reference(
        found["end"],
        set(found["masked"]),
        [Counter(one) for one in found["made"]],
        most,
        Counter({key: most[key] - min(one[key] for one in tallies) for key in keys}),
        found["story"],
        found["after"],
        found.get("hasty", False),
        found["waits"],
    )
