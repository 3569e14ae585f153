"""Which nodes wait to be begun, what for, and what keeps single ones of them. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from controllers.domain.driver.choice import Install, is_adopted_as_wanted
from controllers.domain.driver.pause import is_paused_on
from controllers.domain.driver.variant import revision_of, serves
from controllers.driver.node.due import is_due
from controllers.driver.node.hand_over import asked_by
from controllers.driver.rollout.counts import stratum_of

if TYPE_CHECKING:
    from controllers.api.driver_work import DriverWork
    from controllers.api.reasons.typed import Reason
    from controllers.driver.rollout.observed import Candidate, ObservedRollout

Kind = Literal["Undo", "HandOver", "Roll"]
Step = Literal["Begin", "Looked", "Start"]
"""What comes next: it is begun, nothing, as it is being looked at, or it is taken out of service."""
NOT_BEGUN: Final = frozenset(("Preflight", "Queued", "Deferred", "Blocked", "RolledBack"))
"""Phases of a node in service with the driver that it has, for which a person's wish comes first."""


@dataclass(frozen=True, slots=True)
class Turn:
    """A node that waits."""

    candidate: Candidate
    kind: Kind
    """Undo: it gets a former driver back. HandOver: a person wants it. Roll: it gets the driver that is wanted."""
    step: Step


def turn_of(one: Candidate, observed: ObservedRollout, now: float) -> Turn | None:
    """What the node waits for; None where it waits for nothing that is decided here."""
    work = one.facts.work
    if work is not None and work.node_uid != one.facts.node.metadata.uid:
        return None  # it was done to another machine of this name
    if (step := _handed_over(one, work, now)) is not None:
        return Turn(one, "HandOver", step)
    if work is not None and (work.driver != observed.driver.name or work.hand_over is not None):
        return None
    if work is not None and work.undoes is not None:
        return _undone(one, work, now)
    if one.back is not None:
        return Turn(one, "Undo", "Begin")
    rolled = _rolled(one, work, now)
    return Turn(one, "Roll", rolled) if rolled is not None else None


def _undone(one: Candidate, work: DriverWork, now: float) -> Turn | None:
    """A node that gets its former driver back, or has it, and is tried again after a while, or as a person asks."""
    if work.phase == "Queued":
        return Turn(one, "Undo", "Start")
    wanted = isinstance(one.choice, Install) and one.choice.variant.revision == work.undoes
    again = work.phase == "RolledBack" and wanted and is_due(work, one.facts.node, now)
    return Turn(one, "Roll", "Begin") if again else None


def _handed_over(one: Candidate, work: DriverWork | None, now: float) -> Step | None:
    """The next step of a node that a person wants."""
    if not asked_by(one.facts.node):
        return None
    if work is None or (work.hand_over is None and work.phase in NOT_BEGUN and not _goes_back(work)):
        return "Begin"
    if work.hand_over is None:
        return None
    if work.phase == "Deferred" and is_due(work, one.facts.node, now):
        return "Begin"
    return "Start" if work.phase == "Queued" else None


def _goes_back(work: DriverWork) -> bool:
    """Whether the node is on its way to its former driver, and has not got it."""
    return work.undoes is not None and work.phase != "RolledBack"


def _rolled(one: Candidate, work: DriverWork | None, now: float) -> Step | None:
    """The next step of a node whose driver is another one than is wanted."""
    label, kernel = one.facts.label, one.facts.node.status.node_info.kernel_version
    if label is None or not isinstance(one.choice, Install) or not serves(label, kernel):
        return None  # it has no driver that serves it, and gets one as a bare node does
    wanted = one.choice.variant
    if revision_of(label) == wanted.revision or is_adopted_as_wanted(label, one.choice, one.facts.version):
        return None  # a variant that was chosen before the one that would be chosen now serves as well
    if work is None:
        return "Begin"
    if work.wave is None or work.to != wanted.value:
        return None
    if work.phase == "Deferred" and is_due(work, one.facts.node, now):
        return "Begin"
    steps: dict[str, Step] = {"Preflight": "Looked", "Queued": "Start"}
    return steps.get(work.phase)


def keeps(turn: Turn, observed: ObservedRollout, now: float) -> Reason | None:
    """What keeps the node, whatever the others are at; None where nothing does."""
    facts = turn.candidate.facts
    kept: tuple[tuple[bool, Reason], ...] = (
        (turn.kind == "Roll" and observed.is_missing, "ConfigMapMissing"),
        (turn.kind == "Roll" and observed.results.on(stratum_of(turn.candidate)) == "Bad", "RevisionBad"),
        (turn.kind == "Roll" and observed.results.halted is not None, "RolloutHalted"),
        (is_paused_on(observed.driver, facts.node, now), "RolloutPaused"),
        (not facts.node.ready, "NodeNotReady"),
        (turn.kind != "HandOver" and not facts.may_start, "NodeCordoned"),
        (_is_configured(turn.candidate, observed), "PoolInMaintenance"),
    )
    return next((reason for holds, reason in kept if holds), None)


def _is_configured(one: Candidate, observed: ObservedRollout) -> bool:
    """Whether a pool of the node is being configured anew."""
    return any(pool in observed.rules and observed.rules[pool].in_maintenance for pool in one.facts.pools)
