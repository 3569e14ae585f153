"""Writes of one node: status and conditions of its GPUNodeInventory, gates and condition of the Node, GPUDevices. Pure.

`assess` says whether the node should leave service, the fuse may hold it, and `plan` writes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from controllers.api import conditions as kinds
from controllers.api import names
from controllers.api.components import EXPORTER
from controllers.api.conditions import condition_for
from controllers.api.gpunodeinventory import Bootstrap, DriverInfo, Monitoring
from controllers.api.record import to_json
from controllers.api.resources import GPUNODEINVENTORY, NODE
from controllers.api.runtime_state import AWAITING_TURN
from controllers.bootstrap.health import plan as card_health
from controllers.bootstrap.preparation.phases import Progress
from controllers.bootstrap.readiness import conditions, events
from controllers.bootstrap.readiness.assess import GATES
from controllers.bootstrap.readiness.checks import container_check
from controllers.bootstrap.readiness.node_condition import plan_conditions
from controllers.bootstrap.readiness.other_managers import elsewhere_of
from controllers.bootstrap.readiness.software import software_of
from controllers.domain.clock import stamp
from controllers.runtime.labels import set_labels
from controllers.runtime.plan import Apply, Plan, PlanBuilder, ref

if TYPE_CHECKING:
    from controllers.api.conditions import Finding
    from controllers.api.gpunodeinventory import ContainerRuntime
    from controllers.api.kube import Node
    from controllers.bootstrap.health.limits import Limits
    from controllers.bootstrap.readiness.assess import Assessment
    from controllers.bootstrap.readiness.node_state import NodeState
    from controllers.bootstrap.views import ObservedNode

RETRY = 15.0
"""Seconds after which what a fuse holds, or has no turn yet, is asked for again: others may have come back."""


def plan(
    seen: ObservedNode,
    found: Assessment | None,
    held: str,
    limits: Limits,
    now: float,
    *,
    runtime: ContainerRuntime | None = None,
) -> Plan:
    """Plan the writes that prepare the node step by step and record what is known of it.

    `held`: why a fuse keeps the node in service; empty where none does. `runtime`: of its container runtime.
    """
    node = seen.node
    if node is not None and seen.inventory is None and names.LABEL_PRESENT not in node.metadata.labels:
        return _close_gates(node, now)
    if found is None:
        return Plan()
    draft = PlanBuilder()
    # The status first: what it says of a gate that opens is lost where only the gate is written.
    pooling = _status(draft, found, held, now, runtime)
    _gates(draft, found.node, found.progress)
    is_wanted = found.blocker is None or found.blocker.stage != "NotWanted"
    is_ready = pooling.status is True if is_wanted else None
    draft.add(*plan_conditions(found.node, is_ready, now, is_handed_over=found.state.driver.is_handed_over))
    health = found.state.health
    draft.add(*card_health.plan(seen, health, found.state.roles, limits, now))
    waits = held or (runtime is not None and runtime.state == AWAITING_TURN)
    for left in (found.requeue_after, health.requeue_after, RETRY if waits else None):
        if left is not None:
            draft.requeue_within(left)
    return draft.build()


def _close_gates(node: Node, now: float) -> Plan:
    """A node that is no GPU node, or no more: nothing of ours runs there."""
    draft = PlanBuilder()
    _gates(draft, node, Progress(frozenset(), None))
    draft.add(*plan_conditions(node, None, now, is_handed_over=False))
    return draft.build()


def _gates(draft: PlanBuilder, node: Node, step: Progress) -> None:
    labels = {names.deploy_label(component): "true" for component in sorted(step.gates)}
    if (write := set_labels(ref(NODE, node), node.metadata, labels, GATES)) is not None:
        draft.add(write)


def _status(draft: PlanBuilder, known: Assessment, held: str, now: float, runtime: ContainerRuntime | None) -> Finding:
    """Facts and conditions of the node, in one write; returns what ReadyForPooling says."""
    state, inventory, old = known.state, known.inventory, known.inventory.status
    blocker = known.blocker
    kept = conditions.kept_in_service(state, blocker, known.grace_reason, held)
    pooling = conditions.ready_for_pooling(state, blocker, kept, held)
    made = [
        condition_for(old.conditions, kind, found, now=stamp(now), generation=inventory.metadata.generation)
        for kind, found in conditions.findings(state, pooling, kept).items()
    ]
    driver = _driver_info(state) or old.driver
    monitoring = _monitoring_status(state, old.monitoring)
    bootstrap = Bootstrap(
        **_component_flags(state),
        last_run=known.last_progress,
        suspended=state.suspended.on,
        operation=state.suspended.name,
        disrupted=_is_disrupted(known, held) or None,
        stage=blocker.stage if blocker is not None else "Ready",
        component=blocker.component if blocker is not None else None,
        kept=kept,
    )
    software = software_of(known, driver)
    elsewhere = elsewhere_of(state.observed) if state.managed else None
    facts = (driver, runtime, monitoring, bootstrap, frozenset(software), elsewhere)
    known_as = (old.driver, old.runtime, old.monitoring, old.bootstrap, frozenset(old.software), old.managed_elsewhere)
    if known_as == facts and all(one in old.conditions for one in made):
        return pooling
    status: dict[str, Any] = {"driver": to_json(driver)} if driver else {}
    status |= {"runtime": to_json(runtime)} if runtime is not None else {}
    status |= {"monitoring": to_json(monitoring), "bootstrap": to_json(bootstrap)}
    status |= {"managedElsewhere": to_json(elsewhere)} if elsewhere is not None else {}
    status["software"] = [to_json(one) for one in software]
    about = ref(GPUNODEINVENTORY, inventory)
    draft.add(Apply(about, {"status": {**status, "conditions": [to_json(one) for one in made]}}, "status"))
    events.readiness_changed(draft, inventory, pooling, kept)
    events.driver_missing(draft, inventory, kinds.find(made, kinds.DRIVER_MISSING))
    events.managed_elsewhere(draft, inventory, kinds.find(made, kinds.MANAGED_ELSEWHERE))
    return pooling


def _is_disrupted(known: Assessment, held: str) -> bool:
    """Whether the node leaves service now, or has left it, for a blocker that nobody intends."""
    recorded = known.inventory.status.bootstrap
    left = known.node_out and not held
    return known.stays_out and (left or (recorded is not None and recorded.disrupted is True))


def _component_flags(state: NodeState) -> dict[str, bool | None]:
    """What is ready on the node; None for what the module does not run there."""
    ready = {c: c in state.observed.ready if state.runs(c) else None for c in ("gfd", "toolkit", "validator")}
    installed = state.fact("toolkit", "installed")
    by_hand = installed == "true" if installed else None
    toolkit = ready["toolkit"] if state.runs("toolkit") else by_hand
    validated = ready["validator"] and container_check(state) is None
    return {"gfd_ready": ready["gfd"], "toolkit_ready": toolkit, "validated": validated}


def _driver_info(state: NodeState) -> DriverInfo | None:
    """What the agent says of driver and toolkit; None where it says nothing."""
    if state.observed.report is None:
        return None
    installed = state.fact("toolkit", "installed")
    return DriverInfo(
        version=state.fact("driver", "version"),
        cuda_version=state.cuda,
        toolkit_installed=installed == "true" if installed else None,
        toolkit_version=state.fact("toolkit", "version"),
    )


def _monitoring_status(state: NodeState, old: Monitoring | None) -> Monitoring:
    """Whether the exporter answers; the time of an answer is told only with a change, since it always changes."""
    health = state.health
    if not state.runs(EXPORTER):
        return Monitoring()
    if old is not None and old.dcgm_ready == health.ready:
        return old
    last = stamp(health.last) if health.last is not None else old.last_heartbeat if old else None
    return Monitoring(dcgm_ready=health.ready, last_heartbeat=last)
