"""What follows where a driver fails on a node: the former one comes back, or the node keeps what it has. Pure."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from controllers.api import names
from controllers.domain.clock import stamp
from controllers.domain.driver.variant import revision_of
from controllers.driver.node.draft import event, in_service
from controllers.driver.node.health import baseline
from controllers.driver.node.moves import charged, move
from controllers.driver.node.work import ended

if TYPE_CHECKING:
    from controllers.api.driver_work import DriverWork, Phase
    from controllers.domain.driver.choice import Install
    from controllers.driver.node.draft import Draft
    from controllers.driver.node.pod import Outcome


def fail(draft: Draft, work: DriverWork, found: Outcome) -> None:
    """The driver has failed there, which is told; the former one comes back where the GPUDriver wants that."""
    told = replace(
        work,
        reason=found.reason,
        message=f"{found.message}"[:900],
        fault="Revision" if found.fault == "revision" else "Node",
    )
    _go_on(draft, work, told)
    event(draft, names.EVENT_DRIVER_FAILED, f"{found.reason}: {found.message}")


def _go_on(draft: Draft, work: DriverWork, told: DriverWork) -> None:
    seen, back = draft.observed, _way_back(draft, work)
    serves = in_service(seen) or seen.used  # pods may use the driver: such a node leaves service like any other
    if work.undoes is not None:
        _break(draft, told)
    elif back is not None and not serves:
        _undo(draft, told, "Removing", back)
    elif back is not None:
        _undo(draft, charged(told, draft.now, len(seen.devices)), "Queued", back)
    elif serves and work.wave is not None and work.phase != "Removing":
        draft.write(None, ended(charged(told, draft.now, len(seen.devices)), draft.now, good=False))
    else:
        _keep_failed(draft, told)


def _way_back(draft: Draft, work: DriverWork) -> Install | None:
    """The driver that the node gets back; None where it is not to be, or there is none."""
    seen = draft.observed
    if work.wave is None or work.phase == "Removing" or seen.driver is None:
        return None
    if seen.driver.spec.rollout.rollback == "None":
        return None
    return seen.way_back


def _undo(draft: Draft, told: DriverWork, phase: Phase, back: Install) -> None:
    """The node is on the way to its former driver: the same steps, and no look before it, as it ran there before."""
    made = move(
        told,
        phase,
        draft.now,
        undoes=revision_of(told.to or ""),
        from_=told.to,
        to=back.variant.value,
        used=False,
        gpu_seconds=0,
        # What this driver has done to its cards does not speak against the former one.
        baseline=baseline(draft.observed.devices),
    )
    draft.write(made, ended(told, draft.now, good=False))


def _break(draft: Draft, told: DriverWork) -> None:
    """The former driver has failed, too: nothing more is done there until something is new."""
    message = f"{told.message}; {_again(draft)}, as does another start of the node"
    made = move(
        charged(told, draft.now, len(draft.observed.devices)),
        "Broken",
        draft.now,
        reason="RollbackFailed",
        message=message,
        boot_id=draft.node.status.node_info.boot_id,
    )
    draft.write(made)


def _keep_failed(draft: Draft, told: DriverWork) -> None:
    """The node keeps what it has, and is told; nothing more is done there until something is new."""
    made = replace(
        charged(told, draft.now, len(draft.observed.devices)),
        phase="Failed",
        message=f"{told.message}; {_again(draft)}",
        since=stamp(draft.now),
        deadline=None,
        boot_id=draft.node.status.node_info.boot_id or None,
    )
    draft.write(made, ended(made, draft.now, good=False))


def _again(draft: Draft) -> str:
    return f"kubectl annotate node {draft.node.name} {names.DRIVER_RETRY}=true tries again"
