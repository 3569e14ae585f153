"""A node whose pods are to leave before its driver does: they end by themselves, or are asked to leave. Pure.

Strategy WhenIdle ends no pod. Strategy Drain lets pods end for a while; then it evicts them, and nothing but that: no
pod is deleted, none is forced. Before one is evicted all of the node are asked about (dry run), since of a node that is
left by half of its pods nobody has anything. Who protects itself, or is protected by a budget, is waited for. At the
phase's limit the node is in service again, whatever has become of its pods.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from controllers.api.driver_rollout import Rollout
from controllers.api.resources import POD
from controllers.domain.clock import begun, stamp
from controllers.domain.driver.users import protection
from controllers.domain.usage import is_unused
from controllers.domain.wording import listed
from controllers.driver.node.draft import time_left
from controllers.driver.node.late import until_late
from controllers.driver.node.moves import move
from controllers.driver.node.verdict import Verdict
from controllers.runtime.plan import Evict, Ref

if TYPE_CHECKING:
    from collections.abc import Sequence

    from controllers.api.driver_work import DriverWork
    from controllers.api.gpudriver import GPUDriver
    from controllers.domain.driver.users import User
    from controllers.driver.node.draft import Draft
    from controllers.driver.views import ObservedNode


@dataclass(frozen=True, slots=True)
class Wait:
    """For whom a node waits, and why."""

    found: Verdict
    pods: str = ""
    """Their names."""
    again_in: float | None = None
    """Seconds after which time alone changes it."""
    evicts: bool = False
    """Whether pods are asked to leave now."""
    is_steady: bool = True
    """Whether the node tells of it: of pods that come and go it does once, as each would be a write."""


def is_drained(seen: ObservedNode) -> bool:
    """Whether no pod uses a card of the node, by what kubelet tells and by what pods ask for that are bound to it."""
    return not seen.users and all(is_unused(one) for one in seen.devices)


def drain(draft: Draft, work: DriverWork, driver: GPUDriver | None) -> None:
    """The next step of a node in phase Draining; `driver` is what has it, whose strategy holds."""
    seen, rollout = draft.observed, driver.spec.rollout if driver is not None else Rollout()
    if is_drained(seen):
        draft.write(move(_without_reason(work), "Clearing", draft.now))
        return
    wait = _wait(draft, work, rollout)
    if not until_late(draft, work, wait.found, wait.pods):
        return
    if wait.again_in is not None:
        draft.plan.requeue_within(wait.again_in)
    _tell(draft, work, wait)
    if wait.evicts:
        _evict(draft, staying(seen))


def staying(seen: ObservedNode) -> tuple[User, ...]:
    """The pods of the node that are not about to end, lowest priority first."""
    return tuple(user for user in seen.users if not user.is_leaving)


def _wait(draft: Draft, work: DriverWork, rollout: Rollout) -> Wait:
    seen, stay = draft.observed, staying(draft.observed)
    if rollout.strategy == "WhenIdle":
        return replace(_remaining(seen), is_steady=False)
    left = time_left(stamp(begun(work.since, draft.now) + rollout.drain.wait_for), draft)
    if left > 0:
        return replace(_remaining(seen), again_in=left)
    protected = [user for user in stay if protection(user, rollout.drain) is not None]
    if protected:
        found = Verdict(reason="PodsProtected", message=f"{_number(protected)} of the node must not be evicted")
        return Wait(found, listed(f"{user.key} ({protection(user, rollout.drain)})" for user in protected))
    refused = [user for user in stay if user.uid in seen.refusals]
    if not refused:
        return replace(_remaining(seen), evicts=draft.node.ready)
    until = max(seen.refusals[user.uid].left(draft.now) for user in refused)
    message = f"the eviction of {_number(refused)} of the node is refused"
    said = listed(f"{user.key} ({seen.refusals[user.uid].message})" for user in refused)
    found = Verdict(reason="EvictionRefused", message=message)
    return Wait(found, said, again_in=until if until > 0 else None, evicts=until <= 0 and draft.node.ready)


def _remaining(seen: ObservedNode) -> Wait:
    used = sum(not is_unused(one) for one in seen.devices)
    message = f"pods use {used} of {len(seen.devices)} cards" if used else f"{_number(seen.users)} may use the cards"
    return Wait(Verdict(reason="PodsRemain", message=message), listed(user.key for user in seen.users))


def _number(users: Sequence[User]) -> str:
    return f"{len(users)} pod{'s' if len(users) != 1 else ''}"


def _without_reason(work: DriverWork) -> DriverWork:
    """The work without what was told of its pods; on the way back from a revision that failed its failure stays."""
    return work if work.undoes is not None else replace(work, reason=None, message=None)


def _tell(draft: Draft, work: DriverWork, wait: Wait) -> None:
    """Say on the node for whom it waits, where that is another answer than before."""
    if work.undoes is not None:
        return
    if wait.is_steady:
        draft.write(_with_reason(work, wait))


def _with_reason(work: DriverWork, wait: Wait) -> DriverWork:
    message = f"{wait.found.message}{wait.pods and f': {wait.pods}'}"
    return replace(work, reason=wait.found.reason, message=message[:1024])


def begin_draining(draft: Draft, work: DriverWork, driver: GPUDriver | None) -> None:
    """The cards are withdrawn, and pods use some of them: the node tells which."""
    drain_for = driver.spec.rollout.drain if driver is not None else None
    made = move(work, "Draining", draft.now, drain=drain_for)
    draft.write(made if work.undoes is not None else _with_reason(made, _remaining(draft.observed)))


def _evict(draft: Draft, users: Sequence[User]) -> None:
    """All are asked about at once, and only if none is refused the first is evicted; a refusal ends the plan."""
    refs = [Ref(POD, user.name, user.namespace, user.uid) for user in users]
    draft.plan.add(*(Evict(one, dry_run=True, parallel_safe=True) for one in refs), *(Evict(one) for one in refs))
