"""A node on which a driver is being installed or validated: it is finished, or fails. Pure."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from controllers.api import names
from controllers.api.conditions import DRIVER_OUTDATED, READY_FOR_POOLING, find, is_true
from controllers.domain.clock import stamp
from controllers.domain.driver.choice import is_wanted
from controllers.domain.driver.states import STATES, limit_of
from controllers.domain.driver.variant import serves
from controllers.driver.node.draft import (
    event,
    in_service,
    is_done,
    may_relabel,
    reported_version,
    set_label,
    time_left,
)
from controllers.driver.node.failing import fail
from controllers.driver.node.health import NODES_OWN, other_version, verdict, verdict_in
from controllers.driver.node.pod import Outcome, outcome
from controllers.driver.node.returned import come_back
from controllers.driver.node.work import finished, last_of

if TYPE_CHECKING:
    from controllers.api.driver_work import DriverWork, Phase
    from controllers.api.gpunodeinventory import Stage
    from controllers.driver.node.draft import Draft
    from controllers.driver.views import ObservedNode


TRIED: Final[tuple[Phase, ...]] = ("Installing", "Validating")
RESTARTS_MAX: Final = 3
"""Starts of a node amid one try after which that has failed: a driver that crashes the node does so each time."""


def finish(draft: Draft, work: DriverWork) -> None:
    """A node that has its label, or is about to: it is finished, whatever becomes of the GPUDriver."""
    info, found = draft.node.status.node_info, outcome(draft.observed.pod)
    if work.to is not None and not serves(work.to, info.kernel_version):
        draft.write(None)  # what was begun is for the kernel that ran before: the node is begun anew
        return
    label = draft.node.metadata.labels.get(names.DRIVER_VARIANT)
    if work.to is not None and label != work.to:
        if may_relabel(draft, work.to):
            set_label(draft, work.to)
        elif in_service(draft.observed):
            keep(draft, work)
            return
    if work.boot_id is not None and info.boot_id and work.boot_id != info.boot_id:
        _restarted(draft, work)
    elif found.serves and work.phase == "Installing":
        _advance(draft, work, "Validating")
    elif (wrong := verdict(draft.observed, draft.now)) is not None:
        fail(draft, work, wrong)
    elif found.serves and is_done(draft.observed):
        done(draft, work)
    elif found.fault is not None:
        fail(draft, work, found)
    else:
        _overdue(draft, work, found)


def keep(draft: Draft, work: DriverWork) -> None:
    """A node that has come to itself with the driver that it has: that is not taken from under its pods."""
    seen, label = draft.observed, draft.node.metadata.labels.get(names.DRIVER_VARIANT)
    fits = seen.labelled_version is not None and is_wanted(seen.labelled_version, reported_version(seen))
    # The kind of node is that of what was to come: of the driver that is there nothing is proved by another one's.
    kept = replace(work, to=label, stratum=work.stratum if work.to == label else None)
    draft.write(None, finished(kept, last_of(draft.node, draft.inventory), draft.now) if fits else None)


def _restarted(draft: Draft, work: DriverWork) -> None:
    """The node has started anew: kubelet starts the driver again, and nothing counts as failed, but for the last."""
    limit, restarts = limit_of("Installing"), work.restarts + 1
    if restarts >= RESTARTS_MAX:
        message = f"the node has started anew {restarts} times while its driver was installed"
        found = Outcome(reason="NodeRestarts", message=message, fault="revision")
        fail(draft, replace(work, restarts=restarts), found)
        return
    made = replace(
        work,
        phase="Installing",
        restarts=restarts,
        since=stamp(draft.now),
        deadline=stamp(draft.now + limit) if limit is not None else None,
        boot_id=draft.node.status.node_info.boot_id,
    )
    draft.write(made)


def _advance(draft: Draft, work: DriverWork, phase: Phase) -> None:
    limit = STATES[phase].limit
    deadline = stamp(draft.now + limit) if limit is not None else None
    made = replace(work, phase=phase, since=stamp(draft.now), deadline=deadline)
    # On the way back from a revision that failed what it failed by stays.
    draft.write(made if work.undoes is not None else replace(made, reason=None, message=None))


def done(draft: Draft, work: DriverWork) -> None:
    """The driver serves, and the node's own checks say that it is ready."""
    if work.wave is not None:
        come_back(draft, work)
        return
    draft.write(None, finished(work, last_of(draft.node, draft.inventory), draft.now))
    event(draft, names.EVENT_DRIVER_INSTALLED, f"the driver {reported_version(draft.observed)} serves there", "Normal")


def _overdue(draft: Draft, work: DriverWork, found: Outcome) -> None:
    """The phase's limit: what was last seen is why."""
    left = time_left(work.deadline, draft) if work.deadline is not None else None
    for soon in (left, verdict_in(draft.observed, draft.now)):
        if soon is not None and soon > 0:
            draft.plan.requeue_within(soon)
    if left is None or left > 0:
        return
    if work.phase == "Validating":
        found = _not_validated(draft.observed)
    late = STATES[work.phase].late_reason or "InstallTimeout"
    fail(draft, work, found.at_limit(late, "no pod of the driver became ready there in time"))


def _not_validated(seen: ObservedNode) -> Outcome:
    """Why a node whose driver's pod is ready is not in service."""
    if (other := other_version(seen)) is not None:
        return other
    said = find(seen.inventory.status.conditions, READY_FOR_POOLING) if seen.inventory is not None else None
    if seen.report is None or said is None or _is_unjudged(seen):
        who = "its agent reports, and gpu-bootstrap-controller runs"
        message = f"the driver's pod is ready, and nobody has checked the node since: see whether {who}"
        return Outcome(reason="ValidationTimeout", message=message, fault="node")
    message = f"the driver's pod is ready, and the node is not: ReadyForPooling says {said.reason}: {said.message}"
    return Outcome(reason="ValidationTimeout", message=message, fault="node" if _stage(seen) in NODES_OWN else None)


def _stage(seen: ObservedNode) -> Stage | None:
    """How far the node's own checks have come."""
    status = seen.inventory.status if seen.inventory is not None else None
    return status.bootstrap.stage if status is not None and status.bootstrap is not None else None


def _is_unjudged(seen: ObservedNode) -> bool:
    """Whether the node's checks have not looked at its driver yet: they wait for it, and have not found it too old."""
    stage = _stage(seen)
    too_old = seen.inventory is not None and is_true(seen.inventory.status.conditions, DRIVER_OUTDATED)
    return stage == "DriverWork" or (stage == "Driver" and not too_old)
