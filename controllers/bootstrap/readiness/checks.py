"""Checks of a node's driver, toolkit, validations, components and monitoring, each as a condition's finding. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from controllers.api import names, reasons, validation
from controllers.api.components import EXPORTER, TOOLKIT
from controllers.api.conditions import Finding
from controllers.api.reasons.runtime import RUNTIME_REASONS
from controllers.bootstrap.readiness.driver import driver_not_there, newer_driver
from controllers.bootstrap.readiness.node_state import report_name
from controllers.bootstrap.readiness.runtime import runtime_of
from controllers.components.build import object_name
from controllers.domain.catalogue import is_older
from controllers.domain.disruption_budget import BLIND

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from controllers.api.component import Component
    from controllers.api.gpunodeinventory import Stage
    from controllers.bootstrap.readiness.node_state import NodeState


def no_driver(state: NodeState) -> Finding | None:
    """Whether no driver is loaded."""
    if state.fact("driver", "version"):
        return None
    if (found := driver_not_there(state)) is not None:
        return found
    message = f"{report_name(state.name)} names no loaded driver: kernel module nvidia is not in /sys/module"
    do = f"install the cards' driver on the host of node {state.name}, or see the container that is to load it there"
    return Finding(True, "DriverNotFound", f"{message}; {do}")


def old_driver(state: NodeState) -> Finding | None:
    """Whether the driver is too old for the node's cards."""
    found, least, because = state.fact("driver", "version"), state.needs.driver, state.needs.driver_because
    if found is None or least is None or not is_older(found, least):
        return None
    message = f"node {state.name} has driver {found}; {because} needs {least} or newer"
    return Finding(True, "DriverTooOld", f"{message}: {newer_driver(state)}")


def old_cuda(state: NodeState) -> Finding | None:
    """Whether the driver serves too old a CUDA for the node's cards."""
    found, least, because = state.cuda, state.needs.cuda, state.needs.cuda_because
    if found is None or least is None or not is_older(found, least):
        return None
    message = f"the driver of node {state.name} serves CUDA {found}; {because} needs {least} or newer"
    return Finding(True, "CudaTooOld", f"{message}: {newer_driver(state)}")


def no_toolkit(state: NodeState) -> Finding | None:
    """Only where the administrator brings the toolkit: what we install is judged by its pod."""
    if state.runs("toolkit") or state.fact("toolkit", "installed") == "true":
        return None
    message = (
        f"{report_name(state.name)} finds no container toolkit on node {state.name}, and the settings leave it to the"
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


def component_check(state: NodeState, phase: Component, *, status: bool | None) -> Finding:
    """A component that is not ready, in time or late."""
    if (operation := state.suspended.operation) is not None and phase.name in state.suspended.closed:
        message = f"{phase.name} does not run on node {state.name} while {operation.title} goes on there"
        return Finding(status, phase.not_ready, f"{message}; see {operation.progress}")
    if phase.name in state.closed:
        message = f"{phase.name} does not run on node {state.name} while its driver is changed"
        return Finding(status, phase.not_ready, f"{message}; see driverWork of its GPUNodeInventory")
    if phase.name == TOOLKIT and (told := _runtime(state, status=status)) is not None:
        return told
    late = state.overdue and phase == state.blocking
    message = (
        f"no pod of DaemonSet {names.NAMESPACE}/{object_name(phase.name)} is ready on node {state.name}"
        f"{', and it should be after' if late else '; it has'} {state.deadline:g} s;"
        f" see {_pods(state, phase.name)}"
    )
    return Finding(status, phase.overdue if late else phase.not_ready, message)


def _runtime(state: NodeState, *, status: bool | None) -> Finding | None:
    """What the toolkit's pod says of the container runtime, where that keeps it from being ready."""
    found = runtime_of(state)
    if found is None or found.state not in RUNTIME_REASONS:
        return None
    message = f"the container runtime of node {state.name}{f' ({found.kind})' if found.kind else ''}"
    return Finding(status, RUNTIME_REASONS[found.state], f"{message}: {found.message}")


def monitoring_check(state: NodeState) -> Finding | None:
    """What the exporter's answers say of the node's monitoring; None where the exporter does not run."""
    health = state.health
    if not state.runs(EXPORTER):
        return None
    if health.ready:
        if health.is_outage:
            message = f"node {state.name} fell silent with so many others at once that the silence is taken to be ours"
            return Finding(None, BLIND, f"{message}: look at {names.BOOTSTRAP}'s network")
        return Finding(False, "MonitoringReady", f"the exporter of node {state.name} answers with fresh values")
    if health.ready is None:
        message = f"the exporter of node {state.name} has not yet answered often enough with fresh values"
        return Finding(None, "HeartbeatAwaited", message)
    found = health.error or ("" if EXPORTER in state.observed.ready else "its pod is not ready")
    message = f"the exporter of node {state.name} gives no fresh values{': ' + found if found else ''}"
    return Finding(True, "HeartbeatMissing", f"{message}; see {_pods(state, EXPORTER)}")


def _pods(state: NodeState, component: str) -> str:
    where = f"-l {names.LABEL_COMPONENT}={component} --field-selector spec.nodeName={state.name}"
    return f"kubectl -n {names.NAMESPACE} describe pods {where}"
