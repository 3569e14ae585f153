"""The conditions of a GPUNodeInventory: status, reason and message of each. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from controllers.api import conditions as kinds
from controllers.api.conditions import Finding, is_true
from controllers.bootstrap.readiness import blockers, checks
from controllers.bootstrap.readiness.blockers import not_wanted
from controllers.bootstrap.readiness.checks import component_check
from controllers.bootstrap.readiness.driver import driver_work_overdue
from controllers.bootstrap.readiness.node_state import report_name
from controllers.bootstrap.readiness.other_managers import managed_elsewhere
from controllers.domain.catalogue import is_older

if TYPE_CHECKING:
    from collections.abc import Callable

    from controllers.api.gpunodeinventory import Kept
    from controllers.api.reasons.typed import Reason
    from controllers.bootstrap.readiness.blockers import Blocker
    from controllers.bootstrap.readiness.node_state import NodeState

READY: Final = "Ready"
RESTARTING: Final = "Restarting"
PREPARING: Final = "Preparing"
HELD: Final = "Held"
NAMES_MAX: Final = 3
"""Names that a sentence carries."""


def findings(state: NodeState, pooling: Finding, kept: Kept | None) -> dict[str, Finding]:
    """Every condition of the node by its type; `pooling` is what ReadyForPooling is to say, and `kept` goes with it."""
    made = {kind: not_wanted(state) or find(state) for kind, find in CONDITIONS.items()}
    degraded = degraded_workloads(state, pooling, is_held=kept == HELD)
    return made | {kinds.DEGRADED_WORKLOADS: degraded, kinds.READY_FOR_POOLING: pooling}


def kept_in_service(state: NodeState, blocker: Blocker | None, grace_reason: Kept | None, held: str) -> Kept | None:
    """Why the node is in service although something is the matter with it; None where it is not, or nothing is.

    `grace_reason`: the reason to stay in service where the node was ready and its blocker may pass; `held`: where
    the node was ready and a fuse keeps it so, why.
    """
    if state.suspended.on and (blocker is None or (grace_reason == state.suspended.name and blocker.transient)):
        return state.suspended.name
    if blocker is None:
        return None
    if grace_reason is not None and blocker.transient:
        return PREPARING if grace_reason == PREPARING else RESTARTING
    return HELD if held and not blocker.intentional else None


def ready_for_pooling(state: NodeState, blocker: Blocker | None, kept: Kept | None, held: str) -> Finding:
    """Whether the node's cards may be in pools, and what keeps them out."""
    if (operation := state.suspended.operation) is not None and kept == operation.name:
        message = f"node {state.name} stays in service while {operation.effect} (see {operation.progress})"
        return Finding(True, operation.name, f"{message}: {blocker.finding.message}" if blocker else message)
    if blocker is None:
        version = state.fact("driver", "version")
        return Finding(True, READY, f"node {state.name} is prepared: driver {version}, {state.cards} cards")
    found = blocker.finding
    if kept == PREPARING:
        return Finding(
            True, PREPARING, f"node {state.name} stays in service while what is new there starts: {found.message}"
        )
    if kept == RESTARTING:
        return Finding(True, RESTARTING, f"node {state.name} stays in service for a while: {found.message}")
    if kept == HELD:
        return Finding(True, HELD, f"node {state.name} is kept in service, {held}: {found.message}")
    return Finding(False, found.reason, found.message)


def _driver_missing(state: NodeState) -> Finding:
    return (
        _without_report(state)
        or checks.no_driver(state)
        or checks.driver_check(state)
        or _components_finding(state, kinds.DRIVER_MISSING, checked="DriverReady", unchecked="DriverNotChecked")
    )


def _driver_outdated(state: NodeState) -> Finding:
    version = state.fact("driver", "version")
    return (
        _without_report(state)
        or checks.old_driver(state)
        or _version_finding(state, _DRIVER, version, state.needs.driver)
    )


def _cuda_outdated(state: NodeState) -> Finding:
    return (
        _without_report(state) or checks.old_cuda(state) or _version_finding(state, _CUDA, state.cuda, state.needs.cuda)
    )


def _toolkit_missing(state: NodeState) -> Finding:
    if (found := _without_report(state) or checks.no_toolkit(state)) is not None:
        return found
    return _components_finding(state, kinds.TOOLKIT_MISSING, checked="ToolkitReady", unchecked="ToolkitNotChecked")


def _monitoring_missing(state: NodeState) -> Finding:
    heard = checks.monitoring_check(state)
    if heard is not None and heard.status is not None:
        return heard
    pods = _components_finding(
        state, kinds.MONITORING_MISSING, checked="MonitoringReady", unchecked="MonitoringNotChecked"
    )
    return pods if heard is None or pods.status is not False else heard


def _infra_degraded(state: NodeState) -> Finding:
    """What prepares and watches the node does not do its work there."""
    found = blockers.agent_check(state) or checks.container_check(state)
    if found is not None:
        return found
    if state.driver.is_overdue:
        return driver_work_overdue(state)
    late = [p for p in state.phases if p.condition == kinds.INFRA_DEGRADED and p.name not in state.observed.ready]
    if state.blocking is None and late:
        return component_check(state, late[0], status=True)
    if state.overdue and state.blocking is not None and state.blocking in late:
        return component_check(state, state.blocking, status=True)
    return Finding(False, "Healthy", f"the agent of node {state.name} and what prepares the node work")


CONDITIONS: Final[dict[str, Callable[[NodeState], Finding]]] = {
    kinds.DRIVER_MISSING: _driver_missing,
    kinds.DRIVER_OUTDATED: _driver_outdated,
    kinds.CUDA_OUTDATED: _cuda_outdated,
    kinds.TOOLKIT_MISSING: _toolkit_missing,
    kinds.MONITORING_MISSING: _monitoring_missing,
    kinds.INFRA_DEGRADED: _infra_degraded,
    kinds.MANAGED_ELSEWHERE: managed_elsewhere,
}
"""What says each condition of a node that is to be prepared."""


def degraded_workloads(state: NodeState, pooling: Finding, *, is_held: bool) -> Finding:
    """Pods go on with cards that the module would give to nobody now."""
    used = [card for card in state.observed.devices if card.status.in_use]
    faulted = [card.name for card in used if is_true(card.status.conditions, kinds.FAULTED)]
    if used and (pooling.status is not True or is_held):
        message = (
            f"pods of node {state.name} use {_first_names([card.name for card in used])} while ReadyForPooling says:"
        )
        return Finding(True, "NodeNotInService", f"{message} {pooling.message}")
    if faulted:
        message = f"pods of node {state.name} use {_first_names(faulted)}, which is faulted: see its condition Faulted"
        return Finding(True, "CardFaulted", f"{message}; move the pods when it suits you")
    return Finding(False, "None", f"no pod of node {state.name} uses a card that is out of service")


def _first_names(cards: list[str]) -> str:
    return ", ".join(cards[:NAMES_MAX]) + (" and others" if len(cards) > NAMES_MAX else "")


def _without_report(state: NodeState) -> Finding | None:
    if state.observed.report is not None:
        return None
    message = f"{report_name(state.name)} is not there, so nobody tells of node {state.name}'s driver and toolkit"
    return Finding(None, "NoReport", message)


@dataclass(frozen=True, slots=True)
class _VersionReasons:
    """What a condition about a version gives as its reason."""

    new_enough: Reason
    no_minimum: Reason
    unknown: Reason


_DRIVER: Final = _VersionReasons("DriverNewEnough", "NoDriverMinimum", "DriverVersionUnknown")
_CUDA: Final = _VersionReasons("CudaNewEnough", "NoCudaMinimum", "CudaVersionUnknown")


def _version_finding(state: NodeState, words: _VersionReasons, found: str | None, least: str | None) -> Finding:
    if least is None:
        return Finding(False, words.no_minimum, f"no least version is known for the cards of node {state.name}")
    if found is None or is_older(found, least) is None:
        said = f"{report_name(state.name)} says {found!r}" if found else f"{report_name(state.name)} names none"
        return Finding(None, words.unknown, f"{said}; the cards of node {state.name} need {least} or newer")
    return Finding(False, words.new_enough, f"node {state.name} has {found}, and its cards need {least} or newer")


def _components_finding(state: NodeState, kind: str, *, checked: Reason, unchecked: Reason) -> Finding:
    """A condition that stands for one or more components."""
    members = [phase for phase in state.phases if phase.condition == kind]
    missing = [phase for phase in members if phase.name not in state.observed.ready]
    if not missing:
        if not members:
            return Finding(False, unchecked, f"the settings run no component for it on node {state.name}")
        return Finding(False, checked, f"{' and '.join(p.name for p in members)} on node {state.name}: ready")
    if state.blocking in missing and state.blocking is not None:
        return component_check(state, state.blocking, status=True if state.overdue else None)
    before = f"; {state.blocking.name} comes first" if state.blocking else ""
    return Finding(None, "Waiting", f"{missing[0].name} is not ready on node {state.name}{before}")
