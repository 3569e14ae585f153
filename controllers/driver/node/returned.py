"""A node on which a driver that replaced another one serves: it comes back into service, and soaks. Pure."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from controllers.api import names
from controllers.api.conditions import READY_FOR_POOLING, find
from controllers.domain.clock import begun, stamp
from controllers.domain.driver.choice import Install
from controllers.domain.driver.node_work import ABSENT_MAX, ready_changed
from controllers.domain.driver.states import DAY, EVIDENCE_MAX, defer_for, limit_of
from controllers.domain.driver.variant import revision_of, serves
from controllers.driver.node.draft import event, in_service, reported_version, time_left
from controllers.driver.node.due import is_asked
from controllers.driver.node.failing import fail
from controllers.driver.node.health import baseline, is_as_asked, verdict, verdict_in
from controllers.driver.node.moves import charged, move
from controllers.driver.node.offered import is_offered
from controllers.driver.node.pod import outcome
from controllers.driver.node.work import ended, has_failed_for, is_shown, last_of, step, unproved

if TYPE_CHECKING:
    from controllers.api.driver_rollout import Rollout
    from controllers.api.driver_work import DriverWork
    from controllers.api.gpudriver import GPUDriver
    from controllers.driver.node.draft import Draft
    from controllers.driver.views import ObservedNode


def come_back(draft: Draft, work: DriverWork) -> None:
    """The next phase of a node whose own checks have passed; those that have nothing to wait for are passed over."""
    seen, order = draft.observed, ("Validating", "Relayout", "Returning")
    at = order.index(work.phase)
    if at < order.index("Relayout") and not is_as_asked(seen.devices):
        draft.write(move(work, "Relayout", draft.now))
    elif at < order.index("Returning") and not is_offered(seen):
        draft.write(move(work, "Returning", draft.now))
    elif work.undoes is not None:
        _roll_back(draft, work)
    else:
        draft.write(move(charged(work, draft.now, len(seen.devices)), "Soaking", draft.now, used=_is_used(seen)))


def stay(draft: Draft, work: DriverWork) -> None:
    """The next step of a node in one of the phases `BACK`."""
    seen, label = draft.observed, draft.node.metadata.labels.get(names.DRIVER_VARIANT)
    kernel = draft.node.status.node_info.kernel_version
    if label is None or label != work.to or not serves(label, kernel):
        # Changed by hand, or the node runs another kernel by now: it is begun anew.
        draft.write(None, unproved(work, draft.now) if work.undoes is None else None)
    elif (found := verdict(seen, draft.now)) is not None:
        fail(draft, work, found)
    else:
        if (soon := verdict_in(seen, draft.now)) is not None:
            draft.plan.requeue_within(soon)
        _go_on(draft, work)


def soak_again(draft: Draft, driver: GPUDriver, label: str) -> None:
    """A node that serves with the revision that is wanted, and has not shown that it does so well: it is watched anew.

    Its soak was broken off; or it failed amid it, and a person has it tried again, or another GPUDriver has it now.
    """
    seen, last, revision = draft.observed, last_of(draft.node, draft.inventory), revision_of(label)
    is_good = seen.wanted_result == "Good"
    if last is None or is_shown(last, revision, is_good=is_good) or not in_service(seen):
        return
    is_wanted = isinstance(seen.choice, Install) and seen.choice.variant.revision == revision
    if not is_wanted or not serves(label, draft.node.status.node_info.kernel_version):
        return
    is_ours = (last.revision, last.driver) == (revision, driver.name)
    if has_failed_for(last, driver.name, revision, seen.counted_since) and not is_asked(draft.node):
        return
    made = step(None, "Soaking", draft.now, driver=driver.name, node=draft.node, to=label, stratum=seen.stratum)
    # Where the kind is proved meanwhile, it is one of the nodes of a wave, and holds nobody up for a canary's time.
    wave = max(1, last.wave or 0) if is_good else 0
    made = replace(made, wave=wave, used=_is_used(seen), baseline=baseline(seen.devices))
    if is_ours and begun(last.at, draft.now) > draft.now - DAY:
        made = replace(made, gpu_seconds=last.gpu_seconds, out_seconds=last.out_seconds)
        last = replace(last, gpu_seconds=0, out_seconds=0)  # what it has cost goes on with the work
    draft.write(made, last)


def _go_on(draft: Draft, work: DriverWork) -> None:
    """Nothing speaks against the driver, as yet."""
    seen = draft.observed
    if work.phase == "Soaking":
        _soak(draft, work)
    elif _is_through(seen, work) or (left := time_left(work.deadline, draft) if work.deadline else 0.0) <= 0:
        come_back(draft, work)
    else:
        draft.plan.requeue_within(left)


def _is_through(seen: ObservedNode, work: DriverWork) -> bool:
    """Whether what the phase waits for has come."""
    return is_as_asked(seen.devices) if work.phase == "Relayout" else is_offered(seen)


def _is_used(seen: ObservedNode) -> bool:
    return any(one.status.allocations for one in seen.devices)


def _roll_back(draft: Draft, work: DriverWork) -> None:
    """The node has its former driver again, and keeps it until something is new."""
    after = defer_for(work.attempt) if work.fault == "Node" else None
    made = charged(work, draft.now, len(draft.observed.devices))
    made = move(
        made, "RolledBack", draft.now, baseline=None, retry_at=stamp(draft.now + after) if after is not None else None
    )
    last, failed = ended(made, draft.now, good=False), last_of(draft.node, draft.inventory)
    same = failed is not None and (failed.revision, failed.driver) == (last.revision, last.driver)
    has_failed = failed is not None and same and failed.has_failed
    # When it failed there, or on others so that the node went back; not when the node had its former driver again.
    last = replace(last, at=failed.at if failed is not None and has_failed else work.begun or last.at)
    draft.write(made, last)
    event(draft, names.EVENT_DRIVER_ROLLED_BACK, f"the former driver {reported_version(draft.observed)} serves there")


def _soak(draft: Draft, work: DriverWork) -> None:
    """The node serves pods; once it has for long enough, and shown what it has to, its work ends."""
    seen = draft.observed
    if seen.driver is None or seen.driver.name != work.driver or _is_superseded(seen, work):
        draft.write(None, unproved(work, draft.now))  # what it would prove nobody asks for any more
        return
    if (away := _away_left(seen, draft.now)) is not None:
        if away > 0:
            draft.plan.requeue_within(away)
        else:
            _stays_away(draft, work)
        return
    used = work.used or _is_used(seen)
    left = _soak_left(seen.driver.spec.rollout, work, draft.now, used=used)
    if left > 0:
        draft.write(replace(work, used=used))
        draft.plan.requeue_within(left)
        return
    draft.write(None, ended(work, draft.now, good=True))
    event(draft, names.EVENT_DRIVER_INSTALLED, f"the driver {reported_version(seen)} serves there", "Normal")


def _stays_away(draft: Draft, work: DriverWork) -> None:
    """The node has not served for as long as is waited for."""
    found, changed = outcome(draft.observed.pod), ready_changed(draft.node, draft.now)
    # A node that has just been started anew loads its driver, or compiles it, first.
    left = (changed or 0.0) + (limit_of("Installing") or 0.0) - draft.now
    if draft.node.ready and not found.serves and left > 0:
        draft.plan.requeue_within(left)
    elif draft.node.ready and not found.serves:
        message = "the driver's pod has not been ready since the node left service, amid its soak"
        fail(draft, work, found.at_limit("DriverPodFailed", message))
    else:
        # A machine that does not come back proves nothing, and keeps no other node.
        draft.write(None, unproved(work, draft.now))


def _away_left(seen: ObservedNode, now: float) -> float | None:
    """Seconds for which a node that is out of service is waited for; None for one that serves."""
    said = find(seen.inventory.status.conditions, READY_FOR_POOLING) if seen.inventory is not None else None
    if said is None or said.status == "True":
        return None
    return begun(said.last_transition_time or stamp(now), now) + ABSENT_MAX - now


def _is_superseded(seen: ObservedNode, work: DriverWork) -> bool:
    """Whether another revision is wanted by now."""
    return isinstance(seen.choice, Install) and seen.choice.variant.revision != revision_of(work.to or "")


def _soak_left(rollout: Rollout, work: DriverWork, now: float, *, used: bool) -> float:
    """Seconds that the node has to serve yet; of a canary that has to be used, until nobody waits for that any more."""
    since = begun(work.since, now)
    if work.wave:
        return since + rollout.wave_soak - now
    soak = rollout.canary.soak
    if rollout.canary.evidence == "Use" and not used:
        soak = max(soak, EVIDENCE_MAX)
    return since + soak - now
