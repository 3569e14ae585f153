"""The status of a GPUPool: capacity, nodes, cards, candidates, conditions. Pure."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from controllers.api import conditions as kinds
from controllers.api import names
from controllers.api.gpupool import Candidate, Capacity, GPUPoolStatus, PoolDevice, PoolNode
from controllers.domain.approval import is_automatic
from controllers.domain.capacity import capacity
from controllers.domain.clock import seconds, stamp
from controllers.domain.eligibility import unfit
from controllers.domain.lifecycle import facts_of, project
from controllers.domain.slots import NodeSlots, account, offer_of
from controllers.domain.taints import keeps_off
from controllers.domain.usage import foreign_users
from controllers.gpupool.membership.assignment import is_offerable
from controllers.gpupool.pool import slots_not_shown
from controllers.gpupool.pool.conditions import pool_findings
from controllers.gpupool.pool.node_outage import explain_node_outage
from controllers.gpupool.pool.offering import is_withheld_for_unknown_pods, should_offer

if TYPE_CHECKING:
    from controllers.api.gpudevice import GPUDevice
    from controllers.api.kube import Pod
    from controllers.api.meta import Condition
    from controllers.gpupool.pool.state import PoolState
    from controllers.gpupool.views import ObservedPool


def pool_status(view: ObservedPool, state: PoolState, now: float) -> GPUPoolStatus:
    """The status as it should be."""
    slots = node_slots(view, state, now)
    total = capacity(slots, state.applied)
    devices = [_device(view, device, now) for device in view.members[: names.LIST_MAX]]
    nodes, (candidates, more) = _nodes(view, state, slots, now), _candidates(view)
    return GPUPoolStatus(
        capacity=total,
        applied_allocation=state.applied if state.has_applied_layout else None,
        nodes=tuple(nodes[: names.LIST_MAX]),
        devices=tuple(devices),
        candidates=tuple(candidates[: names.LIST_MAX]),
        truncated=max(len(nodes), len(view.members)) > names.LIST_MAX or more or None,
        phase=state.phase,
        last_reconfigured=view.pool.status.last_reconfigured,
        conditions=_conditions(view, state, slots, nodes[: names.LIST_MAX], total, now=now),
    )


def node_slots(view: ObservedPool, state: PoolState, now: float) -> list[NodeSlots]:
    """The pool's slots, node by node."""
    cards: dict[str, list[GPUDevice]] = defaultdict(list)
    for device in view.members:
        cards[device.status.node_name or ""].append(device)
    pods: dict[str, list[Pod]] = defaultdict(list)
    reserved = {r.request_id: d.status.node_name for d in view.members for r in d.status.reservations}
    for pod in view.pods:
        pods[pod.node or ""].append(pod)
        promised = reserved.get(pod.metadata.annotations.get(names.REQUEST_ID, ""))
        if promised is not None and promised != pod.node:
            pods[promised].append(pod)  # bound elsewhere: nothing is reserved for it here any more
    return [
        account(
            view.pool.name,
            node=view.facts(node).node,
            node_name=node,
            devices=cards[node],
            pods=pods[node],
            allocation=state.applied,
            now=now,
            tolerated=view.tolerated,
        )
        for node in sorted(cards)
    ]


def _device(view: ObservedPool, device: GPUDevice, now: float) -> PoolDevice:
    state = project(facts_of(device, now))
    automatic = is_automatic(view.pool, device, view.settings)
    return PoolDevice(
        inventory_id=device.status.inventory_id or device.name,
        node=device.status.node_name or "",
        state=state,
        auto_attach=automatic,
    )


def _nodes(view: ObservedPool, state: PoolState, slots: list[NodeSlots], now: float) -> list[PoolNode]:
    current = {node.name: node.not_shown_since for node in view.pool.status.nodes}
    entries = []
    for node in slots:
        failed = state.progress.failed.get(node.node)
        since = slots_not_shown.not_shown_since(current.get(node.node), now) if node.hidden else None
        problem = failed or _node_problem(view, state, node, since, now)
        entries.append(
            PoolNode(
                name=node.node,
                total_devices=view.cards_on_node.get(node.node, 0),
                assigned_devices=len(node.cards),
                slots=sum(card.slots for card in node.cards),
                used=sum(card.used for card in node.cards) + node.overflow,
                health="Misconfigured" if failed else "Healthy" if problem is None else "Degraded",
                last_event=problem,
                not_shown_since=since,
            )
        )
    return entries


def _candidates(view: ObservedPool) -> tuple[tuple[Candidate, ...], bool]:
    """The candidates, and whether there are more; the current ones stay while not all nodes are known."""
    current = view.pool.status
    if view.candidates is None:
        return current.candidates, bool(current.truncated) and len(current.candidates) == names.LIST_MAX
    return view.candidates, len(view.candidates) > names.LIST_MAX


def _node_problem(
    view: ObservedPool, state: PoolState, node: NodeSlots, hidden_since: str | None, now: float
) -> str | None:
    """The first thing that keeps a card of the node from being offered, or pods from coming to it."""
    if state.maintenance:
        return "the pool is in Maintenance and offers no card"
    found = view.facts(node.node).node
    if found is not None and (taint := keeps_off(found, view.tolerated)) is not None:
        return (
            f"node {node.node} has taint {taint.key}={taint.value}:{taint.effect}, which pods of the pool do not"
            " tolerate: none comes there until it is gone, or is in spec.scheduling.tolerations"
        )
    of_cards = (_card_problem(view, state, card.device, node.node) for card in node.cards)
    if (why := next(filter(None, of_cards), None)) is not None:
        return why
    return slots_not_shown.describe(view, node, hidden_since, now) if hidden_since is not None else None


def _card_problem(view: ObservedPool, state: PoolState, device: GPUDevice, node: str) -> str | None:
    """What keeps a card from being offered."""
    if not view.wants(device):
        rest = f", and node {node} is not Ready" if explain_node_outage(view.facts(node), node) else ""
        return f"{device.status.inventory_id} is leaving the pool{rest}"
    if (why := unfit(device, ready=view.facts(node).ready)) is not None:
        return f"{device.status.inventory_id}: {why.found}{why.detail}"
    if what := foreign_users(device):
        return f"{device.status.inventory_id}: {what}"
    if is_withheld_for_unknown_pods(view, state, device):
        return f"{device.status.inventory_id}: kubelet tells of a pod on it that the cluster does not have there"
    if device.status.published is None:
        return f"{device.status.inventory_id}: the node's device plugin does not offer it yet"
    return None


def _conditions(
    view: ObservedPool,
    state: PoolState,
    slots: list[NodeSlots],
    nodes: list[PoolNode],
    total: Capacity,
    *,
    now: float,
) -> tuple[Condition, ...]:
    offered = sum(device.status.published is not None and should_offer(view, state, device) for device in view.members)
    coming = sum(card.slots for node in slots for card in node.cards if _is_coming(view, state, card.device, now))
    awaited = {node.name for node in nodes if slots_not_shown.seconds_left(view, node, now) > 0}
    lasting = sum(node.hidden for node in slots if node.node not in awaited)
    coming += sum(node.hidden for node in slots) - lasting
    found = pool_findings(view, state, total, offered=offered, coming=coming, unshown=lasting)
    return tuple(
        kinds.said(view.pool.status.conditions, kind, finding, now=stamp(now), generation=view.pool.metadata.generation)
        for kind, finding in found.items()
    )


def _is_coming(view: ObservedPool, state: PoolState, device: GPUDevice, now: float) -> bool:
    """Whether the node's plugin is about to offer a card, and has had less than its time for that."""
    if device.status.published is not None or not is_offerable(view, device):
        return False
    configured = kinds.find(device.status.conditions, kinds.CONFIGURED)
    if configured is None or configured.status == "True":
        return True  # nothing has been said of its plugin
    if offer_of(device) not in ("AwaitingPlugin", "AwaitingLayout"):
        return False
    patience = view.settings.pools.plugin_patience
    if state.applied.mode == "MIG":
        patience += view.settings.maintenance.deadline  # the node divides the card first
    try:
        return now < seconds(configured.last_transition_time) + patience
    except ValueError:
        return False
