"""A node whose driver is to be replaced and that still has it: looked at, waiting for its turn, or given back. Pure.

When it is begun the roll-out of its GPUDriver decides (`controllers.driver.rollout`), which knows of all nodes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from controllers.api import names
from controllers.domain.clock import begun
from controllers.domain.driver.choice import Install
from controllers.domain.driver.variant import serves
from controllers.driver.node.begin import look_at, preflight
from controllers.driver.node.due import is_asked, is_due, time_to_retry
from controllers.driver.node.states import PREFLIGHT_HOLDS

if TYPE_CHECKING:
    from controllers.api.driver_work import DriverWork
    from controllers.api.gpudriver import GPUDriver
    from controllers.driver.node.draft import Draft


def wait_for_turn(draft: Draft, work: DriverWork, driver: GPUDriver) -> None:
    """The next step of such a node."""
    target, label = draft.observed.target, draft.node.metadata.labels.get(names.DRIVER_VARIANT)
    if work.phase == "RolledBack":
        _rolled_back(draft, work)
    elif label is None or not serves(label, draft.node.status.node_info.kernel_version):
        draft.write(None)  # its driver serves it no more: it gets one like a bare node
    elif target is None or work.to != target.variant.value or label == work.to:
        draft.write(None)  # there is another target, or none
    elif work.phase == "Preflight":
        preflight(draft, work, driver, target)
    elif work.phase == "Queued":
        _queued(draft, work)
    elif work.phase == "Blocked" and is_due(work, draft.node, draft.now):
        look_at(draft, driver, target, attempt=work.attempt + 1)
    elif work.retry_at is not None:
        draft.plan.requeue_within(time_to_retry(work, draft.now))


def _queued(draft: Draft, work: DriverWork) -> None:
    """A look holds for a while; of a node that goes back to a driver that it had, none was needed."""
    if work.undoes is not None:
        return
    fresh = begun(work.since, draft.now) + PREFLIGHT_HOLDS - draft.now
    if fresh > 0:
        draft.plan.requeue_within(fresh)
    else:
        draft.write(None)


def _rolled_back(draft: Draft, work: DriverWork) -> None:
    """The node has its former driver, until another one is wanted than the one that failed, or that is tried again."""
    seen = draft.observed
    resumed = seen.slots.resumed is not None and work.since < seen.slots.resumed
    another = isinstance(seen.choice, Install) and seen.choice.variant.revision != work.undoes
    due = work.retry_at is not None and (is_asked(draft.node) or time_to_retry(work, draft.now) <= 0)
    if resumed or another or due:
        draft.write(None)
    elif work.retry_at is not None:
        draft.plan.requeue_within(time_to_retry(work, draft.now))
