"""The writes of one GPUDriver: its finalizer, its status, and the annotation by which a person resumes. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from controllers.api import names
from controllers.api.conditions import find, is_true
from controllers.api.record import to_json
from controllers.api.resources import GPUDRIVER
from controllers.domain.driver.pause import paused_until
from controllers.domain.driver.states import UNDER_WAY
from controllers.driver.drivers.conditions import HALTED
from controllers.driver.drivers.status import driver_status
from controllers.runtime.plan import Apply, EmitEvent, Merge, Plan, PlanBuilder, ref

if TYPE_CHECKING:
    from controllers.api.gpudriver import GPUDriver, GPUDriverStatus
    from controllers.driver.views import ObservedDriver


def plan_driver(seen: ObservedDriver, now: float, *, status_in: float = 0.0) -> Plan:
    """The next writes of a GPUDriver. `status_in`: seconds until its status may be written again."""
    draft = PlanBuilder()
    driver = seen.driver
    deleting = driver.metadata.deletion_timestamp is not None
    if deleting or not seen.enabled:
        _release(draft, seen)
        if deleting and not draft.actions and not _at_work(seen):
            return draft.build()
    elif names.FINALIZER_DRIVER not in driver.metadata.finalizers and _needs_finalizer(seen):
        draft.add(Apply(ref(GPUDRIVER, driver), {"metadata": {"finalizers": [names.FINALIZER_DRIVER]}}))
    resumed = driver.metadata.annotations.get(names.RESUME) == "true"
    if status_in > 0 and not resumed:
        draft.requeue_within(status_in)
        return draft.build()
    # Two plans: the status, which tells that nothing speaks against the revision any more, is another version of the
    # object, and the annotation is taken off the one that was read.
    restarts = resumed and _is_bad(seen)
    if resumed and not restarts and not deleting:
        body = {"metadata": {"annotations": {names.RESUME: None}}}
        draft.add(Merge(ref(GPUDRIVER, driver), driver.metadata.resource_version, body))
    elif not (deleting and draft.actions):
        _status(draft, seen, now, resumed=restarts)
        if (end := paused_until(driver.metadata.annotations, now)) is not None:
            draft.requeue_within(end - now)  # nothing else tells that it is over
    return draft.build()


def _is_bad(seen: ObservedDriver) -> bool:
    """Whether something speaks against the revision that is wanted."""
    found = seen.results
    return found.revision == "Bad" or "Bad" in found.strata.values() or found.halted is not None


def _needs_finalizer(seen: ObservedDriver) -> bool:
    """Whether a node can be under way for the GPUDriver: for one of mode Host only a node that was handed over."""
    return seen.driver.spec.mode != "Host" or _at_work(seen)


def _release(draft: PlanBuilder, seen: ObservedDriver) -> None:
    """Let the GPUDriver go once no node is under way for it: nodes that have a driver keep it, and its DaemonSet."""
    driver = seen.driver
    if names.FINALIZER_DRIVER not in driver.metadata.finalizers or _at_work(seen):
        return
    left = [one for one in driver.metadata.finalizers if one != names.FINALIZER_DRIVER]
    draft.add(
        Merge(ref(GPUDRIVER, driver), driver.metadata.resource_version, {"metadata": {"finalizers": left or None}})
    )


def _at_work(seen: ObservedDriver) -> bool:
    """Whether work for the GPUDriver is finished on a node, whatever becomes of it; all other work is let go."""
    works = [one.work for one in seen.members if one.work is not None and one.work.driver == seen.driver.name]
    return any(work.phase in UNDER_WAY for work in works)


def _status(draft: PlanBuilder, seen: ObservedDriver, now: float, *, resumed: bool) -> None:
    driver = seen.driver
    status = driver_status(seen, now, resumed=resumed)
    if status == driver.status:
        return
    draft.add(Apply(ref(GPUDRIVER, driver), {"status": to_json(status)}, "status"))
    _halted_event(draft, driver, status)


def _halted_event(draft: PlanBuilder, driver: GPUDriver, status: GPUDriverStatus) -> None:
    halted = find(status.conditions, HALTED)
    if halted is not None and halted.status == "True" and not is_true(driver.status.conditions, HALTED):
        draft.add(EmitEvent(ref(GPUDRIVER, driver), "Warning", names.EVENT_DRIVER_HALTED, halted.message))
