"""What the work of gpu-driver-controller on a node's driver makes of the node's conditions. Pure.

The messages name no phase but where it stays: each phase would be a write more of every node that gets a driver.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from controllers.api import names
from controllers.api.conditions import Finding

if TYPE_CHECKING:
    from controllers.bootstrap.readiness.node_state import NodeState


def driver_work(state: NodeState) -> Finding:
    """The node is out of service since its driver is changed."""
    work = state.driver.work
    if work is not None and work.hand_over is not None:
        end = f"it comes back when annotation {names.HAND_OVER} is taken off the Node"
        return Finding(True, "DriverWork", f"{work.hand_over} wants node {state.name} for work of its own; {end}")
    message = f"{_who(state)} changes the driver of node {state.name}, whose cards are given to nobody meanwhile"
    return Finding(True, "DriverWork", f"{message}; {_where(state)}")


def driver_not_there(state: NodeState) -> Finding | None:
    """What becomes of a driver that is not loaded yet; None where no GPUDriver brings one."""
    work = state.driver.work
    if work is None or state.driver.is_overdue:
        return None
    if state.driver.is_stuck:
        message = f"{_who(state)} cannot bring its driver onto node {state.name} ({work.phase}, {work.reason}): "
        return Finding(True, "DriverNotInstalled", f"{message}{work.message}")
    return Finding(None, "DriverAwaited", f"{_who(state)} brings a driver onto node {state.name}; {_where(state)}")


def newer_driver(state: NodeState) -> str:
    """How the node gets a newer driver."""
    node = state.observed.node
    if node is not None and (variant := node.metadata.labels.get(names.DRIVER_VARIANT)):
        return f"name a newer version in the GPUDriver that brought it (variant {variant}: kubectl gpu driver)"
    return "install a newer driver on the host and reboot it"


def driver_work_overdue(state: NodeState) -> Finding:
    """Nobody goes on with the work on the node's driver, so that nothing follows from it any more."""
    work = state.driver.work
    phase = f"is in phase {work.phase}, which was to be over by {work.deadline}" if work is not None else "stands still"
    message = f"the work of {_who(state)} on node {state.name} {phase}: the node is judged by its own checks"
    return Finding(True, "DriverWorkOverdue", f"{message}. See {names.DRIVER_CONTROLLER}, whose work it is")


def _who(state: NodeState) -> str:
    return f"GPUDriver {state.driver.work.driver}" if state.driver.work is not None else "a GPUDriver"


def _where(state: NodeState) -> str:
    return f"how far it is: kubectl gpu driver, or driverWork of GPUNodeInventory {state.name}"
