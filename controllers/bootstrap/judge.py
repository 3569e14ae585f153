"""The conditions of a node's preparation: status, reason and sentence of each. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from controllers.api import conditions as kinds
from controllers.api.conditions import Finding, is_true
from controllers.bootstrap import troubles
from controllers.bootstrap.elsewhere import managed_elsewhere
from controllers.bootstrap.situation import source
from controllers.bootstrap.troubles import NOT_READY, OVERDUE, not_wanted, waiting
from controllers.domain.catalogue import is_older

if TYPE_CHECKING:
    from collections.abc import Callable

    from controllers.bootstrap.situation import Situation
    from controllers.bootstrap.troubles import Trouble

READY, RESTARTING, PREPARING, HELD = "Ready", "Restarting", "Preparing", "Held"
MIG_WORK: Final = "MigWork"
FEW: Final = 3
"""Names that a sentence carries."""


def stage(reason: str) -> str:
    """What a node waits for, whether it waits too long or not."""
    return reason.removesuffix(OVERDUE) + NOT_READY if reason.endswith(OVERDUE) else reason


def findings(at: Situation, pooling: Finding) -> dict[str, Finding]:
    """Every condition of the node by its type; `pooling` is what ReadyForPooling is to say."""
    made = {kind: not_wanted(at) or judge(at) for kind, judge in CONDITIONS.items()}
    return made | {kinds.DEGRADED_WORKLOADS: degraded_workloads(at, pooling), kinds.READY_FOR_POOLING: pooling}


def ready_for_pooling(at: Situation, trouble: Trouble | None, *, patience: str, held: str) -> Finding:
    """Whether the node's cards may be in pools, and what keeps them out.

    `patience`: the reason to stay in service where the node was ready and what troubles it may pass; `held`: where
    the node was ready and a fuse keeps it so, why.
    """
    if at.suspended.on and (trouble is None or (patience == MIG_WORK and trouble.passing)):
        message = f"node {at.name} stays in service while its cards are divided anew (see migApply of its GPUDevices)"
        return Finding(True, MIG_WORK, f"{message}: {trouble.finding.message}" if trouble else message)
    if trouble is None:
        version = at.fact("driver", "version")
        return Finding(True, READY, f"node {at.name} is prepared: driver {version}, {at.cards} cards")
    found = trouble.finding
    if patience == PREPARING and trouble.passing:
        return Finding(
            True, PREPARING, f"node {at.name} stays in service while what is new there starts: {found.message}"
        )
    if patience and trouble.passing:
        return Finding(True, RESTARTING, f"node {at.name} stays in service for a while: {found.message}")
    if held and not trouble.decided:
        return Finding(True, HELD, f"node {at.name} is kept in service, {held}: {found.message}")
    return Finding(False, found.reason, found.message)


def _driver_missing(at: Situation) -> Finding:
    return (
        _unknown(at)
        or troubles.no_driver(at)
        or troubles.driver_check(at)
        or _group(at, kinds.DRIVER_MISSING, "Driver")
    )


def _driver_outdated(at: Situation) -> Finding:
    version = at.fact("driver", "version")
    return _unknown(at) or troubles.old_driver(at) or _new_enough(at, "Driver", version, at.needs.driver)


def _cuda_outdated(at: Situation) -> Finding:
    return _unknown(at) or troubles.old_cuda(at) or _new_enough(at, "Cuda", at.cuda, at.needs.cuda)


def _toolkit_missing(at: Situation) -> Finding:
    return _unknown(at) or troubles.no_toolkit(at) or _group(at, kinds.TOOLKIT_MISSING, "Toolkit")


def _monitoring_missing(at: Situation) -> Finding:
    heard = troubles.heartbeat(at)
    if heard is not None and heard.status is not None:
        return heard
    pods = _group(at, kinds.MONITORING_MISSING, "Monitoring")
    return pods if heard is None or pods.status is not False else heard


def _infra_degraded(at: Situation) -> Finding:
    """What prepares and watches the node does not do its work there."""
    found = troubles.agent(at) or troubles.container_check(at)
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


def degraded_workloads(at: Situation, pooling: Finding) -> Finding:
    """Pods go on with cards that the module would give to nobody now."""
    used = [card for card in at.seen.devices if card.status.in_use]
    faulted = [card.name for card in used if is_true(card.status.conditions, kinds.FAULTED)]
    if used and (pooling.status is not True or pooling.reason == HELD):
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


def _new_enough(at: Situation, word: str, found: str | None, least: str | None) -> Finding:
    if least is None:
        return Finding(False, f"No{word}Minimum", f"no least version is known for the cards of node {at.name}")
    if found is None or is_older(found, least) is None:
        said = f"{source(at.name)} says {found!r}" if found else f"{source(at.name)} names none"
        return Finding(None, f"{word}VersionUnknown", f"{said}; the cards of node {at.name} need {least} or newer")
    return Finding(False, f"{word}NewEnough", f"node {at.name} has {found}, and its cards need {least} or newer")


def _group(at: Situation, kind: str, word: str) -> Finding:
    """A condition that stands for one or more components."""
    members = [phase for phase in at.phases if phase.condition == kind]
    missing = [phase for phase in members if phase.component not in at.seen.ready]
    if not missing:
        if not members:
            return Finding(False, f"{word}NotChecked", f"the settings run no component for it on node {at.name}")
        return Finding(False, f"{word}Ready", f"{' and '.join(p.component for p in members)} on node {at.name}: ready")
    if at.blocking in missing and at.blocking is not None:
        return waiting(at, at.blocking, status=True if at.overdue else None)
    before = f"; {at.blocking.component} comes first" if at.blocking else ""
    return Finding(None, "Waiting", f"{missing[0].component} is not ready on node {at.name}{before}")
