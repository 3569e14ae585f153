"""Whether a pool gives cards, and what is in the way. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from controllers.api.conditions import CAPACITY_LOW, CONFIGURED, MAINTENANCE, MISCONFIGURED
from controllers.api.conditions import find as condition
from controllers.domain.issuing import blocked_by, not_issued
from controllers.domain.wording import listed
from controllers.explain.cures import cure_of_closed
from controllers.explain.explanation import Explanation, Finding
from controllers.explain.lists import access
from controllers.explain.records import Unreadable
from controllers.explain.words import UNITS, counted

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from controllers.api.gpudevice import GPUDevice
    from controllers.api.gpupool import GPUPool


@dataclass(frozen=True, slots=True)
class PoolSeen:
    """A pool and its cards."""

    pool: GPUPool
    cards: tuple[GPUDevice, ...] | Unreadable


def explained(seen: PoolSeen) -> Explanation:
    """The pool's conditions, capacity, and the cards that it cannot issue."""
    pool = seen.pool
    closed = tuple(find_blockers(pool))
    capacity = pool.status.capacity
    if closed:
        verdict = f"GPUPool {pool.name} gives no cards now"
    elif capacity is None:
        verdict = f"GPUPool {pool.name} has not been looked at yet"
    elif capacity.available:
        unit = UNITS[pool.spec.allocation.mode]
        verdict = f"GPUPool {pool.name} gives cards: {counted(capacity.available, unit)} of {capacity.total} free"
    else:
        verdict = f"GPUPool {pool.name} has nothing free"
    cards = () if isinstance(seen.cards, Unreadable) else seen.cards
    unread = (seen.cards.reason,) if isinstance(seen.cards, Unreadable) else ()
    findings = (*closed, *counts(pool), *_waiting(pool), *idle(cards, pool.name), *_more(pool))
    return Explanation("GPUPool", pool.name, verdict, findings, unread)


def find_blockers(pool: GPUPool) -> Iterator[Finding]:
    """What keeps the pool from giving cards to anybody."""
    if pool.metadata.deletion_timestamp is not None:
        see = f"kubectl describe gpupool {pool.name}"
        yield Finding("bad", f"GPUPool {pool.name} is being deleted, and waits for its pods to end", see)
    told = set()
    for kind in (MAINTENANCE, MISCONFIGURED):
        found = condition(pool.status.conditions, kind)
        # A layout that failed is in both, in the same words.
        if found is not None and found.status == "True" and (found.reason, found.message) not in told:
            told.add((found.reason, found.message))
            text = f"Condition {kind} of GPUPool {pool.name} is True ({found.reason}): {found.message}"
            yield Finding("bad", text, cure_of_closed(pool.name, kind, found.reason))


def counts(pool: GPUPool) -> Iterator[Finding]:
    """The pool's numbers, with what they mean."""
    it = pool.status.capacity
    if it is None:
        return
    if it.total == 0:
        do = f"kubectl gpu assign <card> {pool.name}; kubectl gpu cards --state Unassigned lists what there is"
        yield Finding("bad", f"No card has been assigned to GPUPool {pool.name} yet", do)
        return
    low = condition(pool.status.conditions, CAPACITY_LOW)
    level: str = "bad" if it.available == 0 else "warning" if low is not None and low.status == "True" else "good"
    text = (
        f"Of {it.total}: {it.used} used, {it.reserved} reserved, {it.unavailable} unavailable, {it.available} available"
    )
    if it.profiles:
        text += "; available by profile: " + ", ".join(
            f"{one.profile} {one.available} of {one.total}" for one in it.profiles
        )
    do = f"Add cards, or wait for pods to end: kubectl gpu cards --pool {pool.name}" if level != "good" else ""
    yield Finding("bad" if level == "bad" else "warning" if level == "warning" else "good", text, do)


def _waiting(pool: GPUPool) -> Iterator[Finding]:
    """How many pods wait for its cards."""
    queue = pool.status.queue
    if queue is not None and queue.waiting:
        verb = "waits" if queue.waiting == 1 else "wait"
        text = f"{counted(queue.waiting, 'pod')} {verb} for {counted(queue.waiting_units, 'slot')} of it"
        yield Finding("warning", text, f"kubectl gpu queue {pool.name}")


def idle(cards: Iterable[GPUDevice], pool: str) -> Iterator[Finding]:
    """Cards of the pool that cannot be issued, each reason once."""
    reasons: dict[str, list[str]] = {}
    for device in cards:
        if (why := _why_idle(device, pool)) is not None:
            reasons.setdefault(why, []).append(device.name)
    for why, devices in reasons.items():
        text = f"{counted(len(devices), 'card')} cannot be issued ({why}): {listed(devices)}"
        yield Finding("warning", text, f"kubectl gpu explain card {devices[0]}")


def _why_idle(device: GPUDevice, pool: str) -> str | None:
    """Why a new pod of the pool cannot get the card, in words; None where it can."""
    match why := not_issued(device, pool):
        case None:
            return None
        case "OtherPool":
            return "the pool does not have it any more"
        case "Leaving":
            return "its annotation does not name the pool any more, it leaves"
        case "NotPublished":
            configured = condition(device.status.conditions, CONFIGURED)
            return f"not offered, {configured.reason}" if configured and configured.status != "True" else "not offered"
        case "ForeignUsers":
            return "pods have it by another resource"
        case _:
            blocking = blocked_by(device)
            return f"{why}: {blocking.reason}" if blocking is not None else why


def _more(pool: GPUPool) -> Iterator[Finding]:
    yield Finding("note", f"Who may use it: {access(pool)}")
    waiting = [c for c in pool.status.candidates if any(e.reason == "AwaitingApproval" for e in c.pools)]
    if waiting:
        shown = listed(candidate.name for candidate in waiting)
        do = f"kubectl gpu assign {waiting[0].name} {pool.name}"
        yield Finding("note", f"{counted(len(waiting), 'card')} could be assigned to it: {shown}", do)
