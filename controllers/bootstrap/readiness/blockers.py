"""What keeps a node's cards out of pools: each check in order, the first that fails is told. Pure.

A sentence names the node, what was found, what was expected and what to do, and carries no
times that pass: a status that changes by itself is written for ever.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from controllers.api import names, reasons, validation
from controllers.api.conditions import Finding
from controllers.bootstrap.operands import object_name
from controllers.bootstrap.phases import EXPORTER
from controllers.bootstrap.readiness.node_state import source
from controllers.domain import fuse
from controllers.domain.catalogue import is_older
from controllers.domain.report import is_of_this_boot

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from controllers.api.gpunodeinventory import Stage
    from controllers.bootstrap.phases import Phase
    from controllers.bootstrap.readiness.node_state import NodeState


@dataclass(frozen=True, slots=True)
class Blocker:
    """One reason for which a node is not ready for pooling."""

    finding: Finding
    """As a condition that is True while the blocker lasts."""
    stage: Stage
    """What is waited for."""
    component: str | None = None
    """Whose pod is waited for, at stage Component."""
    transient: bool = False
    """Whether it is a pod that is away, or its first answers: a roll-out brings them, so a ready node waits."""
    intentional: bool = False
    """Whether a person or the lack of cards decided it, so that no fuse holds it."""
    evident: bool = False
    """Whether the node's own agent shows it, so that no fuse holds it; what is concluded from silence may be ours."""


def first_blocker(state: NodeState) -> Blocker | None:
    """The first thing that keeps the node's cards out of pools; None when nothing does."""
    if (found := not_wanted(state)) is not None:
        return Blocker(found, "NotWanted", intentional=True)
    evident = _is_shown(state)
    if not evident and (away := _agent(state)) is not None:
        return away
    for stage, checks in CHECKS.items():
        for check in checks:
            if (found := check(state)) is not None:
                return Blocker(found, stage, evident=evident)
    if state.blocking is not None:
        return Blocker(
            waiting(state, state.blocking, status=True), "Component", state.blocking.component, transient=True
        )
    silent = heartbeat(state)
    if silent is None or state.health.ready:
        return None
    return Blocker(silent, "Monitoring", transient=silent.status is None)


def _is_shown(state: NodeState) -> bool:
    """Whether the node's agent, since the node last started, found what makes its cards useless to any pod.

    It stands until the agent says otherwise, also while its pod is away or the node is not Ready. A version that is
    too old is none: the version is the node's word, and what it is held against is ours, which a release or a
    setting raises for a whole fleet at once. Where a driver does not serve its cards, the checks fail.
    """
    seen = state.seen
    if seen.node is None or seen.report is None or not is_of_this_boot(seen.report, seen.node):
        return False
    told = state.fact("toolkit", "installed") is not None and no_toolkit(state) is not None
    return told or any(check(state) is not None for check in (no_driver, driver_check, container_check))


def not_wanted(state: NodeState) -> Finding | None:
    """Whether the node is to be prepared at all."""
    if not state.enabled:
        return Finding(False, "ModuleDisabled", f"the module is disabled (ModuleConfig {names.MODULE}): nothing runs")
    if not state.managed:
        return Finding(
            False, "NotManaged", f"node {state.name} is not managed (see ManagedDisabled): nothing runs there"
        )
    if not state.cards and state.aside:
        message = f"node {state.name} has no card to be prepared for: {state.aside} are ignored or not of nvidia"
        return Finding(False, "NoServedCards", f"{message} (see InventoryIncomplete and Ignored of its GPUDevices)")
    if not state.cards:
        return Finding(False, "NoCards", f"node {state.name} has no identified card (see InventoryIncomplete)")
    return None


def agent(state: NodeState) -> Finding | None:
    """Why what the agent says cannot be relied on."""
    found = _agent(state)
    return found.finding if found is not None else None


def _agent(state: NodeState) -> Blocker | None:
    seen, look = state.seen, f"look at {names.DISCOVER_DAEMONSET}'s pod there"
    if seen.node is None or not seen.node.ready:
        message = f"node {state.name} is not Ready; its cards cannot be vouched for"
        return Blocker(Finding(True, "NodeNotReady", message), "Node")
    if seen.report is None:
        found = Finding(True, "NoReport", f"{source(state.name)} is not there; {look}")
        return Blocker(found, "Agent", transient=True)
    if not is_of_this_boot(seen.report, seen.node):
        message = (
            f"{source(state.name)} is from before node {state.name} last started; a report of this boot is awaited"
        )
        return Blocker(Finding(True, "ReportOutdated", f"{message}; {look}"), "Agent")
    if not seen.agent_ready:
        message = f"no pod of {names.DISCOVER_DAEMONSET} is ready on node {state.name}; {look}"
        return Blocker(Finding(True, "AgentNotReady", message), "Agent", transient=True)
    return None


def no_driver(state: NodeState) -> Finding | None:
    """Whether no driver is loaded."""
    if state.fact("driver", "version"):
        return None
    message = f"{source(state.name)} names no loaded driver: kernel module nvidia is not in /sys/module"
    do = f"install the cards' driver on the host of node {state.name}, or see the container that is to load it there"
    return Finding(True, "DriverNotFound", f"{message}; {do}")


def old_driver(state: NodeState) -> Finding | None:
    """Whether the driver is too old for the node's cards."""
    found, least, because = state.fact("driver", "version"), state.needs.driver, state.needs.driver_because
    if found is None or least is None or not is_older(found, least):
        return None
    message = f"node {state.name} has driver {found}; {because} needs {least} or newer"
    return Finding(True, "DriverTooOld", f"{message}: install a newer driver on the host and reboot it")


def old_cuda(state: NodeState) -> Finding | None:
    """Whether the driver serves too old a CUDA for the node's cards."""
    found, least, because = state.cuda, state.needs.cuda, state.needs.cuda_because
    if found is None or least is None or not is_older(found, least):
        return None
    message = f"the driver of node {state.name} serves CUDA {found}; {because} needs {least} or newer"
    return Finding(True, "CudaTooOld", f"{message}: install a newer driver on the host and reboot it")


def no_toolkit(state: NodeState) -> Finding | None:
    """Only where the administrator brings the toolkit: what we install is judged by its pod."""
    if state.runs("toolkit") or state.fact("toolkit", "installed") == "true":
        return None
    message = (
        f"{source(state.name)} finds no container toolkit on node {state.name}, and the settings leave it to the"
        " administrator (bootstrap.toolkit.enabled: false); install it or enable the component"
    )
    return Finding(True, "ToolkitNotFound", message)


def driver_check(state: NodeState) -> Finding | None:
    """What the validator on the host found."""
    return _failed(state, validation.DRIVER, "the driver on node")


def container_check(state: NodeState) -> Finding | None:
    """What the validator in a container found."""
    return _failed(state, validation.CONTAINER, "a container with cards on node")


def _failed(state: NodeState, role: str, what: str) -> Finding | None:
    found = state.validation(role)
    if found is None or found.result != validation.FAILED:
        return None
    return Finding(True, reasons.check_word(found.reason), f"the check of {what} {state.name} failed: {found.message}")


CHECKS: Final[Mapping[Stage, Sequence[Callable[[NodeState], Finding | None]]]] = {
    "Driver": (no_driver, old_driver),
    "Cuda": (old_cuda,),
    "Toolkit": (no_toolkit,),
    "DriverCheck": (driver_check,),
    "ContainerCheck": (container_check,),
}
"""What the node itself must show before its components are waited for, in order."""


def waiting(state: NodeState, phase: Phase, *, status: bool | None) -> Finding:
    """A component that is not ready, in time or late."""
    if phase.component in state.suspended.closed:
        message = f"{phase.component} does not run on node {state.name} while MIG work goes on there"
        return Finding(status, phase.not_ready, f"{message}; see migApply of its GPUDevices")
    late = state.overdue and phase == state.blocking
    message = (
        f"no pod of DaemonSet {names.NAMESPACE}/{object_name(phase.component)} is ready on node {state.name}"
        f"{', and it should be after' if late else '; it has'} {state.deadline:g} s;"
        f" see {_pods(state, phase.component)}"
    )
    return Finding(status, phase.overdue if late else phase.not_ready, message)


def heartbeat(state: NodeState) -> Finding | None:
    """What the exporter's answers say of the node's monitoring; None where the exporter does not run."""
    health = state.health
    if not state.runs(EXPORTER):
        return None
    if health.ready:
        if health.is_outage:
            message = f"node {state.name} fell silent with so many others at once that the silence is taken to be ours"
            return Finding(None, fuse.BLIND, f"{message}: look at {names.BOOTSTRAP}'s network")
        return Finding(False, "MonitoringReady", f"the exporter of node {state.name} answers with fresh values")
    if health.ready is None:
        message = f"the exporter of node {state.name} has not yet answered often enough with fresh values"
        return Finding(None, "HeartbeatAwaited", message)
    found = health.error or ("" if EXPORTER in state.seen.ready else "its pod is not ready")
    message = f"the exporter of node {state.name} gives no fresh values{': ' + found if found else ''}"
    return Finding(True, "HeartbeatMissing", f"{message}; see {_pods(state, EXPORTER)}")


def _pods(state: NodeState, component: str) -> str:
    where = f"-l {names.LABEL_COMPONENT}={component} --field-selector spec.nodeName={state.name}"
    return f"kubectl -n {names.NAMESPACE} describe pods {where}"
