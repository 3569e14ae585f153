"""Collects the run record from an environment, for oracles and for later comparison."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from reliability.faults import leader_election, oracles, plans
from reliability.faults.processes import FULL, TIMERS
from reliability.faults.run_record import Run
from reliability.faults.snapshot import Picture, alike, picture
from reliability.faults.workloads import WORKLOADS
from sim import controlplane

if TYPE_CHECKING:
    from collections.abc import Mapping

    from reliability.faults.environment import Environment
    from reliability.faults.plans import Plan

PAUSES: Final = 3
"""Renewals that a holder may miss and still be called there."""


@dataclass
class Seen:
    """A run as it was, for references."""

    run: Run
    facts: plans.Facts


def starts(environment: Environment) -> dict[str, int]:
    """How often the supervisor has started each process again."""
    processes = controlplane.status(environment.plane.dir).processes
    return {short: processes[name].restarts for short, name in FULL.items() if name in processes}


def run(environment: Environment, plan: Plan, began: float, before: Mapping[str, int], *, rested: bool) -> Run:
    """What was seen since `began`, monotonic; `before`: what `starts` said then."""
    now, until = time.monotonic(), time.time()
    sent = [sent for proxy in environment.proxies.values() for sent in proxy.sent()]
    assert TIMERS.lease_duration is not None
    assert TIMERS.retry_period is not None
    return Run(
        end=shown(environment, plan),
        objects=dict(environment.recorder.now),
        initial=environment.recorder.initial,
        history=list(environment.recorder.history),
        sent=sent,
        ended={
            leader_election.who(proxy.process, proxy.replica): list(proxy.marks)
            for proxy in environment.proxies.values()
        },
        away=oracles.away(sent, (began, now), PAUSES * TIMERS.retry_period, until - now),
        lease=TIMERS.lease_duration,
        restarts={
            short: n - before.get(short, 0) - len(environment.proxies[short].kills)
            for short, n in starts(environment).items()
        },
        logs=environment.logs(),
        plain=list(environment.plain),
        until=until,
        rested=rested,
        given=environment.meter.given(),
    )


def shown(environment: Environment, plan: Plan) -> Picture:
    """What there is now, as a workload's ends are compared."""
    return alike(picture(environment.recorder.now), WORKLOADS[plan.workload].alike)


def facts(environment: Environment) -> plans.Facts:
    """Where faults can strike such a run."""
    proxies = environment.proxies
    return plans.Facts(
        writes={short: list(proxy.made) for short, proxy in proxies.items()},
        reads={short: list(proxy.read) for short, proxy in proxies.items()},
        watched={short: dict(proxy.seen_events) for short, proxy in proxies.items()},
        steps=environment.step,
        events={short: list(proxy.heard) for short, proxy in proxies.items()},
        reviewed=sorted(environment.reviewed),
    )
