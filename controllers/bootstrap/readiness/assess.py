"""Assessment of a GPU node's readiness: its first blocker, its grace period and its deadlines. Pure.

One clock serves every wait: `bootstrap.lastRun` is when the preparation last changed, so that
a component is late when nothing has changed for its deadline, also after a restart of ours.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from controllers.api import conditions as kinds
from controllers.api import names
from controllers.bootstrap.preparation import phases
from controllers.bootstrap.preparation.mig_work import mig_work
from controllers.bootstrap.preparation.phases import PHASES, Progress, progress
from controllers.bootstrap.readiness import conditions
from controllers.bootstrap.readiness.blockers import first_blocker
from controllers.bootstrap.readiness.node_state import NodeState, closed_for_driver, needs
from controllers.bootstrap.readiness.recorded_stage import recorded_stage
from controllers.domain import node_operation
from controllers.domain.clock import lies_ahead, seconds, stamp_exact
from controllers.domain.driver.node_work import work_on

if TYPE_CHECKING:
    from controllers.api.gpunodeinventory import Bootstrap, GPUNodeInventory, Kept
    from controllers.api.kube import Node
    from controllers.api.settings import Settings
    from controllers.bootstrap.health.node import NodeHealth
    from controllers.bootstrap.readiness.blockers import Blocker
    from controllers.bootstrap.readiness.recorded_stage import RecordedStage
    from controllers.bootstrap.views import ObservedNode
    from controllers.domain.node_operation import Suspension

GATES = {names.deploy_label(phase.name): phase.name for phase in PHASES}
MONITORING = frozenset(phase.name for phase in PHASES if phase.condition == kinds.MONITORING_MISSING)
"""Components that the exporter's answers vouch for, whatever their pods do."""


@dataclass(frozen=True, slots=True)
class Assessment:
    """A node that is known to inventory, and what keeps its cards out of pools."""

    node: Node
    inventory: GPUNodeInventory
    state: NodeState
    progress: Progress
    blocker: Blocker | None
    last_progress: str
    """When the preparation last changed."""
    grace_reason: Kept | None
    """Reason of the grace period that keeps a ready node ready while its blocker may pass."""
    requeue_after: float | None
    """Seconds after which time alone changes the assessment."""

    @property
    def node_out(self) -> bool:
        """Whether the node should leave service."""
        return self._was_ready and self.stays_out

    @property
    def stays_out(self) -> bool:
        """Whether the node is out of service, or should be, for a blocker that nobody intends."""
        return self.blocker is not None and not self.blocker.intentional and not (self._was_ready and self.grace_reason)

    @property
    def evident(self) -> bool:
        """Whether the node's own agent shows the blocker, so that no fuse holds the node."""
        return self.blocker is not None and self.blocker.evident

    @property
    def _was_ready(self) -> bool:
        return kinds.is_true(self.inventory.status.conditions, kinds.READY_FOR_POOLING)


def assess(
    seen: ObservedNode, health: NodeHealth, settings: Settings, now: float, *, enabled: bool = True
) -> Assessment | None:
    """Assess a node; None until inventory has spoken.

    `now` in seconds since the epoch; `enabled`: whether the module is.
    """
    node, inventory = seen.node, seen.inventory
    # Until inventory has spoken nothing is known, and an open gate stays open.
    if node is None or inventory is None or inventory.status.hw is None or inventory.metadata.deletion_timestamp:
        return None
    disabled = kinds.find(inventory.status.conditions, kinds.MANAGED_DISABLED)
    if disabled is None:
        return None
    aside = {card.name for card in seen.devices if card.set_aside}.intersection(
        one.name for one in inventory.status.hw.devices
    )
    managed, count = enabled and disabled.status != "True", len(inventory.status.hw.devices) - len(aside)
    running = phases.enabled(settings.bootstrap)
    opened = {component for label, component in GATES.items() if node.metadata.labels.get(label) == "true"}
    vouched = MONITORING if health.ready else frozenset()
    deadline = settings.bootstrap.phase_deadline
    work = work_on(inventory.status.driver_work, node, now)
    suspended, step = node_operation.NONE, Progress(frozenset(), None)
    if managed and count:
        suspended = node_operation.suspend(mig_work(seen.devices), inventory.status.bootstrap, deadline, now)
        step = progress(running, seen.ready | vouched, opened, suspended.closed | closed_for_driver(work))
    least = needs(card for card in seen.devices if not card.set_aside)
    state = NodeState(
        *(seen, health, managed, count, running, step.blocking, False, deadline, least),
        enabled=enabled,
        suspended=suspended,
        aside=len(aside),
        driver=work,
    )
    return _with_deadlines(
        Assessment(node, inventory, state, step, None, "", None, None), settings, now, opening=bool(step.gates - opened)
    )


def _with_deadlines(found: Assessment, settings: Settings, now: float, *, opening: bool) -> Assessment:
    """Add grace and deadlines. `opening`: whether a gate is opened now."""
    state, old = found.state, found.inventory.status
    before = kinds.find(old.conditions, kinds.READY_FOR_POOLING)
    blocker = first_blocker(state)
    last = recorded_stage(old.bootstrap, before)
    since = _last_progress(old.bootstrap, last, blocker, now, opening=opening, suspension=state.suspended)
    operations = (state.suspended.left, state.driver.left)
    if blocker is None:
        return replace(found, last_progress=since, requeue_after=_first(*operations))
    word: Kept | None = None
    allowed = 0.0
    if before is not None and before.status == "True" and blocker.transient:
        # A component that is new on a ready node has its image to pull, as on a node that is new.
        new = opening or (last is not None and last.kept == conditions.PREPARING)
        word = conditions.PREPARING if new else conditions.RESTARTING
        if state.suspended.on and state.suspended.name is not None:
            word = state.suspended.name
        short = word == conditions.RESTARTING
        allowed = settings.bootstrap.restart_grace if short else settings.bootstrap.phase_deadline
    grace = seconds(since) + allowed - now if word else 0.0
    # Nothing is late on a node whose driver is changed: that has a deadline of its own.
    awaited = state.blocking is not None and not state.driver.is_out
    deadline = seconds(since) + settings.bootstrap.phase_deadline - now if awaited else 0.0
    if awaited and deadline <= 0:
        state = replace(state, overdue=True)
        blocker = first_blocker(state)
    return replace(
        found,
        state=state,
        blocker=blocker,
        last_progress=since,
        grace_reason=word if grace > 0 else None,
        requeue_after=_first(grace, deadline, *operations),
    )


def _first(*left: float) -> float | None:
    """The first of several waits, in seconds; those that are over do not count."""
    return min((one for one in left if one > 0), default=None)


def _last_progress(
    last: Bootstrap | None,
    before: RecordedStage | None,
    blocker: Blocker | None,
    now: float,
    *,
    opening: bool,
    suspension: Suspension,
) -> str:
    """When the preparation last changed; now, where it does so now.

    From one component to another it changes only when a gate opens: pods that crash in turn put no deadline off.
    MIG work is a stage of its own: its beginning and its end are changes, and nothing in between is.
    """
    if last is None or last.last_run is None or before is None or not _is_past(last.last_run, now):
        return stamp_exact(now)
    if suspension.on or last.suspended:
        return last.last_run if node_operation.goes_on(suspension, last) else stamp_exact(now)
    stage, component = (blocker.stage, blocker.component) if blocker is not None else ("Ready", None)
    if before.in_service:
        # A ready node that restarts or is held has a blocker, and its clock runs on while it is.
        same = (before.kept is None) == (blocker is None) and not (opening and blocker is not None)
    else:
        same = before.stage == stage and (before.component == component or not opening)
    return last.last_run if same else stamp_exact(now)


def _is_past(text: str, now: float) -> bool:
    """Whether it is a time that a right clock can have written: deadlines count from it."""
    try:
        return not lies_ahead(text, now)
    except ValueError:
        return False
