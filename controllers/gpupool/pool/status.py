"""The status of a GPUPool: capacity, nodes, cards, candidates, conditions. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from controllers.api import conditions as kinds
from controllers.api import names
from controllers.api.gpupool import Candidate, Capacity, GPUPoolStatus, PoolDevice, PoolNode
from controllers.domain.allocation import profiles_of
from controllers.domain.approval import is_automatic
from controllers.domain.capacity import capacity
from controllers.domain.clock import seconds, stamp
from controllers.domain.issuing import offer_of
from controllers.domain.lifecycle import facts_of, project
from controllers.domain.slots import NodeSlots
from controllers.gpupool.membership.assignment import is_offerable
from controllers.gpupool.pool import slots_not_shown
from controllers.gpupool.pool.conditions import is_capacity_awaited, pool_findings
from controllers.gpupool.pool.node_status import node_slots, pool_nodes
from controllers.gpupool.pool.offering import should_offer

if TYPE_CHECKING:
    from controllers.api.gpudevice import GPUDevice
    from controllers.api.meta import Condition
    from controllers.gpupool.pool.state import PoolState
    from controllers.gpupool.views import ObservedPool


class EvaluatedStatus(NamedTuple):
    """The status as it should be, and what more was found on the way."""

    status: GPUPoolStatus
    is_capacity_awaited: bool
    """Whether its CapacityLow stands as it was, since plugins have yet to offer cards."""


def pool_status(view: ObservedPool, state: PoolState, now: float) -> EvaluatedStatus:
    """The status as it should be."""
    slots = node_slots(view, state, now)
    apart = {profile: node_slots(view, state, now, profile) for profile in profiles_of(state.applied)}
    total = capacity(slots, state.applied, apart)
    devices = [_device(view, device, now) for device in view.members[: names.LIST_MAX]]
    nodes, (candidates, more) = pool_nodes(view, state, slots, now), _candidates(view)
    coming, lasting = _coming_slots(view, state, slots, nodes[: names.LIST_MAX], now)
    status = GPUPoolStatus(
        capacity=total,
        applied_allocation=state.applied if state.has_applied_layout else None,
        nodes=tuple(nodes[: names.LIST_MAX]),
        devices=tuple(devices),
        candidates=tuple(candidates[: names.LIST_MAX]),
        truncated=max(len(nodes), len(view.members)) > names.LIST_MAX or more or None,
        queue=view.queue,
        phase=state.phase,
        last_reconfigured=view.pool.status.last_reconfigured,
        conditions=_conditions(view, state, total, coming, lasting, now=now),
    )
    return EvaluatedStatus(status, state.offers and is_capacity_awaited(total, coming))


def _device(view: ObservedPool, device: GPUDevice, now: float) -> PoolDevice:
    state = project(facts_of(device, now))
    automatic = is_automatic(view.pool, device, view.settings)
    return PoolDevice(
        inventory_id=device.status.inventory_id or device.name,
        node=device.status.node_name or "",
        state=state,
        auto_attach=automatic,
    )


def _candidates(view: ObservedPool) -> tuple[tuple[Candidate, ...], bool]:
    """The candidates, and whether there are more; the current ones stay while not all nodes are known."""
    current = view.pool.status
    if view.candidates is None:
        return current.candidates, bool(current.truncated) and len(current.candidates) == names.LIST_MAX
    return view.candidates, len(view.candidates) > names.LIST_MAX


def _coming_slots(
    view: ObservedPool, state: PoolState, slots: list[NodeSlots], nodes: list[PoolNode], now: float
) -> tuple[int, int]:
    """Slots that are about to be offered, and those that kubelet should have shown by now."""
    coming = sum(card.slots for node in slots for card in node.cards if _is_coming(view, state, card.device, now))
    # Of a node that the status has no room for nobody knows since when: it is waited for, and the alert tells of it.
    overdue = {node.name for node in nodes if slots_not_shown.is_overdue(view, node, now)}
    lasting = sum(node.unshown for node in slots if node.node in overdue)
    return coming + sum(node.unshown for node in slots) - lasting, lasting


def _conditions(
    view: ObservedPool, state: PoolState, total: Capacity, coming: int, lasting: int, *, now: float
) -> tuple[Condition, ...]:
    offered = sum(device.status.published is not None and should_offer(view, state, device) for device in view.members)
    found = pool_findings(view, state, total, offered=offered, coming=coming, unshown=lasting)
    return tuple(
        kinds.condition_for(
            view.pool.status.conditions, kind, finding, now=stamp(now), generation=view.pool.metadata.generation
        )
        for kind, finding in found.items()
    )


def _is_coming(view: ObservedPool, state: PoolState, device: GPUDevice, now: float) -> bool:
    """Whether the node's plugin is about to offer a card, and has had less than its time for that."""
    if device.status.published is not None or not is_offerable(view, device):
        return False
    configured = kinds.find(device.status.conditions, kinds.CONFIGURED)
    if configured is None or configured.status == "True":
        return True  # its condition is not written yet
    if offer_of(device) not in ("AwaitingPlugin", "AwaitingLayout"):
        return False
    patience = view.settings.pools.plugin_patience
    if state.applied.mode == "MIG":
        patience += view.settings.maintenance.deadline  # the node divides the card first
    try:
        return now < seconds(configured.last_transition_time) + patience
    except ValueError:
        return False
