"""What each fault may cost beyond a run without one: writes, a later resync, time; scaled by the pace."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from reliability.faults import plans
from reliability.faults.injections.process import JUMP
from reliability.faults.processes import PACE
from reliability.faults.run_record import Budget

if TYPE_CHECKING:
    from reliability.faults.plans import Plan

NONE: Final = Budget()
CRASH: Final = Budget(more=4, events=8, recovery=12.0)
"""A process starts in about 1.5 s and waits up to 3 s for the lease of the one that died. It comes back in the middle
of what others do, and tells of states that who runs through does not stop to see: up to four were seen."""
ANSWER: Final = Budget(more=2, blind=2.0, recovery=10.0)
TIMEOUT: Final = Budget(ends=True, more=2, blind=6.0, recovery=14.0)
"""A client gives a request up after 5 s."""
BLIND: Final = Budget(more=2, events=8, blind=4.0, recovery=12.0)
"""For 2.5 s a process does not see what is so."""
DEAF: Final = Budget(more=4, events=8, blind=8.0, recovery=20.0)
"""A watch that says nothing is given up after 6 s."""
DOWN: Final = Budget(ends=True, more=4, events=12, blind=4.0, recovery=25.0)
"""A process may do nothing for a while, ends where it led, and comes again as one that is late, and later each time."""
REFUSED: Final = replace(DOWN, more=12)
"""Each write is tried again after 5 ms, 10 ms, 20 ms, …: about ten times in the seconds that it lasts."""
SERVER: Final = Budget(ends=True, more=12, events=20, blind=6.0, recovery=45.0, plain=False)
"""Nobody may do anything until the API server is there again."""
BY_FAULT: Final = (
    dict.fromkeys((*plans.KILLS, "takeover"), CRASH)
    | dict.fromkeys((*plans.ANSWERS, *plans.READS), ANSWER)
    | dict.fromkeys(("slow", "hang", "hang-after"), TIMEOUT)
    | dict.fromkeys((*plans.EVENTS, *plans.ONE), BLIND)
    | {"twice": replace(NONE, recovery=5.0), "late": replace(NONE, more=1, blind=1.0, recovery=10.0)}
    | dict.fromkeys(plans.WATCHES, ANSWER)
    | dict.fromkeys(plans.AT_PROCESS_STEP, DOWN)
    | {"half-open": DEAF, "takeover": CRASH, "rbac": REFUSED}
    | dict.fromkeys(plans.AT_STEP, DOWN)
    | dict.fromkeys(("apiserver-killed", "compacted"), SERVER)
)


def budget(plan: Plan) -> Budget:
    """What a plan's fault may cost."""
    found = BY_FAULT.get(plan.fault, NONE)
    if plan.process == "webhook" or plan.fault in (*plans.REVIEWED, *plans.MENDED):
        # Taking a gate off asks the webhook; while it is away that fails, and is tried again.
        found = replace(found, releases=REFUSED.more)
    if found.blind:
        # Who does not see that an object is gone tries to write it as one does whose writes are refused.
        found = replace(found, not_found=REFUSED.more)
    if plan.fault == "clock-back" and plan.process == "gpupool":
        found = replace(found, behind=JUMP)
    return replace(
        found,
        slack=found.slack * PACE,
        blind=found.blind * PACE,
        recovery=found.recovery * PACE,
        plain_seconds=found.plain_seconds * PACE,
    )
