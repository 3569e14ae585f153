"""What is seen of a run on a ground: for oracles, and for what later runs are compared with."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from reliability.faults import leading, oracles, plans
from reliability.faults.evidence import Run
from reliability.faults.picture import Picture, alike, picture
from reliability.faults.processes import FULL, TIMERS
from reliability.faults.workloads import WORKLOADS
from sim import controlplane

if TYPE_CHECKING:
    from collections.abc import Mapping

    from reliability.faults.ground import Ground
    from reliability.faults.plans import Plan

PAUSES: Final = 3
"""Renewals that a holder may miss and still be called there."""


@dataclass
class Seen:
    """A run as it was, for references."""

    run: Run
    facts: plans.Facts


def starts(ground: Ground) -> dict[str, int]:
    """How often the supervisor has started each process again."""
    processes = controlplane.status(ground.plane.dir).processes
    return {short: processes[name].restarts for short, name in FULL.items() if name in processes}


def run(ground: Ground, plan: Plan, began: float, before: Mapping[str, int], *, rested: bool) -> Run:
    """What was seen since `began`, monotonic; `before`: what `starts` said then."""
    now, until = time.monotonic(), time.time()
    sent = [sent for tap in ground.taps.values() for sent in tap.sent()]
    assert TIMERS.lease_duration is not None
    assert TIMERS.retry_period is not None
    return Run(
        end=shown(ground, plan),
        objects=dict(ground.recorder.now),
        initial=ground.recorder.initial,
        history=list(ground.recorder.history),
        sent=sent,
        ended={leading.who(tap.process, tap.replica): list(tap.marks) for tap in ground.taps.values()},
        away=oracles.away(sent, (began, now), PAUSES * TIMERS.retry_period, until - now),
        lease=TIMERS.lease_duration,
        restarts={
            short: n - before.get(short, 0) - len(ground.taps[short].kills) for short, n in starts(ground).items()
        },
        logs=ground.logs(),
        plain=list(ground.plain),
        until=until,
        rested=rested,
        given=ground.meter.given(),
    )


def shown(ground: Ground, plan: Plan) -> Picture:
    """What there is now, as a workload's ends are compared."""
    return alike(picture(ground.recorder.now), WORKLOADS[plan.workload].alike)


def facts(ground: Ground) -> plans.Facts:
    """Where faults can strike such a run."""
    taps = ground.taps
    return plans.Facts(
        writes={short: list(tap.made) for short, tap in taps.items()},
        reads={short: list(tap.read) for short, tap in taps.items()},
        watched={short: dict(tap.seen_events) for short, tap in taps.items()},
        steps=ground.step,
        events={short: list(tap.heard) for short, tap in taps.items()},
        reviewed=sorted(ground.reviewed),
    )
