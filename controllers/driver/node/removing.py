"""A node whose driver is taken away: from the point of no return until the next one is begun. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from controllers.api import names
from controllers.driver.node.adopted import evict_adopted
from controllers.driver.node.draft import in_service, set_label, take_label, time_left
from controllers.driver.node.failing import fail
from controllers.driver.node.moves import charged, move
from controllers.driver.node.pod import Outcome

if TYPE_CHECKING:
    from controllers.api.driver_work import DriverWork
    from controllers.driver.node.draft import Draft


def remove(draft: Draft, work: DriverWork) -> None:
    """The label goes, then the driver's pod; then the node gets the other label."""
    seen, label = draft.observed, draft.node.metadata.labels.get(names.DRIVER_VARIANT)
    if work.to is None:
        draft.write(None)
    elif label is not None and label != work.to:
        late = work.deadline is not None and time_left(work.deadline, draft) <= 0
        if in_service(seen) or seen.used or late:
            # Its own checks have put it into service meanwhile, or may do so: pods may use the driver.
            back = charged(work, draft.now, len(seen.devices))
            draft.write(move(back, "Queued", draft.now, baseline=None) if work.undoes is not None else None)
        else:
            take_label(draft)
    elif label is None and seen.driver_pods:
        evict_adopted(draft)
        _wait(draft, work)
    else:
        target = seen.target
        compiled = target is None or target.variant.value != work.to or target.mode == "Compiled"
        draft.write(move(work, "Installing", draft.now, compiled=compiled))
        set_label(draft, work.to)


def _wait(draft: Draft, work: DriverWork) -> None:
    """The pod unloads its driver as it ends."""
    left = time_left(work.deadline, draft) if work.deadline is not None else 0.0
    if left > 0:
        draft.plan.requeue_within(left)
        return
    pods = ", ".join(sorted(pod.name for pod in draft.observed.driver_pods))
    message = f"pod {pods} of the former driver has not ended"
    fail(draft, work, Outcome(reason="OldDriverStuck", message=message, fault="node"))
