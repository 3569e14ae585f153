"""What runs without a fault have in common: what plans are compared with, and where faults can strike."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from tests.faults import oracles, plans
from tests.faults.evidence import Reference
from tests.faults.picture import mask
from tests.faults.runner import QUIET, Bench, Result
from tests.faults.sight import Seen
from tests.faults.workloads import WORKLOADS

if TYPE_CHECKING:
    from collections.abc import Sequence

SETTLED = 6.0
"""Seconds after which a reference has written what it writes at most every five seconds (a pool's candidates)."""
MOST = 4
"""Runs of a campaign's references, of those where people do not wait, and of those that differ in what is made on the
way: orders that are rare would be failures later."""


async def refer(
    bench: Bench, workload: str, *, runs: int = 2, quiet: float = QUIET["smoke"], last: float = 0.0
) -> tuple[list[Result], dict[str, Any]]:
    """Runs without a fault: their results, and what they have in common, for `reference_of`.

    `last`: how long the last of those that are always made is to be quiet, where that is longer. Where people do not
    wait there are always `MOST`: what a few have in common may still be luck.
    """
    told = WORKLOADS[workload]
    runs = MOST if told.hasty else runs
    results, seen = list[Result](), list[Seen]()
    while len(seen) < runs or (len(seen) < MOST and differ(seen)):
        number = len(seen) + 1
        plan = plans.Plan(workload, plans.REFERENCE, str(number))
        result, one = await bench.run(plan, None, quiet=max(quiet, SETTLED, last if number == runs else 0.0))
        results.append(result)
        seen.append(one)
    found = common(seen)
    found["masked"] = sorted({*found["masked"], *told.luck})
    return results, found | {"hasty": told.hasty}


def differ(seen: Sequence[Seen]) -> bool:
    """Whether runs made other things on their way, or came to another end."""
    made = [oracles.counted(one.run.history) for one in seen]
    return any(one != made[0] for one in made) or bool(mask([one.run.end for one in seen]))


def common(seen: Sequence[Seen]) -> dict[str, Any]:
    """What runs without a fault have in common, as JSON can hold it."""
    tallies = [oracles.tally(one.run) for one in seen]
    keys = {key for one in tallies for key in one}
    return {
        "end": seen[0].run.end,
        "masked": sorted(mask([one.run.end for one in seen])),
        "made": [dict(oracles.counted(one.run.history)) for one in seen],
        "writes": {key: max(one[key] for one in tallies) for key in keys},
        "spread": {key: max(one[key] for one in tallies) - min(one[key] for one in tallies) for key in keys},
        "story": max(one.run.story for one in seen),
        "after": max(one.run.after for one in seen),
        "facts": asdict(plans.shared([one.facts for one in seen])),
    }


def reference_of(found: dict[str, Any]) -> Reference:
    """What plans are compared with."""
    return Reference(
        found["end"],
        set(found["masked"]),
        [Counter(one) for one in found["made"]],
        Counter(found["writes"]),
        Counter(found["spread"]),
        found["story"],
        found["after"],
        found.get("hasty", False),
    )
