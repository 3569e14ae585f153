"""How each fault of a plan is done.

`arm` prepares it before the workload begins; the strike tells when it happened,
and `heal` ends it when the workload has been told, where it has not ended by itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from reliability.faults import plans
from reliability.faults.strikes import events, requests
from reliability.faults.strikes.steps import ONSETS, PREPARED
from reliability.faults.strikes.strike import Strike

if TYPE_CHECKING:
    from reliability.faults.ground import Ground
    from reliability.faults.plans import Plan

__all__ = ["Strike", "arm"]


def arm(ground: Ground, plan: Plan) -> Strike:
    """Prepare the fault of a plan."""
    strike = Strike()
    ground.counts_reviews = plan.fault == plans.REFERENCE
    if plan.fault in plans.KILLS:
        requests.kill(ground, plan, strike)
    elif plan.fault in (*plans.ANSWERS, *plans.READS):
        requests.answer(ground, plan, strike)
    elif plan.fault in plans.WATCHES:
        events.refuse(ground, plan, strike)
    elif plan.fault in (*plans.EVENTS, *plans.ONE):
        events.bend(ground, plan, strike)
    elif plan.step:
        _at_step(ground, plan, strike)
    return strike


def _at_step(ground: Ground, plan: Plan, strike: Strike) -> None:
    """What takes time to prepare is there before people's first step; people's step waits until the fault is there."""
    prepared, begun = [PREPARED[plan.fault]] if plan.fault in PREPARED else [], [plan.step]

    async def before(step: int) -> None:
        if prepared:
            await prepared.pop()(ground, plan.process, strike)
        if step in begun:
            begun.clear()
            await ONSETS[plan.fault](ground, plan.process, strike)
        if strike.every_step is not None:
            await strike.every_step()

    ground.before_step = before
