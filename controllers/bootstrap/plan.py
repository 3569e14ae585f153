"""From what is seen of a node to its gates, its facts and its conditions. Pure.

One clock serves every wait: `bootstrap.lastRun` is when the preparation last changed, so that
a component is late when nothing has changed for its deadline, also after a restart of ours.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from controllers.api import conditions as kinds
from controllers.api import names
from controllers.api.conditions import Finding, condition
from controllers.api.gpunodeinventory import Bootstrap, DriverInfo, Monitoring
from controllers.api.record import to_json
from controllers.api.resources import GPUDEVICE, GPUNODEINVENTORY, NODE
from controllers.bootstrap import judge
from controllers.bootstrap.judge import Situation
from controllers.bootstrap.phases import PHASES, Progress, enabled, progress
from controllers.domain.clock import seconds, stamp, stamp_exact
from controllers.runtime.labels import set_labels
from controllers.runtime.plan import Apply, Draft, Note, Plan, ref

if TYPE_CHECKING:
    from controllers.api.gpunodeinventory import GPUNodeInventory, GPUNodeInventoryStatus
    from controllers.api.kube import Node
    from controllers.api.settings import BootstrapSettings, Settings
    from controllers.bootstrap.observe import ObservedNode

GATES = {names.deploy_label(phase.component): phase.component for phase in PHASES}


def plan(seen: ObservedNode, settings: Settings, now: float) -> Plan:
    """What to write so that the node is prepared step by step, and what is known of it is told."""
    node, inventory = seen.node, seen.inventory
    if node is not None and inventory is None and names.LABEL_PRESENT not in node.metadata.labels:
        return _closed(node)
    # Until inventory has spoken nothing is known, and an open gate stays open.
    if node is None or inventory is None or inventory.status.hw is None or inventory.metadata.deletion_timestamp:
        return Plan()
    disabled = kinds.find(inventory.status.conditions, kinds.MANAGED_DISABLED)
    if disabled is None:
        return Plan()
    managed, cards = disabled.status != "True", len(inventory.status.hw.devices)
    phases = enabled(settings.bootstrap)
    opened = {component for label, component in GATES.items() if node.metadata.labels.get(label) == "true"}
    step = progress(phases, seen.ready, opened) if managed and cards else Progress(frozenset(), None)
    draft = Draft()
    _gates(draft, node, step)
    at = Situation(
        seen, managed, cards, phases, step.blocking, overdue=False, deadline=settings.bootstrap.phase_deadline
    )
    _status(draft, inventory, at, settings.bootstrap, now)
    _lost_cards(draft, seen, now)
    return draft.done()


def _closed(node: Node) -> Plan:
    """A node that is no GPU node, or no more: nothing of ours runs there."""
    draft = Draft()
    _gates(draft, node, Progress(frozenset(), None))
    return draft.done()


def _gates(draft: Draft, node: Node, step: Progress) -> None:
    labels = {names.deploy_label(component): "true" for component in sorted(step.gates)}
    if (write := set_labels(ref(NODE, node), node.metadata, labels, GATES)) is not None:
        draft.add(write)


def _status(draft: Draft, inventory: GPUNodeInventory, at: Situation, settings: BootstrapSettings, now: float) -> None:
    """Facts and conditions of the node, in one write."""
    old = inventory.status
    facts = _flags(at)
    since = _since(old, judge.ready_for_pooling(at), facts, now)
    if at.blocking is not None:
        left = seconds(since) + settings.phase_deadline - now
        if left > 0:
            draft.look_again(left)
        at = replace(at, overdue=left <= 0)
    findings = {
        kinds.DRIVER_MISSING: judge.driver_missing(at),
        kinds.TOOLKIT_MISSING: judge.toolkit_missing(at),
        kinds.MONITORING_MISSING: judge.monitoring_missing(at),
        kinds.INFRA_DEGRADED: judge.infra_degraded(at),
        kinds.READY_FOR_POOLING: judge.ready_for_pooling(at),
    }
    made = [
        condition(
            old.conditions,
            kind,
            status=found.status,
            reason=found.reason,
            message=found.message,
            now=stamp(now),
            generation=inventory.metadata.generation,
        )
        for kind, found in findings.items()
    ]
    driver = _driver(at) or old.driver
    monitoring = Monitoring(dcgm_ready="dcgm-exporter" in at.seen.ready if at.runs("dcgm-exporter") else None)
    bootstrap = Bootstrap(**facts, last_run=since)
    if (old.driver, old.monitoring, old.bootstrap) == (driver, monitoring, bootstrap) and all(
        one in old.conditions for one in made
    ):
        return
    status: dict[str, Any] = {"driver": to_json(driver)} if driver else {}
    status |= {"monitoring": to_json(monitoring), "bootstrap": to_json(bootstrap)}
    about = ref(GPUNODEINVENTORY, inventory)
    draft.add(Apply(about, {"status": {**status, "conditions": [to_json(one) for one in made]}}, "status"))
    _tell(draft, inventory, findings[kinds.READY_FOR_POOLING])


def _flags(at: Situation) -> dict[str, bool | None]:
    """What is ready on the node; None for what the module does not run there."""
    ready = {c: c in at.seen.ready if at.runs(c) else None for c in ("gfd", "toolkit", "validator")}
    installed = at.fact("toolkit", "installed")
    by_hand = installed == "true" if installed else None
    toolkit = ready["toolkit"] if at.runs("toolkit") else by_hand
    return {"gfd_ready": ready["gfd"], "toolkit_ready": toolkit, "validated": ready["validator"]}


def _since(old: GPUNodeInventoryStatus, found: Finding, facts: dict[str, bool | None], now: float) -> str:
    """When the preparation last changed; now, where it does so now."""
    before, last = kinds.find(old.conditions, kinds.READY_FOR_POOLING), old.bootstrap
    if last is None or last.last_run is None or before is None:
        return stamp_exact(now)
    same = Bootstrap(**facts, last_run=last.last_run) == last and judge.stage(before.reason) == judge.stage(
        found.reason
    )
    return last.last_run if same and _is_time(last.last_run) else stamp_exact(now)


def _is_time(text: str) -> bool:
    try:
        seconds(text)
    except ValueError:
        return False
    return True


def _driver(at: Situation) -> DriverInfo | None:
    """What the agent says of driver and toolkit; None where it says nothing."""
    if at.seen.report is None:
        return None
    installed = at.fact("toolkit", "installed")
    return DriverInfo(
        version=at.fact("driver", "version"),
        cuda_version=at.fact("driver", "cuda_version"),
        toolkit_installed=installed == "true" if installed else None,
        toolkit_version=at.fact("toolkit", "version"),
    )


def _tell(draft: Draft, inventory: GPUNodeInventory, found: Finding) -> None:
    """An event when the node becomes ready, and when it is no more."""
    was = kinds.is_true(inventory.status.conditions, kinds.READY_FOR_POOLING)
    about = ref(GPUNODEINVENTORY, inventory)
    if found.status and not was:
        draft.add(Note(about, "Normal", names.EVENT_NODE_READY, found.message))
    elif was and not found.status:
        text = f"{kinds.READY_FOR_POOLING} is False ({found.reason}): {found.message}"
        draft.add(Note(about, "Warning", names.EVENT_INVENTORY_CONDITION, text))


def _lost_cards(draft: Draft, seen: ObservedNode, now: float) -> None:
    """A card that is gone from its node while in a pool is faulted; one that came back is not."""
    for device in seen.devices:
        incomplete = kinds.find(device.status.conditions, kinds.INVENTORY_INCOMPLETE)
        faulted = kinds.find(device.status.conditions, kinds.FAULTED)
        lost = incomplete is not None and (incomplete.status, incomplete.reason) == ("True", names.REASON_CARD_LOST)
        was_lost = faulted is not None and (faulted.status, faulted.reason) == ("True", "Lost")
        if not lost and not was_lost:
            continue
        message = f"card {device.status.inventory_id} is {'gone from' if lost else 'back in'} node {seen.name}"
        made = condition(
            device.status.conditions,
            kinds.FAULTED,
            status=lost,
            reason="Lost" if lost else "Returned",
            message=message + (" while it is in a pool" if lost else ""),
            now=stamp(now),
            generation=device.metadata.generation,
        )
        if made != faulted:
            draft.add(Apply(ref(GPUDEVICE, device), {"status": {"conditions": [to_json(made)]}}, "status"))
