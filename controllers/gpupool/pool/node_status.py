"""`status.nodes` of a GPUPool: the slots of each node, and what keeps its cards from being offered. Pure."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from controllers.api import names
from controllers.api.gpupool import PoolNode
from controllers.domain.accounting import account
from controllers.domain.eligibility import check_card
from controllers.domain.slots import NodeSlots
from controllers.domain.taints import keeps_off
from controllers.domain.usage import foreign_users
from controllers.gpupool.pool import slots_not_shown
from controllers.gpupool.pool.node_outage import explain_node_outage
from controllers.gpupool.pool.offering import is_withheld_for_unknown_pods

if TYPE_CHECKING:
    from controllers.api.gpudevice import GPUDevice
    from controllers.api.kube import Pod
    from controllers.gpupool.pool.state import PoolState
    from controllers.gpupool.views import ObservedPool


def node_slots(view: ObservedPool, state: PoolState, now: float, profile: str | None = None) -> list[NodeSlots]:
    """The pool's slots, node by node; of one profile, where one is named."""
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
            profile=profile,
        )
        for node in sorted(cards)
    ]


def pool_nodes(view: ObservedPool, state: PoolState, slots: list[NodeSlots], now: float) -> list[PoolNode]:
    """`status.nodes`: an entry for each node that has slots."""
    current = {node.name: node.not_shown_since for node in view.pool.status.nodes}
    entries = []
    for node in slots:
        failed = state.progress.failed.get(node.node)
        since = slots_not_shown.not_shown_since(current.get(node.node), now) if node.unshown else None
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
    if (why := check_card(device, ready=view.facts(node).ready)) is not None:
        return f"{device.status.inventory_id}: {why.message}{why.detail}"
    if what := foreign_users(device):
        return f"{device.status.inventory_id}: {what}"
    if is_withheld_for_unknown_pods(view, state, device):
        return f"{device.status.inventory_id}: kubelet tells of a pod on it that the cluster does not have there"
    return _why_not_published(device) if device.status.published is None else None


def _why_not_published(device: GPUDevice) -> str:
    """What the node's device plugin waits for before it offers a card."""
    daemon = device.status.mps
    if daemon is not None and daemon.phase != "Ready":
        return f"{device.status.inventory_id}: {names.MPS_DOWN}: {daemon.spelled}"
    return f"{device.status.inventory_id}: the node's device plugin does not offer it yet"
