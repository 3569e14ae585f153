"""What a pool's status says: capacity, nodes, cards, candidates, conditions. Pure."""

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
from controllers.gpupool import unshown
from controllers.gpupool.assignment import is_offered, is_wanted
from controllers.gpupool.findings import away, findings
from controllers.gpupool.maintenance import is_kept_by_strays, offers

if TYPE_CHECKING:
    from controllers.api.gpudevice import GPUDevice
    from controllers.api.kube import Pod
    from controllers.api.meta import Condition
    from controllers.gpupool.maintenance import Standing
    from controllers.gpupool.observe import ObservedPool


def pool_status(seen: ObservedPool, standing: Standing, now: float) -> GPUPoolStatus:
    """The status as it should be."""
    slots = node_slots(seen, standing, now)
    total = capacity(slots, standing.applied)
    devices = [_device(seen, device, now) for device in seen.members[: names.LIST_MAX]]
    nodes, (candidates, more) = _nodes(seen, standing, slots, now), _candidates(seen)
    return GPUPoolStatus(
        capacity=total,
        applied_allocation=standing.applied if standing.known else None,
        nodes=tuple(nodes[: names.LIST_MAX]),
        devices=tuple(devices),
        candidates=tuple(candidates[: names.LIST_MAX]),
        truncated=max(len(nodes), len(seen.members)) > names.LIST_MAX or more or None,
        phase=standing.phase,
        last_reconfigured=seen.pool.status.last_reconfigured,
        conditions=_conditions(seen, standing, slots, nodes[: names.LIST_MAX], total, now=now),
    )


def node_slots(seen: ObservedPool, standing: Standing, now: float) -> list[NodeSlots]:
    """The pool's slots, node by node."""
    cards: dict[str, list[GPUDevice]] = defaultdict(list)
    for device in seen.members:
        cards[device.status.node_name or ""].append(device)
    pods: dict[str, list[Pod]] = defaultdict(list)
    reserved = {r.request_id: d.status.node_name for d in seen.members for r in d.status.reservations}
    for pod in seen.pods:
        pods[pod.node or ""].append(pod)
        promised = reserved.get(pod.metadata.annotations.get(names.REQUEST_ID, ""))
        if promised is not None and promised != pod.node:
            pods[promised].append(pod)  # bound elsewhere: nothing is reserved for it here any more
    return [
        account(
            seen.pool.name,
            node=seen.facts(node).node,
            node_name=node,
            devices=cards[node],
            pods=pods[node],
            allocation=standing.applied,
            now=now,
            tolerated=seen.tolerated,
        )
        for node in sorted(cards)
    ]


def _device(seen: ObservedPool, device: GPUDevice, now: float) -> PoolDevice:
    state = project(facts_of(device, now))
    automatic = is_automatic(seen.pool, device, seen.settings)
    return PoolDevice(
        inventory_id=device.status.inventory_id or device.name,
        node=device.status.node_name or "",
        state=state,
        auto_attach=automatic,
    )


def _nodes(seen: ObservedPool, standing: Standing, slots: list[NodeSlots], now: float) -> list[PoolNode]:
    said = {node.name: node.not_shown_since for node in seen.pool.status.nodes}
    made = []
    for node in slots:
        failed = standing.built.failed.get(node.node)
        since = unshown.since(said.get(node.node), now) if node.unshown else None
        problem = failed or _problem(seen, standing, node, since, now)
        made.append(
            PoolNode(
                name=node.node,
                total_devices=seen.cards_on.get(node.node, 0),
                assigned_devices=len(node.cards),
                slots=sum(card.slots for card in node.cards),
                used=sum(card.used for card in node.cards) + node.overflow,
                health="Misconfigured" if failed else "Healthy" if problem is None else "Degraded",
                last_event=problem,
                not_shown_since=since,
            )
        )
    return made


def _candidates(seen: ObservedPool) -> tuple[tuple[Candidate, ...], bool]:
    """The candidates, and whether there are more; what was said of them stands while not all nodes are known."""
    said = seen.pool.status
    if seen.candidates is None:
        return said.candidates, bool(said.truncated) and len(said.candidates) == names.LIST_MAX
    return seen.candidates, len(seen.candidates) > names.LIST_MAX


def _problem(
    seen: ObservedPool, standing: Standing, node: NodeSlots, hidden_since: str | None, now: float
) -> str | None:
    """The first thing that keeps a card of the node from being offered, or pods from coming to it."""
    if standing.maintenance:
        return "the pool is in Maintenance and offers no card"
    found = seen.facts(node.node).node
    if found is not None and (taint := keeps_off(found, seen.tolerated)) is not None:
        return (
            f"node {node.node} has taint {taint.key}={taint.value}:{taint.effect}, which pods of the pool do not"
            " tolerate: none comes there until it is gone, or is in spec.scheduling.tolerations"
        )
    of_cards = (_of_card(seen, standing, card.device, node.node) for card in node.cards)
    if (why := next(filter(None, of_cards), None)) is not None:
        return why
    return unshown.problem(seen, node, hidden_since, now) if hidden_since is not None else None


def _of_card(seen: ObservedPool, standing: Standing, device: GPUDevice, node: str) -> str | None:
    """What keeps a card from being offered."""
    if not is_wanted(seen, device):
        rest = f", and node {node} is not Ready" if away(seen.facts(node), node) else ""
        return f"{device.status.inventory_id} is leaving the pool{rest}"
    if (why := unfit(device, ready=seen.facts(node).ready)) is not None:
        return f"{device.status.inventory_id}: {why.found}{why.detail}"
    if what := foreign_users(device):
        return f"{device.status.inventory_id}: {what}"
    if is_kept_by_strays(seen, standing, device):
        return f"{device.status.inventory_id}: kubelet tells of a pod on it that the cluster does not have there"
    if device.status.published is None:
        return f"{device.status.inventory_id}: the node's device plugin does not offer it yet"
    return None


def _conditions(
    seen: ObservedPool,
    standing: Standing,
    slots: list[NodeSlots],
    nodes: list[PoolNode],
    total: Capacity,
    *,
    now: float,
) -> tuple[Condition, ...]:
    offered = sum(device.status.published is not None and offers(seen, standing, device) for device in seen.members)
    coming = sum(card.slots for node in slots for card in node.cards if _is_coming(seen, standing, card.device, now))
    # Of a node that the status has no room for nobody knows since when: it is waited for, and the alert tells of it.
    overdue = {node.name for node in nodes if unshown.is_overdue(seen, node, now)}
    lasting = sum(node.unshown for node in slots if node.node in overdue)
    coming += sum(node.unshown for node in slots) - lasting
    found = findings(seen, standing, total, offered=offered, coming=coming, unshown=lasting)
    return tuple(
        kinds.said(seen.pool.status.conditions, kind, finding, now=stamp(now), generation=seen.pool.metadata.generation)
        for kind, finding in found.items()
    )


def _is_coming(seen: ObservedPool, standing: Standing, device: GPUDevice, now: float) -> bool:
    """Whether the node's plugin is about to offer a card, and has had less than its time for that."""
    if device.status.published is not None or not is_offered(seen, device):
        return False
    told = kinds.find(device.status.conditions, kinds.CONFIGURED)
    if told is None or told.status == "True":
        return True  # nothing has been said of its plugin
    if offer_of(device) not in ("AwaitingPlugin", "AwaitingLayout"):
        return False
    patience = seen.settings.pools.plugin_patience
    if standing.applied.mode == "MIG":
        patience += seen.settings.maintenance.deadline  # the node divides the card first
    try:
        return now < seconds(told.last_transition_time) + patience
    except ValueError:
        return False
