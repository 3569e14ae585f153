"""Progress of each node of a GPUDriver: its phase, and the reason why it is no further. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from controllers.domain.driver.choice import Blocked, Host, Install, OptedOut, Unknown, is_adopted_as_wanted
from controllers.domain.driver.states import BACK, LEAVING
from controllers.domain.driver.variant import revision_of, serves
from controllers.driver.drivers.results import counted_since, reason_of
from controllers.driver.node.work import has_failed_for

if TYPE_CHECKING:
    from controllers.api.driver_work import DriverWork, Phase
    from controllers.api.reasons.typed import Reason
    from controllers.driver.views import Member, ObservedDriver

    NodePhase = Phase | Literal["RollingBack", "Current", "Outdated", "Host", "OptedOut"]

TROUBLE: Final = ("Broken", "Failed", "RolledBack")
"""Phases of a node with which a driver failed."""
CHANGED: Final = ("RollingBack", *LEAVING, "Removing", "Installing", "Validating", *BACK)
"""Phases of a node on which a driver is being changed, or has been."""
ORDER: Final = (*TROUBLE, "Blocked", "Deferred", "HandedOver", *CHANGED, "Preflight", "Queued", "Outdated", "Current")
"""Those in trouble first, then those at work."""
TOLD: Final = frozenset((*TROUBLE, "Blocked", "Deferred", "HandedOver", *CHANGED, "Preflight"))
"""Phases in which a node's work says all."""
BUSY: Final = frozenset((*CHANGED, "Preflight", "Queued"))
BEHIND: Final = ("Outdated", "Deferred")
"""Phases of a node that has another driver than is wanted, and on which nothing is being changed."""


@dataclass(frozen=True, slots=True)
class NodeProgress:
    """How far one node is."""

    name: str
    phase: NodePhase
    reason: Reason | None = None
    message: str | None = None
    since: str | None = None
    is_waiting: bool = False
    """Whether nothing is done to it now."""
    in_service: bool = True
    """Of a node that has what is wanted: whether it is ready for pooling."""

    @property
    def is_away(self) -> bool:
        """Whether the node has what is wanted, and serves nobody with it."""
        return self.phase == "Current" and not self.in_service


def progress_of(member: Member, seen: ObservedDriver) -> NodeProgress | None:
    """How far a node is; None where nobody knows enough of it yet."""
    if member.work is not None and (found := _at_work(member, member.work, seen)) is not None:
        return found
    match member.choice:
        case Host() | OptedOut() as left:
            return NodeProgress(member.name, "Host" if isinstance(left, Host) else "OptedOut")
        case Install() | Unknown() if _is_without(member):
            return _waiting(member, seen)
        case Install() | Unknown() if member.label is not None and member.work is None:
            return _labelled(member, member.label, seen)
        case Blocked() as choice:
            phase: NodePhase = "Blocked" if member.label is None else "Outdated"
            return NodeProgress(member.name, phase, choice.reason, choice.message)
    return None


def _at_work(member: Member, work: DriverWork, seen: ObservedDriver) -> NodeProgress | None:
    """A node that is at work; None where it waits for its first driver."""
    if work.phase in TOLD:
        return NodeProgress(member.name, _phase(work), reason_of(work.reason), work.message, work.since)
    if work.wave is None and work.hand_over is None:
        return None
    reason = seen.rolled.waiting.get(member.name, "AwaitingSlot")
    return NodeProgress(member.name, _phase(work), reason, work.message, work.since, is_waiting=True)


def _phase(work: DriverWork) -> NodePhase:
    """The phase; a node on its way back to a former driver is told to be that."""
    undone = work.undoes is not None and (work.phase in CHANGED or work.phase in ("Preflight", "Queued"))
    return "RollingBack" if undone else work.phase


def _labelled(member: Member, label: str, seen: ObservedDriver) -> NodeProgress:
    """A node that has a driver of ours and to which nothing is done."""
    last, revision = member.last, revision_of(label)
    since = last.at if last is not None else None
    has_failed = has_failed_for(last, seen.driver.name, revision, counted_since(seen.driver, revision))
    if last is not None and has_failed:
        return NodeProgress(
            member.name, "Failed", reason_of(last.reason) or "DriverPodFailed", "its last work failed", since
        )
    if (reason := seen.rolled.waiting.get(member.name)) is not None:
        return NodeProgress(member.name, "Outdated", reason, since=since, is_waiting=True)
    current = revision == seen.revision and serves(label, member.kernel)
    current = current or is_adopted_as_wanted(label, member.choice, member.version)
    phase: NodePhase = "Current" if current else "Outdated"
    return NodeProgress(member.name, phase, since=since, in_service=member.in_service)


def _is_without(member: Member) -> bool:
    """Whether the node has no driver that serves it, and is to get one."""
    bare = isinstance(member.choice, Install) and not member.loaded
    unknown = isinstance(member.choice, Unknown) and (member.label is None or member.work is not None)
    return unknown or _kernel_changed(member) or (bare and (member.label is None or member.work is not None))


def _kernel_changed(member: Member) -> bool:
    """Whether the node is out of service with a driver that is for a kernel that ran before."""
    return member.label is not None and not serves(member.label, member.kernel) and not member.in_service


def _waiting(member: Member, seen: ObservedDriver) -> NodeProgress:
    """A node without a driver for its kernel that has not been begun: the first that keeps it is told."""
    queued = member.work is not None
    result = seen.results.on(member.stratum)
    said = member.choice.explanation if isinstance(member.choice, Unknown) else None
    kept: tuple[tuple[bool, Reason], ...] = (
        (said is not None, "AwaitingFacts"),
        (result == "Bad", "RevisionBad"),
        (bool(seen.missing), "ConfigMapMissing"),
        (not member.node_ready, "NodeNotReady"),
        (queued and not member.may_start, "NodeCordoned"),
        (queued and seen.driver.spec.rollout.paused, "RolloutPaused"),
        (queued and result == "Unproved", "AwaitingProof"),
        (not queued and _kernel_changed(member), "KernelChanged"),
    )
    reason: Reason = next((word for holds, word in kept if holds), "AwaitingSlot")
    since = member.work.since if member.work is not None else None
    return NodeProgress(member.name, "Queued" if queued else "Preflight", reason, said, since, is_waiting=True)


def rank(node: NodeProgress) -> tuple[int, str]:
    """The order of the list of nodes."""
    return (ORDER.index(node.phase) if node.phase in ORDER else len(ORDER), node.name)
