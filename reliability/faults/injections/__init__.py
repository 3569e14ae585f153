"""How each fault of a plan is done.

`arm` prepares it before the workload begins; the strike tells when it happened,
and `heal` ends it when the workload has been told, where it has not ended by itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from reliability.faults import plans
from reliability.faults.injections import events, requests
from reliability.faults.injections.injection import Injection
from reliability.faults.injections.steps import ONSETS, PREPARED

if TYPE_CHECKING:
    from reliability.faults.environment import Environment
    from reliability.faults.plans import Plan

__all__ = ["Strike", "arm"]


def arm(environment: Environment, plan: Plan) -> Injection:
    """Prepare the fault of a plan."""
    injection = Injection()
    environment.counts_reviews = plan.fault == plans.REFERENCE
    if plan.fault in plans.KILLS:
        requests.kill(environment, plan, injection)
    elif plan.fault in (*plans.ANSWERS, *plans.READS):
        requests.answer(environment, plan, injection)
    elif plan.fault in plans.WATCHES:
        events.refuse(environment, plan, injection)
    elif plan.fault in (*plans.EVENTS, *plans.ONE):
        events.bend(environment, plan, injection)
    elif plan.step:
        _at_step(environment, plan, injection)
    return injection


def _at_step(environment: Environment, plan: Plan, injection: Injection) -> None:
    """What takes time to prepare is there before people's first step; people's step waits until the fault is there."""
    prepared, begun = [PREPARED[plan.fault]] if plan.fault in PREPARED else [], [plan.step]

    async def before(step: int) -> None:
        if prepared:
            await prepared.pop()(environment, plan.process, injection)
        if step in begun:
            begun.clear()
            await ONSETS[plan.fault](environment, plan.process, injection)
        if injection.every_step is not None:
            await injection.every_step()

    environment.before_step = before
