"""A node that waits out of service with the driver that it had: until its phase's limit, and then in service. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from controllers.api import names
from controllers.domain.clock import stamp
from controllers.domain.driver.states import defer_for
from controllers.driver.node.draft import event, time_left
from controllers.driver.node.moves import charged, move

if TYPE_CHECKING:
    from controllers.api.driver_work import DriverWork
    from controllers.driver.node.draft import Draft
    from controllers.driver.node.verdict import Verdict


def until_late(draft: Draft, work: DriverWork, found: Verdict, pods: str = "") -> bool:
    """Wait until the phase's limit; then the node is in service again, and is tried again later.

    `pods` are named in the work alone, and in no event, which more people read. Returns whether it still waits.
    """
    left = time_left(work.deadline, draft) if work.deadline is not None else 0.0
    if left > 0:
        draft.plan.requeue_within(left)
        return True
    after = defer_for(work.attempt)
    back = charged(work, draft.now, len(draft.observed.devices))
    later = f"; the node is tried again in {int(after / 60)} minutes"
    draft.write(
        move(
            back,
            "Deferred",
            draft.now,
            reason=found.reason,
            message=f"{found.message}{pods and f': {pods}'}{later}",
            retry_at=stamp(draft.now + after),
            baseline=None,
        )
    )
    event(draft, names.EVENT_DRIVER_DEFERRED, f"{found.reason}: {found.message}{later}")
    return False
