"""The writes of one node: from a bare node to one whose driver serves, one conditional write for each step. Pure.

What may be begun on a bare node is decided here, but for permits, which the view tells. A step that takes a permit is a
write of its own phase: whoever counts the phases knows who has which. A node that has a driver of the module's is begun
by the roll-out of its GPUDriver (`controllers.driver.rollout`), and goes on here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from controllers.api import names
from controllers.api.resources import POD
from controllers.domain.driver.choice import Blocked, Install, Unknown
from controllers.domain.driver.states import BACK, LEAVING
from controllers.domain.driver.variant import revision_of, serves
from controllers.driver.node.adopted import keep_adopted
from controllers.driver.node.begin import block, look_at, preflight, queued
from controllers.driver.node.draft import Draft, NodePlan, in_service, time_left
from controllers.driver.node.due import is_asked, is_due, time_to_retry
from controllers.driver.node.failed import obey_retry, reconsider
from controllers.driver.node.hand_over import asked_by, hand_over
from controllers.driver.node.leaving import leave
from controllers.driver.node.removing import remove
from controllers.driver.node.returned import soak_again, stay
from controllers.driver.node.taint import keep_taint
from controllers.driver.node.turn import wait_for_turn
from controllers.driver.node.under_way import TRIED, finish, keep
from controllers.driver.node.work import has_failed_for, last_of
from controllers.runtime.plan import Delete, Plan, PlanBuilder, ref

if TYPE_CHECKING:
    from collections.abc import Callable

    from controllers.api.driver_work import DriverWork, Phase
    from controllers.api.gpudriver import GPUDriver
    from controllers.driver.views import ObservedNode


def plan_node(seen: ObservedNode, now: float) -> NodePlan:
    """The next writes of a node."""
    if seen.node is None or seen.inventory is None:
        # gpu-inventory-controller takes the record away, and the work with it.
        left = [Delete(ref(POD, check)) for check in seen.checks if check.metadata.deletion_timestamp is None]
        return NodePlan(Plan(tuple(left)))
    work = seen.work
    draft = Draft(seen, seen.node, seen.inventory, now, PlanBuilder(), work)
    if work is not None and work.node_uid != seen.node.metadata.uid:
        draft.write(None)  # it was done to another machine of this name
    elif work is not None and work.hand_over is not None:
        hand_over(draft, work)
    elif work is not None and (step := STEPS.get(work.phase)) is not None:
        step(draft, work)
    elif keep_adopted(draft):
        pass
    elif isinstance(seen.choice, Unknown):
        _wait_for_facts(draft)
    elif seen.driver is None or not isinstance(seen.choice, Install | Blocked):
        draft.write(None)  # nobody wants a driver of the module there: what is on it stays
    elif work is not None and work.driver != seen.driver.name:
        draft.write(None)  # the GPUDriver that has the node now begins anew, and the other one may go
    elif work is None:
        _begin(draft, seen.driver)
    else:
        _at_work(draft, work, seen.driver)
    obey_retry(draft)
    keep_taint(draft)
    return draft.built()


def _at_work(draft: Draft, work: DriverWork, driver: GPUDriver) -> None:
    """A node that has not been begun, or has failed."""
    target, choice = draft.observed.target, draft.observed.choice
    if work.phase in ("Failed", "Broken"):
        reconsider(draft, work, driver)
    elif work.wave is not None:
        wait_for_turn(draft, work, driver)
    elif names.DRIVER_VARIANT in draft.node.metadata.labels and in_service(draft.observed):
        keep(draft, work)
    elif isinstance(choice, Blocked):
        block(draft, work, driver, choice)
    elif target is None:
        draft.write(None)
    elif work.to != target.variant.value:
        # What has not been begun takes the new target at once.
        look_at(draft, driver, target, attempt=_attempt(draft, work, target))
    elif work.phase == "Preflight":
        preflight(draft, work, driver, target)
    elif work.phase == "Queued":
        queued(draft, work, driver, target)
    elif work.retry_at is None or draft.observed.is_asked_again or is_due(work, draft.node, draft.now):
        look_at(draft, driver, target, attempt=work.attempt + 1)
    else:
        draft.plan.requeue_within(time_to_retry(work, draft.now))


def _attempt(draft: Draft, work: DriverWork, target: Install) -> int:
    """The number of a look for another target; one that comes next as an image is missing is of the same try."""
    if draft.observed.is_asked_again:
        return work.attempt + 1
    return work.attempt if set(work.missing) & set(target.missing) else 1


STEPS: Final[dict[Phase, Callable[[Draft, DriverWork], None]]] = {
    **dict.fromkeys(LEAVING, leave),
    "Removing": remove,
    **dict.fromkeys(TRIED, finish),
    **dict.fromkeys(BACK, stay),
}
"""What is done to a node that has been begun, whatever becomes of its GPUDriver."""


def _wait_for_facts(draft: Draft) -> None:
    """The node is being started, or its agent is silent: its work stands still, but for a look that takes too long."""
    work = draft.observed.work
    if work is not None and work.phase == "Preflight" and work.deadline is not None:
        if (left := time_left(work.deadline, draft)) > 0:
            draft.plan.requeue_within(left)
        else:
            draft.write(None)


def _begin(draft: Draft, driver: GPUDriver) -> None:
    """A node to which nothing is done."""
    seen, target = draft.observed, draft.observed.target
    label = draft.node.metadata.labels.get(names.DRIVER_VARIANT)
    if label is not None and _is_served(seen, label):
        soak_again(draft, driver, label)
        return  # it has a driver of ours; another revision comes with a roll-out
    if seen.report is None or asked_by(draft.node):
        return  # nobody knows what is there; or a person is to have the node before a driver comes onto it
    if isinstance(seen.choice, Blocked):
        block(draft, None, driver, seen.choice)
    elif label is None and seen.report.driver_version:
        return  # its driver is somebody else's
    elif target is not None and (target.variant.value != label or _is_tried_again(seen, driver, target)):
        look_at(draft, driver, target)


def _is_served(seen: ObservedNode, label: str) -> bool:
    """Whether the node has the driver that its label names: it serves its kernel, and has not failed there."""
    kernel = seen.node.status.node_info.kernel_version if seen.node is not None else ""
    return in_service(seen) or (serves(label, kernel) and not _failed_with(seen, label))


def _is_tried_again(seen: ObservedNode, driver: GPUDriver, target: Install) -> bool:
    """Whether the driver that failed there is begun anew: it did for another GPUDriver, or a person wants it tried."""
    asked = seen.node is not None and is_asked(seen.node)
    last, since = last_of(seen.node, seen.inventory), seen.permits.counted_since
    return asked or not has_failed_for(last, driver.name, target.variant.revision, since)


def _failed_with(seen: ObservedNode, label: str) -> bool:
    """Whether the driver that the node's label names failed there, as its last work says, and never served since."""
    last = last_of(seen.node, seen.inventory)
    failed = last is not None and last.result == "Failed" and last.revision == revision_of(label)
    return failed and not in_service(seen)
