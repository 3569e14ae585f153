"""A node before a driver comes onto it: blocked, looked at, waiting for its turn, begun. Pure."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from controllers.api import names
from controllers.api.resources import CONFIGMAP, DAEMONSET
from controllers.domain.clock import begun
from controllers.domain.driver.choice import Blocked
from controllers.domain.driver.pause import is_paused_on, is_put_off, paused_to
from controllers.domain.driver.states import PREFLIGHT_HOLDS, STATES, retry_after
from controllers.domain.wording import listed
from controllers.driver.node import look
from controllers.driver.node.draft import (
    AWAITED,
    event,
    make_check,
    make_objects,
    may_relabel,
    reported_version,
    set_label,
    time_left,
)
from controllers.driver.node.due import is_asked, time_to_retry
from controllers.driver.node.verdict import PENDING, Verdict
from controllers.driver.node.work import step

if TYPE_CHECKING:
    from collections.abc import Sequence

    from controllers.api.driver_work import DriverWork
    from controllers.api.gpudriver import GPUDriver
    from controllers.api.kube import Node
    from controllers.domain.driver.choice import Install
    from controllers.driver.node.draft import Draft

LEAVING: Final = ("ToBeDeletedByClusterAutoscaler", "karpenter.sh/disrupted", "karpenter.sh/disruption")
"""Keys of taints by which autoscalers say that a node goes."""


def block(draft: Draft, work: DriverWork | None, driver: GPUDriver, choice: Blocked) -> None:
    """No driver can come onto the node as it is, which is told there; it is left as it is."""
    if choice.missing and work is not None and _waits_for_image(draft, work):
        return
    attempt = work.attempt + (work.phase == "Blocked") if choice.missing and work is not None else 1
    after = retry_after(attempt) if choice.missing else None
    made = step(
        work,
        "Blocked",
        draft.now,
        driver=driver.name,
        node=draft.node,
        to=None,
        reason=choice.reason,
        message=choice.message,
        attempt=attempt,
        retry_in=after,
        missing=choice.missing,
        awaits_image=bool(choice.missing),
    )
    if after is not None:
        draft.plan.requeue_within(after)
    elif work is not None and (work.phase, work.to) == ("Blocked", None):
        made = replace(made, since=work.since, boot_id=work.boot_id)
    draft.write(made)


def _waits_for_image(draft: Draft, work: DriverWork) -> bool:
    """Whether the node waits already until it asks for its image again."""
    waits = work.phase == "Blocked" and work.awaits_image and not draft.observed.is_asked_again
    if waits and work.retry_at is not None:
        draft.plan.requeue_within(time_to_retry(work, draft.now))
    return waits


def look_at(draft: Draft, driver: GPUDriver, target: Install, attempt: int = 1) -> None:
    """Have the node looked at, as soon as another one may be."""
    seen = draft.observed
    if not draft.node.ready:
        return
    if _is_held(draft):
        _tell_held(draft, driver)
        return
    if not (seen.permits.preflight or (seen.work is not None and seen.work.phase == "Preflight")):
        draft.awaits = "preflight"
        return
    draft.write(draft.enter("Preflight", target, driver.name, attempt=attempt))
    draft.takes = "preflight"
    make_check(draft)


def _is_held(draft: Draft) -> bool:
    """Whether the node is not begun: a bad revision is tried there again only if a person asks for that."""
    permits = draft.observed.permits
    return permits.halted or bool(permits.missing) or (permits.bad and not is_asked(draft.node))


def _tell_held(draft: Draft, driver: GPUDriver) -> None:
    """Say on a node that has no driver why it gets none, where only a person can change that."""
    seen, work = draft.observed, draft.observed.work
    if reported_version(seen) or (work is not None and (work.phase != "Blocked" or work.wave is not None)):
        return
    if seen.permits.missing:
        block(draft, work, driver, Blocked("ConfigMapMissing", contents_missing(seen.permits.missing)))
    elif seen.permits.bad:
        found = f"the revision that GPUDriver {driver.name} wants failed on nodes of this kind, and none was good"
        message = f"{found}: name another version, or kubectl gpu driver resume {driver.name}"
        block(draft, work, driver, Blocked("RevisionBad", message))
    elif work is not None and work.to is None:
        draft.write(None)  # what it says has passed


def contents_missing(config_maps: Sequence[str]) -> str:
    """What to do about ConfigMaps that a GPUDriver names and that are not there."""
    return f"there is no ConfigMap {listed(config_maps)}, which it names: make it, or take its name out"


def preflight(draft: Draft, work: DriverWork, driver: GPUDriver, target: Install) -> None:
    """A node that is being looked at."""
    seen = draft.observed
    if not draft.node.ready:
        draft.write(None)  # it takes a permit from others while kubelet is away, and is looked at once it is back
        return
    wanted = seen.wanted_check.name if seen.wanted_check is not None else None
    check = next((pod for pod in seen.checks if pod.name == wanted), None)
    if check is None:
        make_check(draft)
    # The module's own pods hold a driver of the module's open even where it failed, and leave it before it is replaced.
    serves = names.DRIVER_VARIANT in draft.node.metadata.labels or work.from_ is not None
    found = PENDING
    if check is not None:
        found = look.verdict(check, target, driver.spec, draft.node.name, serves=serves)
    if found == PENDING:
        _late(draft, work, driver, target)
    elif found.good:
        draft.found = target.image
        draft.write(draft.enter("Queued", target, driver.name, attempt=work.attempt))
    else:
        _refused(draft, work, driver, target, found)


def _late(draft: Draft, work: DriverWork, driver: GPUDriver, target: Install) -> None:
    """A look that does not come to an end."""
    left = time_left(work.deadline, draft) if work.deadline is not None else None
    if left is None:
        return
    if left > 0:
        draft.plan.requeue_within(left)
        return
    minutes = int((STATES[work.phase].limit or 0) / 60)
    message = f"the check pod on node {draft.node.name} did not end within {minutes} minutes"
    _refused(draft, work, driver, target, Verdict(reason=STATES[work.phase].late_reason, message=message))


def _refused(
    draft: Draft, work: DriverWork, driver: GPUDriver, target: Install, found: Verdict, *, pods: str = ""
) -> None:
    """The look has found something: the node is untouched, and is looked at again after a while.

    `pods` are named in the work alone, and in no event, which more people read.
    """
    after = retry_after(work.attempt)
    told: dict[str, object] = {
        "reason": found.reason,
        "message": f"{found.message}{pods and f': {pods}'}",
        "retry_in": after,
        "attempt": work.attempt,
    }
    if found.image_missing:
        told |= {"missing": (*target.missing, target.image), "awaits_image": True}
    draft.write(draft.enter("Blocked", target, driver.name, **told))
    draft.plan.requeue_within(after)
    draft.missing = target.image if found.image_missing else None
    event(draft, names.EVENT_DRIVER_BLOCKED, found.message)


def queued(draft: Draft, work: DriverWork, driver: GPUDriver, target: Install) -> None:
    """A node that is known to be fit, and waits for its turn."""
    seen, fresh = draft.observed, begun(work.since, draft.now) + PREFLIGHT_HOLDS - draft.now
    if fresh <= 0:
        look_at(draft, driver, target)
    elif may_start(draft.node) and not (_is_paused(draft, driver) or _is_held(draft)):
        if seen.permits.install and seen.permits.proved:
            _install(draft, work, driver, target)
        else:
            draft.awaits = "install"
            draft.plan.requeue_within(fresh)
    else:
        draft.plan.requeue_within(fresh)
        if (end := paused_to(driver, draft.node, draft.now)) is not None:
            draft.plan.requeue_within(end - draft.now)


def _is_paused(draft: Draft, driver: GPUDriver) -> bool:
    """Whether the node waits for a person: one that lost its adopted driver waits for no roll-out."""
    if draft.observed.lost_adopted:
        return is_put_off(driver, draft.node, draft.now)
    return is_paused_on(driver, draft.node, draft.now)


def may_start(node: Node) -> bool:
    """Whether work may begin on the node now: it is Ready, and neither a person nor an autoscaler takes it away."""
    return node.ready and not is_taken_away(node)


def is_taken_away(node: Node) -> bool:
    """Whether a person has cordoned the node, or an autoscaler says that it goes."""
    return node.spec.unschedulable or any(taint.key in LEAVING for taint in node.spec.taints)


def _wait_for_users(draft: Draft, work: DriverWork, driver: GPUDriver, target: Install) -> None:
    """Pods use the driver that is to go: they are told, and end by themselves, as nobody is evicted here."""
    users = draft.observed.users
    if not users:
        draft.plan.requeue_within(AWAITED)
        return
    message = f"pods use the driver that node {draft.node.name} has, and have to end before it goes"
    found = Verdict(reason="DevicesHeld", message=message)
    _refused(draft, work, driver, target, found, pods=listed(user.key for user in users))


def _install(draft: Draft, work: DriverWork, driver: GPUDriver, target: Install) -> None:
    """The permit is taken by the write of the phase; the objects are there before it, the label comes after it."""
    if not may_relabel(draft, target.variant.value):
        _wait_for_users(draft, work, driver, target)  # the driver that is there would be unloaded under them
        return
    objects = draft.observed.objects
    make_objects(draft, (CONFIGMAP, objects.configmap), (DAEMONSET, objects.daemonset))
    draft.write(draft.enter("Installing", target, driver.name, attempt=work.attempt))
    draft.takes = "install"
    set_label(draft, target.variant.value)
