"""What is to be said about a node's preparation: the conditions' status, reason and sentence. Pure.

A sentence names the node, what was found, what was expected and what to do, and carries no
times that pass: a status that changes by itself is written for ever.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from controllers.api import conditions as kinds
from controllers.api import names
from controllers.api.conditions import Finding
from controllers.bootstrap.operands import object_name
from controllers.domain.report import is_of_this_boot

if TYPE_CHECKING:
    from collections.abc import Sequence

    from controllers.bootstrap.observe import ObservedNode
    from controllers.bootstrap.phases import Phase

FACT_MAX = 64
NOT_READY, OVERDUE = "NotReady", "Overdue"


@dataclass(frozen=True, slots=True)
class Situation:
    """Everything that the sentences are made of."""

    seen: ObservedNode
    managed: bool
    cards: int
    phases: Sequence[Phase]
    """Components that are to run, in order."""
    blocking: Phase | None
    overdue: bool
    deadline: float

    @property
    def name(self) -> str:
        """The node."""
        return self.seen.name

    @property
    def prepared(self) -> bool:
        """Whether the node is to be prepared at all."""
        return self.managed and self.cards > 0

    def fact(self, feature: str, key: str) -> str | None:
        """What the agent says; None where it says nothing."""
        report = self.seen.report
        attributes = getattr(report.spec.features.attributes, feature) if report else None
        return (attributes.elements.get(key) or "")[:FACT_MAX] or None if attributes else None

    def runs(self, component: str) -> bool:
        """Whether the module runs a component."""
        return any(phase.component == component for phase in self.phases)


def stage(reason: str) -> str:
    """What a node waits for, whether it waits too long or not."""
    return reason.removesuffix(OVERDUE) + NOT_READY if reason.endswith(OVERDUE) else reason


def ready_for_pooling(at: Situation) -> Finding:
    """The first thing that keeps the node's cards out of pools, or that nothing does."""
    for check in (_not_wanted, _agent_trouble, _no_driver, _no_toolkit):
        if (found := check(at)) is not None:
            return Finding(False, found.reason, found.message)
    if at.blocking is not None:
        return _waiting(at, at.blocking, status=False)
    version = at.fact("driver", "version")
    return Finding(True, "Ready", f"node {at.name} is prepared: driver {version}, {at.cards} cards")


def driver_missing(at: Situation) -> Finding:
    """DriverMissing."""
    return _not_wanted(at) or _unknown(at) or _no_driver(at) or _group(at, kinds.DRIVER_MISSING, "Driver")


def toolkit_missing(at: Situation) -> Finding:
    """ToolkitMissing."""
    return _not_wanted(at) or _unknown(at) or _no_toolkit(at) or _group(at, kinds.TOOLKIT_MISSING, "Toolkit")


def monitoring_missing(at: Situation) -> Finding:
    """MonitoringMissing."""
    return _not_wanted(at) or _group(at, kinds.MONITORING_MISSING, "Monitoring")


def infra_degraded(at: Situation) -> Finding:
    """InfraDegraded: what prepares and watches the node does not do its work there."""
    if (idle := _not_wanted(at)) is not None:
        return idle
    if (trouble := _agent_trouble(at)) is not None:
        return trouble
    late = [p for p in at.phases if p.condition == kinds.INFRA_DEGRADED and p.component not in at.seen.ready]
    if at.blocking is None and late:
        return _waiting(at, late[0], status=True)
    if at.overdue and at.blocking is not None and at.blocking in late:
        return _waiting(at, at.blocking, status=True)
    return Finding(False, "Healthy", f"the agent of node {at.name} and what prepares the node work")


def _not_wanted(at: Situation) -> Finding | None:
    if not at.managed:
        return Finding(False, "NotManaged", f"node {at.name} is not managed (see ManagedDisabled): nothing runs there")
    if not at.cards:
        return Finding(False, "NoCards", f"node {at.name} has no identified card (see InventoryIncomplete)")
    return None


def _unknown(at: Situation) -> Finding | None:
    if at.seen.report is not None:
        return None
    return Finding(
        None, "NoReport", f"{_source(at)} is not there, so nobody tells of node {at.name}'s driver and toolkit"
    )


def _agent_trouble(at: Situation) -> Finding | None:
    """Why what the agent says cannot be relied on."""
    seen, look = at.seen, f"look at {names.DISCOVER_DAEMONSET}'s pod there"
    if seen.node is None or not seen.node.ready:
        return Finding(True, "NodeNotReady", f"node {at.name} is not Ready; its cards cannot be vouched for")
    if seen.report is None:
        return Finding(True, "NoReport", f"{_source(at)} is not there; {look}")
    if not is_of_this_boot(seen.report, seen.node):
        message = f"{_source(at)} is from before node {at.name} last started; a report of this boot is awaited; {look}"
        return Finding(True, "StaleReport", message)
    if not seen.agent_ready:
        return Finding(
            True, "AgentNotReady", f"no pod of {names.DISCOVER_DAEMONSET} is ready on node {at.name}; {look}"
        )
    return None


def _no_driver(at: Situation) -> Finding | None:
    if at.fact("driver", "version"):
        return None
    message = f"{_source(at)} names no loaded driver; install the cards' driver on the host of node {at.name}"
    return Finding(True, "DriverNotFound", message)


def _no_toolkit(at: Situation) -> Finding | None:
    """Only where the administrator brings the toolkit: what we install is judged by its pod."""
    if at.runs("toolkit") or at.fact("toolkit", "installed") == "true":
        return None
    message = (
        f"{_source(at)} finds no container toolkit on node {at.name}, and the settings leave it to the administrator"
        " (bootstrap.toolkit.enabled: false); install it or enable the component"
    )
    return Finding(True, "ToolkitNotFound", message)


def _group(at: Situation, kind: str, word: str) -> Finding:
    """A condition that stands for one or more components."""
    members = [phase for phase in at.phases if phase.condition == kind]
    waiting = [phase for phase in members if phase.component not in at.seen.ready]
    if not waiting:
        if not members:
            return Finding(False, f"{word}NotChecked", f"the settings run no component for it on node {at.name}")
        return Finding(False, f"{word}Ready", f"{' and '.join(p.component for p in members)} on node {at.name}: ready")
    if at.blocking in waiting and at.blocking is not None:
        return _waiting(at, at.blocking, status=True if at.overdue else None)
    before = f"; {at.blocking.component} comes first" if at.blocking else ""
    return Finding(None, "Waiting", f"{waiting[0].component} is not ready on node {at.name}{before}")


def _waiting(at: Situation, phase: Phase, *, status: bool | None) -> Finding:
    """A component that is not ready, in time or late."""
    late = at.overdue and phase == at.blocking
    what = f"{names.LABEL_COMPONENT}={phase.component} --field-selector spec.nodeName={at.name}"
    message = (
        f"no pod of DaemonSet {names.NAMESPACE}/{object_name(phase.component)} is ready on node {at.name}"
        f"{', and it should be after' if late else '; it has'} {at.deadline:g} s;"
        f" see kubectl -n {names.NAMESPACE} describe pods -l {what}"
    )
    return Finding(status, phase.word + (OVERDUE if late else NOT_READY), message)


def _source(at: Situation) -> str:
    return f"NodeFeature {names.NAMESPACE}/{names.agent_feature(at.name)}"
