"""A node whose driver is to be replaced and that still has it: looked at, waiting for its turn, or given back. Pure.

When it is begun the roll-out of its GPUDriver decides (`controllers.driver.rollout`), which knows of all nodes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from controllers.api import names
from controllers.api.driver_work import counts
from controllers.domain.clock import begun, stamp
from controllers.domain.driver.choice import Install, is_missing
from controllers.domain.driver.states import PREFLIGHT_HOLDS, retry_after
from controllers.domain.driver.variant import serves
from controllers.driver.node.begin import look_at, preflight
from controllers.driver.node.due import is_due, time_to_retry
from controllers.driver.node.moves import move
from controllers.driver.node.work import last_of

if TYPE_CHECKING:
    from controllers.api.driver_work import DriverWork
    from controllers.api.gpudriver import GPUDriver
    from controllers.driver.node.draft import Draft


def wait_for_turn(draft: Draft, work: DriverWork, driver: GPUDriver) -> None:
    """The next step of such a node."""
    target, label = draft.observed.target, draft.node.metadata.labels.get(names.DRIVER_VARIANT)
    if label is None or not serves(label, draft.node.status.node_info.kernel_version):
        draft.write(None)  # its driver serves it no more: it gets one like a bare node
    elif work.phase == "RolledBack":
        _rolled_back(draft, work)
    elif work.awaits_image and is_missing(draft.observed.choice):
        _wait_for_image(draft, work)
    elif target is None or work.to != target.variant.value or label == work.to:
        draft.write(None)  # there is another target, or none
    elif work.phase == "Preflight":
        preflight(draft, work, driver, target)
    elif work.phase == "Queued":
        _queued(draft, work)
    elif draft.observed.is_asked_again or is_due(work, draft.node, draft.now):
        _try_again(draft, work, driver, target)
    else:
        _wait(draft, work)


def _wait_for_image(draft: Draft, work: DriverWork) -> None:
    """The registry does not have the image: the node keeps its driver, and asks again after ever longer whiles."""
    if not draft.observed.is_asked_again:
        _wait(draft, work)
        return
    after = retry_after(work.attempt + 1)
    retry_at = stamp(draft.now + after)
    draft.write(move(work, "Blocked", draft.now, attempt=work.attempt + 1, retry_at=retry_at))
    draft.plan.requeue_within(after)


def _try_again(draft: Draft, work: DriverWork, driver: GPUDriver, target: Install) -> None:
    """A node that was kept from its driver; of one that was given back its roll-out knows when it is begun again."""
    if work.phase == "Blocked":
        look_at(draft, driver, target, attempt=work.attempt + 1)
    elif work.undoes is not None:
        draft.write(move(work, "Queued", draft.now, attempt=work.attempt + 1))


def _wait(draft: Draft, work: DriverWork) -> None:
    if work.retry_at is not None and (left := time_to_retry(work, draft.now)) > 0:
        draft.plan.requeue_within(left)


def _queued(draft: Draft, work: DriverWork) -> None:
    """A look holds for a while; of a node that goes back to a driver that it had, none was needed."""
    if work.undoes is not None:
        if _is_tried_again(draft, work):
            draft.write(None)  # what failed does not count any more
        return
    fresh = begun(work.since, draft.now) + PREFLIGHT_HOLDS - draft.now
    if fresh > 0:
        draft.plan.requeue_within(fresh)
    else:
        draft.write(None)


def _rolled_back(draft: Draft, work: DriverWork) -> None:
    """The node has its former driver, until another one is wanted than the one that failed, or that is tried again."""
    choice = draft.observed.choice
    another = isinstance(choice, Install) and choice.variant.revision != work.undoes
    if another or _is_tried_again(draft, work):
        draft.write(None)
    else:
        _wait(draft, work)


def _is_tried_again(draft: Draft, work: DriverWork) -> bool:
    """Whether a person has had the revision tried again since it failed on the node."""
    last = last_of(draft.node, draft.inventory)
    has_failed = last is not None and last.revision == work.undoes and last.has_failed
    # A node that goes back because the revision failed on others has not failed itself.
    failed_at = last.at if has_failed and last is not None else work.begun
    return failed_at is not None and not counts(failed_at, draft.observed.permits.counted_since)
