"""The conditions of a node's preparation: status, reason and sentence of each. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from controllers.api import conditions as kinds
from controllers.api.conditions import Finding, is_true
from controllers.bootstrap.readiness import blockers
from controllers.bootstrap.readiness.blockers import not_wanted, waiting
from controllers.bootstrap.readiness.node_state import source
from controllers.bootstrap.readiness.other_managers import managed_elsewhere
from controllers.domain.catalogue import is_older

if TYPE_CHECKING:
    from collections.abc import Callable

    from controllers.api.gpunodeinventory import Kept
    from controllers.api.reasons.typed import Reason
    from controllers.bootstrap.readiness.blockers import Trouble
    from controllers.bootstrap.readiness.node_state import Situation

READY: Final = "Ready"
RESTARTING: Final = "Restarting"
PREPARING: Final = "Preparing"
HELD: Final = "Held"
MIG_WORK: Final = "MigWork"
FEW: Final = 3
"""Names that a sentence carries."""


def findings(at: Situation, pooling: Finding, kept: Kept | None) -> dict[str, Finding]:
    """Every condition of the node by its type; `pooling` is what ReadyForPooling is to say, and `kept` goes with it."""
    made = {kind: not_wanted(at) or judge(at) for kind, judge in CONDITIONS.items()}
    degraded = degraded_workloads(at, pooling, is_held=kept == HELD)
    return made | {kinds.DEGRADED_WORKLOADS: degraded, kinds.READY_FOR_POOLING: pooling}


def stays(at: Situation, trouble: Trouble | None, patience: Kept | None, held: str) -> Kept | None:
    """Why the node is in service although something is the matter with it; None where it is not, or nothing is.

    `patience`: the reason to stay in service where the node was ready and what troubles it may pass; `held`: where
    the node was ready and a fuse keeps it so, why.
    """
    if at.suspended.on and (trouble is None or (patience == MIG_WORK and trouble.passing)):
        return MIG_WORK
    if trouble is None:
        return None
    if patience is not None and trouble.passing:
        return PREPARING if patience == PREPARING else RESTARTING
    return HELD if held and not trouble.decided else None


def ready_for_pooling(at: Situation, trouble: Trouble | None, kept: Kept | None, held: str) -> Finding:
    """Whether the node's cards may be in pools, and what keeps them out."""
    if kept == MIG_WORK:
        message = f"node {at.name} stays in service while its cards are divided anew (see migApply of its GPUDevices)"
        return Finding(True, MIG_WORK, f"{message}: {trouble.finding.message}" if trouble else message)
    if trouble is None:
        version = at.fact("driver", "version")
        return Finding(True, READY, f"node {at.name} is prepared: driver {version}, {at.cards} cards")
    found = trouble.finding
    if kept == PREPARING:
        return Finding(
            True, PREPARING, f"node {at.name} stays in service while what is new there starts: {found.message}"
        )
    if kept == RESTARTING:
        return Finding(True, RESTARTING, f"node {at.name} stays in service for a while: {found.message}")
    if kept == HELD:
        return Finding(True, HELD, f"node {at.name} is kept in service, {held}: {found.message}")
    return Finding(False, found.reason, found.message)


def _driver_missing(at: Situation) -> Finding:
    return (
        _unknown(at)
        or blockers.no_driver(at)
        or blockers.driver_check(at)
        or _group(at, kinds.DRIVER_MISSING, checked="DriverReady", unchecked="DriverNotChecked")
    )


def _driver_outdated(at: Situation) -> Finding:
    version = at.fact("driver", "version")
    return _unknown(at) or blockers.old_driver(at) or _new_enough(at, _DRIVER, version, at.needs.driver)


def _cuda_outdated(at: Situation) -> Finding:
    return _unknown(at) or blockers.old_cuda(at) or _new_enough(at, _CUDA, at.cuda, at.needs.cuda)


def _toolkit_missing(at: Situation) -> Finding:
    if (found := _unknown(at) or blockers.no_toolkit(at)) is not None:
        return found
    return _group(at, kinds.TOOLKIT_MISSING, checked="ToolkitReady", unchecked="ToolkitNotChecked")


def _monitoring_missing(at: Situation) -> Finding:
    heard = blockers.heartbeat(at)
    if heard is not None and heard.status is not None:
        return heard
    pods = _group(at, kinds.MONITORING_MISSING, checked="MonitoringReady", unchecked="MonitoringNotChecked")
    return pods if heard is None or pods.status is not False else heard


def _infra_degraded(at: Situation) -> Finding:
    """What prepares and watches the node does not do its work there."""
    found = blockers.agent(at) or blockers.container_check(at)
    if found is not None:
        return found
    late = [p for p in at.phases if p.condition == kinds.INFRA_DEGRADED and p.component not in at.seen.ready]
    if at.blocking is None and late:
        return waiting(at, late[0], status=True)
    if at.overdue and at.blocking is not None and at.blocking in late:
        return waiting(at, at.blocking, status=True)
    return Finding(False, "Healthy", f"the agent of node {at.name} and what prepares the node work")


CONDITIONS: Final[dict[str, Callable[[Situation], Finding]]] = {
    kinds.DRIVER_MISSING: _driver_missing,
    kinds.DRIVER_OUTDATED: _driver_outdated,
    kinds.CUDA_OUTDATED: _cuda_outdated,
    kinds.TOOLKIT_MISSING: _toolkit_missing,
    kinds.MONITORING_MISSING: _monitoring_missing,
    kinds.INFRA_DEGRADED: _infra_degraded,
    kinds.MANAGED_ELSEWHERE: managed_elsewhere,
}
"""What says each condition of a node that is to be prepared."""


def degraded_workloads(at: Situation, pooling: Finding, *, is_held: bool) -> Finding:
    """Pods go on with cards that the module would give to nobody now."""
    used = [card for card in at.seen.devices if card.status.in_use]
    faulted = [card.name for card in used if is_true(card.status.conditions, kinds.FAULTED)]
    if used and (pooling.status is not True or is_held):
        message = f"pods of node {at.name} use {_few([card.name for card in used])} while ReadyForPooling says:"
        return Finding(True, "NodeNotInService", f"{message} {pooling.message}")
    if faulted:
        message = f"pods of node {at.name} use {_few(faulted)}, which is faulted: see its condition Faulted"
        return Finding(True, "CardFaulted", f"{message}; move the pods when it suits you")
    return Finding(False, "None", f"no pod of node {at.name} uses a card that is out of service")


def _few(cards: list[str]) -> str:
    return ", ".join(cards[:FEW]) + (" and others" if len(cards) > FEW else "")


def _unknown(at: Situation) -> Finding | None:
    if at.seen.report is not None:
        return None
    message = f"{source(at.name)} is not there, so nobody tells of node {at.name}'s driver and toolkit"
    return Finding(None, "NoReport", message)


@dataclass(frozen=True, slots=True)
class _Words:
    """What a condition about a version gives as its reason."""

    new_enough: Reason
    no_minimum: Reason
    unknown: Reason


_DRIVER: Final = _Words("DriverNewEnough", "NoDriverMinimum", "DriverVersionUnknown")
_CUDA: Final = _Words("CudaNewEnough", "NoCudaMinimum", "CudaVersionUnknown")


def _new_enough(at: Situation, words: _Words, found: str | None, least: str | None) -> Finding:
    if least is None:
        return Finding(False, words.no_minimum, f"no least version is known for the cards of node {at.name}")
    if found is None or is_older(found, least) is None:
        said = f"{source(at.name)} says {found!r}" if found else f"{source(at.name)} names none"
        return Finding(None, words.unknown, f"{said}; the cards of node {at.name} need {least} or newer")
    return Finding(False, words.new_enough, f"node {at.name} has {found}, and its cards need {least} or newer")


def _group(at: Situation, kind: str, *, checked: Reason, unchecked: Reason) -> Finding:
    """A condition that stands for one or more components."""
    members = [phase for phase in at.phases if phase.condition == kind]
    missing = [phase for phase in members if phase.component not in at.seen.ready]
    if not missing:
        if not members:
            return Finding(False, unchecked, f"the settings run no component for it on node {at.name}")
        return Finding(False, checked, f"{' and '.join(p.component for p in members)} on node {at.name}: ready")
    if at.blocking in missing and at.blocking is not None:
        return waiting(at, at.blocking, status=True if at.overdue else None)
    before = f"; {at.blocking.component} comes first" if at.blocking else ""
    return Finding(None, "Waiting", f"{missing[0].component} is not ready on node {at.name}{before}")
