"""From what is seen of a node to its gates, its facts and its conditions. Pure.

One clock serves every wait: `bootstrap.lastRun` is when the preparation last changed, so that
a component is late when nothing has changed for its deadline, also after a restart of ours.

`assess` says what should leave service, a fuse may hold the node, and `plan` writes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from controllers.api import conditions as kinds
from controllers.api import names
from controllers.api.conditions import Finding, said
from controllers.api.gpunodeinventory import Bootstrap, DriverInfo, Monitoring
from controllers.api.record import to_json
from controllers.api.resources import GPUNODEINVENTORY, NODE
from controllers.bootstrap import cards, judge, mig, phases, troubles
from controllers.bootstrap.phases import EXPORTER, PHASES, Progress, progress
from controllers.bootstrap.situation import Situation, needs
from controllers.bootstrap.step import step_of
from controllers.domain.clock import lies_ahead, seconds, stamp, stamp_exact
from controllers.domain.wording import sentence
from controllers.runtime.labels import set_labels
from controllers.runtime.plan import Apply, EmitEvent, Plan, PlanBuilder, ref

if TYPE_CHECKING:
    from controllers.api.gpunodeinventory import GPUNodeInventory, Kept
    from controllers.api.kube import Node
    from controllers.api.meta import Condition
    from controllers.api.settings import Settings
    from controllers.bootstrap.health.limits import Limits
    from controllers.bootstrap.observe import ObservedNode
    from controllers.bootstrap.step import Step
    from controllers.bootstrap.troubles import Trouble

GATES = {names.deploy_label(phase.component): phase.component for phase in PHASES}
RETRY = 15.0
"""Seconds after which what a fuse holds is asked for again: others may have come back."""
MONITORING = frozenset(phase.component for phase in PHASES if phase.condition == kinds.MONITORING_MISSING)
"""Components that the exporter's answers vouch for, whatever their pods do."""


@dataclass(frozen=True, slots=True)
class Assessment:
    """A node that is known to inventory, and what is thought of it."""

    node: Node
    inventory: GPUNodeInventory
    at: Situation
    progress: Progress
    trouble: Trouble | None
    since: str
    """When the preparation last changed."""
    patience: Kept | None
    """The reason for which a node that was ready stays so, since what troubles it may pass."""
    left: float | None
    """Seconds after which time alone changes what is thought."""

    @property
    def node_out(self) -> bool:
        """Whether the node should leave service."""
        return self._was and self.stays_out

    @property
    def stays_out(self) -> bool:
        """Whether the node is out of service, or should be, for a trouble that nobody decided."""
        return self.trouble is not None and not self.trouble.decided and not (self._was and self.patience)

    @property
    def evident(self) -> bool:
        """Whether what troubles the node was shown, so that no fuse holds it."""
        return self.trouble is not None and self.trouble.evident

    @property
    def _was(self) -> bool:
        return kinds.is_true(self.inventory.status.conditions, kinds.READY_FOR_POOLING)


def assess(seen: ObservedNode, settings: Settings, now: float, *, enabled: bool = True) -> Assessment | None:
    """What is thought of a node; None until inventory has spoken. `enabled`: whether the module is."""
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
    vouched = MONITORING if seen.telemetry is not None and seen.telemetry.ready else frozenset()
    deadline = settings.bootstrap.phase_deadline
    rests, step = mig.NONE, Progress(frozenset(), None)
    if managed and count:
        rests = mig.suspension(seen.devices, inventory.status.bootstrap, deadline, now)
        step = progress(running, seen.ready | vouched, opened, rests.closed)
    least = needs(card for card in seen.devices if not card.set_aside)
    at = Situation(seen, managed, count, running, step.blocking, False, deadline, least, enabled, rests, len(aside))
    return _timed(
        Assessment(node, inventory, at, step, None, "", None, None), settings, now, opening=bool(step.gates - opened)
    )


def _timed(found: Assessment, settings: Settings, now: float, *, opening: bool) -> Assessment:
    """With what the time that has passed makes of it. `opening`: whether a gate is opened now."""
    at, old = found.at, found.inventory.status
    before = kinds.find(old.conditions, kinds.READY_FOR_POOLING)
    trouble = troubles.first(at)
    last = step_of(old.bootstrap, before)
    since = _since(old.bootstrap, last, trouble, now, opening=opening, resting=bool(at.suspended.on))
    rest = at.suspended.left
    if trouble is None:
        return replace(found, since=since, left=rest or None)
    word: Kept | None = None
    allowed = 0.0
    if before is not None and before.status == "True" and trouble.passing:
        # A component that is new on a ready node has its image to pull, as on a node that is new.
        new = opening or (last is not None and last.kept == judge.PREPARING)
        word = judge.MIG_WORK if at.suspended.on else judge.PREPARING if new else judge.RESTARTING
        short = word == judge.RESTARTING
        allowed = settings.bootstrap.restart_grace if short else settings.bootstrap.phase_deadline
    grace = seconds(since) + allowed - now if word else 0.0
    deadline = seconds(since) + settings.bootstrap.phase_deadline - now if at.blocking is not None else 0.0
    if at.blocking is not None and deadline <= 0:
        at = replace(at, overdue=True)
        trouble = troubles.first(at)
    return replace(
        found,
        at=at,
        trouble=trouble,
        since=since,
        patience=word if grace > 0 else None,
        left=min((left for left in (grace, deadline, rest) if left > 0), default=None),
    )


def plan(seen: ObservedNode, found: Assessment | None, held: str, limits: Limits, now: float) -> Plan:
    """What to write so that the node is prepared step by step, and what is known of it is told.

    `held`: why a fuse keeps the node in service; empty where none does.
    """
    node = seen.node
    if node is not None and seen.inventory is None and names.LABEL_PRESENT not in node.metadata.labels:
        return _closed(node)
    if found is None:
        return Plan()
    draft = PlanBuilder()
    # The status first: what it says of a gate that opens is lost where only the gate is written.
    _status(draft, found, held, now)
    _gates(draft, found.node, found.progress)
    draft.add(*cards.plan(seen, found.at.roles, limits, now))
    for left in (found.left, seen.telemetry.left if seen.telemetry else None, RETRY if held else None):
        if left is not None:
            draft.requeue_within(left)
    return draft.build()


def _closed(node: Node) -> Plan:
    """A node that is no GPU node, or no more: nothing of ours runs there."""
    draft = PlanBuilder()
    _gates(draft, node, Progress(frozenset(), None))
    return draft.build()


def _gates(draft: PlanBuilder, node: Node, step: Progress) -> None:
    labels = {names.deploy_label(component): "true" for component in sorted(step.gates)}
    if (write := set_labels(ref(NODE, node), node.metadata, labels, GATES)) is not None:
        draft.add(write)


def _status(draft: PlanBuilder, known: Assessment, held: str, now: float) -> None:
    """Facts and conditions of the node, in one write."""
    at, inventory, old = known.at, known.inventory, known.inventory.status
    trouble = known.trouble
    kept = judge.stays(at, trouble, known.patience, held)
    pooling = judge.ready_for_pooling(at, trouble, kept, held)
    made = [
        said(old.conditions, kind, found, now=stamp(now), generation=inventory.metadata.generation)
        for kind, found in judge.findings(at, pooling, kept).items()
    ]
    driver = _driver(at) or old.driver
    monitoring = _monitoring(at, old.monitoring)
    bootstrap = Bootstrap(
        **_flags(at),
        last_run=known.since,
        suspended=at.suspended.on,
        stage=trouble.stage if trouble is not None else "Ready",
        component=trouble.component if trouble is not None else None,
        kept=kept,
    )
    if (old.driver, old.monitoring, old.bootstrap) == (driver, monitoring, bootstrap) and all(
        one in old.conditions for one in made
    ):
        return
    status: dict[str, Any] = {"driver": to_json(driver)} if driver else {}
    status |= {"monitoring": to_json(monitoring), "bootstrap": to_json(bootstrap)}
    about = ref(GPUNODEINVENTORY, inventory)
    draft.add(Apply(about, {"status": {**status, "conditions": [to_json(one) for one in made]}}, "status"))
    _tell(draft, inventory, pooling, kept)
    _tell_driver(draft, inventory, kinds.find(made, kinds.DRIVER_MISSING))
    _tell_elsewhere(draft, inventory, kinds.find(made, kinds.MANAGED_ELSEWHERE))


def _flags(at: Situation) -> dict[str, bool | None]:
    """What is ready on the node; None for what the module does not run there."""
    ready = {c: c in at.seen.ready if at.runs(c) else None for c in ("gfd", "toolkit", "validator")}
    installed = at.fact("toolkit", "installed")
    by_hand = installed == "true" if installed else None
    toolkit = ready["toolkit"] if at.runs("toolkit") else by_hand
    validated = ready["validator"] and troubles.container_check(at) is None
    return {"gfd_ready": ready["gfd"], "toolkit_ready": toolkit, "validated": validated}


def _since(
    last: Bootstrap | None,
    before: Step | None,
    trouble: Trouble | None,
    now: float,
    *,
    opening: bool,
    resting: bool,
) -> str:
    """When the preparation last changed; now, where it does so now.

    From one component to another it changes only when a gate opens: pods that crash in turn put no deadline off.
    MIG work is a stage of its own: its beginning and its end are changes, and nothing in between is.
    """
    if last is None or last.last_run is None or before is None or not _is_past(last.last_run, now):
        return stamp_exact(now)
    if resting or last.suspended:
        return last.last_run if resting and last.suspended else stamp_exact(now)
    stage, component = (trouble.stage, trouble.component) if trouble is not None else ("Ready", None)
    if before.in_service:
        # A ready node that restarts or is held is in trouble, and its clock runs on while it is.
        same = (before.kept is None) == (trouble is None) and not (opening and trouble is not None)
    else:
        same = before.stage == stage and (before.component == component or not opening)
    return last.last_run if same else stamp_exact(now)


def _is_past(text: str, now: float) -> bool:
    """Whether it is a time that a right clock can have written: deadlines count from it."""
    try:
        return not lies_ahead(text, now)
    except ValueError:
        return False


def _driver(at: Situation) -> DriverInfo | None:
    """What the agent says of driver and toolkit; None where it says nothing."""
    if at.seen.report is None:
        return None
    installed = at.fact("toolkit", "installed")
    return DriverInfo(
        version=at.fact("driver", "version"),
        cuda_version=at.cuda,
        toolkit_installed=installed == "true" if installed else None,
        toolkit_version=at.fact("toolkit", "version"),
    )


def _monitoring(at: Situation, old: Monitoring | None) -> Monitoring:
    """Whether the exporter answers; the time of an answer is told only with a change, since it always changes."""
    heard = at.seen.telemetry
    if not at.runs(EXPORTER) or heard is None:
        return Monitoring()
    if old is not None and old.dcgm_ready == heard.ready:
        return old
    last = stamp(heard.last) if heard.last is not None else old.last_heartbeat if old else None
    return Monitoring(dcgm_ready=heard.ready, last_heartbeat=last)


def _tell(draft: PlanBuilder, inventory: GPUNodeInventory, found: Finding, kept: Kept | None) -> None:
    """An event when the node becomes ready, when it is no more, and when a fuse keeps it so."""
    before = kinds.find(inventory.status.conditions, kinds.READY_FOR_POOLING)
    was, about = before is not None and before.status == "True", ref(GPUNODEINVENTORY, inventory)
    if found.status and not was:
        draft.add(EmitEvent(about, "Normal", names.EVENT_NODE_READY, found.message))
    elif was and not found.status:
        text = sentence(f"{kinds.READY_FOR_POOLING} is False ({found.reason}): {found.message}")
        text += f" Its free cards leave circulation: kubectl describe gpunodeinventory {inventory.name}"
        draft.add(EmitEvent(about, "Warning", names.EVENT_INVENTORY_CONDITION, text))
    elif kept == judge.HELD and (last := step_of(inventory.status.bootstrap, before)) and last.kept != judge.HELD:
        draft.add(EmitEvent(about, "Warning", names.EVENT_FUSE_HELD, found.message))


def _tell_driver(draft: PlanBuilder, inventory: GPUNodeInventory, now: Condition | None) -> None:
    """An event when the node's driver goes, or was never there: for people, and named as the alert."""
    if now is not None and now.status == "True" and not kinds.is_true(inventory.status.conditions, now.type):
        draft.add(EmitEvent(ref(GPUNODEINVENTORY, inventory), "Warning", names.EVENT_DRIVER_MISSING, now.message))


def _tell_elsewhere(draft: PlanBuilder, inventory: GPUNodeInventory, now: Condition | None) -> None:
    """An event when others are found to serve the node's cards, too."""
    if now is not None and now.status == "True" and not kinds.is_true(inventory.status.conditions, now.type):
        text = sentence(f"{now.type} is True ({now.reason}): {now.message}")
        draft.add(EmitEvent(ref(GPUNODEINVENTORY, inventory), "Warning", names.EVENT_INVENTORY_CONDITION, text))
