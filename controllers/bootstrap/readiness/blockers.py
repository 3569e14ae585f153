"""What keeps a node's cards out of pools: the first blocker in a fixed order. Pure.

A message names the node, what was found, what was expected and what to do, and carries no
times that pass: a status that changes by itself is written for ever.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from controllers.api import names
from controllers.api.conditions import Finding
from controllers.bootstrap.readiness.checks import (
    CHECKS,
    component_check,
    container_check,
    driver_check,
    monitoring_check,
    no_driver,
    no_toolkit,
)
from controllers.bootstrap.readiness.driver import driver_work
from controllers.bootstrap.readiness.node_state import report_name
from controllers.domain.report import is_of_this_boot

if TYPE_CHECKING:
    from controllers.api.gpunodeinventory import Stage
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
    """Whether it was decided (by a person, the lack of cards, the work on its driver), so that no fuse holds it."""
    evident: bool = False
    """Whether the node's own agent shows it, so that no fuse holds it; what is concluded from silence may be ours."""


def first_blocker(state: NodeState) -> Blocker | None:
    """The first thing that keeps the node's cards out of pools; None when nothing does."""
    if (intended := _intended(state)) is not None:
        return intended
    evident = _is_evident(state)
    if not evident and (away := _agent_blocker(state)) is not None:
        return away
    for stage, checks in CHECKS.items():
        for check in checks:
            if (found := check(state)) is not None:
                return Blocker(found, stage, evident=evident)
    if state.blocking is not None:
        return Blocker(
            component_check(state, state.blocking, status=True), "Component", state.blocking.name, transient=True
        )
    silent = monitoring_check(state)
    if silent is None or state.health.ready:
        return None
    return Blocker(silent, "Monitoring", transient=silent.status is None)


def _intended(state: NodeState) -> Blocker | None:
    if (found := not_wanted(state)) is not None:
        return Blocker(found, "NotWanted", intentional=True)
    return Blocker(driver_work(state), "DriverWork", intentional=True) if state.driver.is_out else None


def _is_evident(state: NodeState) -> bool:
    """Whether the node's agent, since the node last started, found what makes its cards useless to any pod.

    It stands until the agent says otherwise, also while its pod is away or the node is not Ready. A version that is
    too old is none: the version is the node's word, and what it is held against is ours, which a release or a
    setting raises for a whole fleet at once. Where a driver does not serve its cards, the checks fail.
    """
    seen = state.observed
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


def agent_check(state: NodeState) -> Finding | None:
    """Why what the agent says cannot be relied on."""
    found = _agent_blocker(state)
    return found.finding if found is not None else None


def _agent_blocker(state: NodeState) -> Blocker | None:
    seen, look = state.observed, f"look at {names.DISCOVER_DAEMONSET}'s pod there"
    if seen.node is None or not seen.node.ready:
        message = f"node {state.name} is not Ready; its cards cannot be vouched for"
        return Blocker(Finding(True, "NodeNotReady", message), "Node")
    if seen.report is None:
        found = Finding(True, "NoReport", f"{report_name(state.name)} is not there; {look}")
        return Blocker(found, "Agent", transient=True)
    if not is_of_this_boot(seen.report, seen.node):
        message = (
            f"{report_name(state.name)} is from before node {state.name} last started; a report of this boot is awaited"
        )
        return Blocker(Finding(True, "ReportOutdated", f"{message}; {look}"), "Agent")
    if not seen.agent_ready:
        message = f"no pod of {names.DISCOVER_DAEMONSET} is ready on node {state.name}; {look}"
        return Blocker(Finding(True, "AgentNotReady", message), "Agent", transient=True)
    return None
