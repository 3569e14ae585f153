"""A node on which a driver failed: it comes to itself, or is tried again where something is new. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from controllers.api import names
from controllers.api.driver_work import counts
from controllers.api.resources import NODE
from controllers.domain.driver.variant import revision_of
from controllers.driver.node.begin import look_at
from controllers.driver.node.draft import in_service, is_done
from controllers.driver.node.due import is_asked
from controllers.driver.node.moves import move
from controllers.driver.node.pod import outcome
from controllers.driver.node.returned import come_back
from controllers.driver.node.under_way import RESTARTS_MAX, done
from controllers.runtime.plan import Merge, ref

if TYPE_CHECKING:
    from controllers.api.driver_work import DriverWork
    from controllers.api.gpudriver import GPUDriver
    from controllers.domain.driver.choice import Install
    from controllers.driver.node.draft import Draft


STUCK: Final = ("Failed", "Deferred", "RolledBack", "Broken")


def reconsider(draft: Draft, work: DriverWork, driver: GPUDriver) -> None:
    """A node that failed: it may have come to itself; something new has it tried again."""
    seen, target = draft.observed, draft.observed.target
    if work.phase == "Broken":
        _try_again(draft, work)
    elif outcome(seen.pod).serves and is_done(seen):
        _recover(draft, work)
    elif _is_superseded(draft, work):
        draft.write(None)  # it serves with another version than was wanted: the next comes with a roll-out
    elif target is not None and not in_service(seen) and _is_new(draft, work, target):
        look_at(draft, driver, target, attempt=work.attempt + 1)


def _is_superseded(draft: Draft, work: DriverWork) -> bool:
    """Whether the node is in service with the driver that its label names, and another one is wanted by now."""
    target, label = draft.observed.target, draft.node.metadata.labels.get(names.DRIVER_VARIANT)
    another = target is not None and revision_of(work.to or "") != target.variant.revision
    return another and label is not None and in_service(draft.observed)


def _recover(draft: Draft, work: DriverWork) -> None:
    """The driver serves there after all."""
    if work.wave is None:
        done(draft, work)
    else:
        come_back(draft, move(work, "Validating", draft.now))


def _try_again(draft: Draft, work: DriverWork) -> None:
    """A node that failed with its former driver, too: it may have come to itself, or is tried again by a person."""
    boot = draft.node.status.node_info.boot_id
    rebooted = bool(work.boot_id and boot and work.boot_id != boot)
    if outcome(draft.observed.pod).serves and is_done(draft.observed):
        come_back(draft, move(work, "Validating", draft.now))
    elif is_asked(draft.node) or rebooted:
        draft.write(move(work, "Removing", draft.now, attempt=work.attempt + 1, boot_id=boot or None))


def _is_new(draft: Draft, work: DriverWork, target: Install) -> bool:
    """Whether a node that failed is tried again."""
    seen, boot, asked = draft.observed, draft.node.status.node_info.boot_id, is_asked(draft.node)
    resumed = not counts(work.since, seen.permits.counted_since)
    # A start of the node is something new, but where the driver is what starts it anew.
    rebooted = bool(work.boot_id and boot and work.boot_id != boot) and work.restarts < RESTARTS_MAX
    return asked or resumed or rebooted or revision_of(work.to or "") != target.variant.revision


def obey_retry(draft: Draft) -> None:
    """The annotation goes once what failed or was blocked is tried again, or where nothing is in the way."""
    if names.DRIVER_RETRY not in draft.node.metadata.annotations or _is_to_be_obeyed(draft):
        return
    body = {"metadata": {"annotations": {names.DRIVER_RETRY: None}}}
    draft.plan.add(Merge(ref(NODE, draft.node), draft.node.metadata.resource_version, body))


def _is_to_be_obeyed(draft: Draft) -> bool:
    """Whether what the person asks for has not been begun, or would not go on without being asked for."""
    seen, work = draft.observed, draft.observed.work
    if not is_asked(draft.node):
        return False
    if draft.awaits is not None:
        return True
    if seen.permits.bad and draft.after is not None and draft.after.phase in ("Preflight", "Queued"):
        return True  # a revision that is bad is begun only while it is asked for
    if work is None or draft.takes is not None or draft.after != work:
        return False
    return work.phase in STUCK or (work.phase == "Blocked" and seen.target is not None)
