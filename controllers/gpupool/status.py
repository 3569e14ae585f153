"""What a pool's status says: capacity, nodes, cards, candidates, conditions. Pure."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING

from controllers.api import conditions as kinds
from controllers.api import names
from controllers.api.gpupool import Candidate, CandidatePool, Capacity, GPUPoolStatus, PoolDevice, PoolNode
from controllers.domain.capacity import capacity, is_low
from controllers.domain.clock import stamp
from controllers.domain.lifecycle import facts_of, project
from controllers.domain.slots import NodeSlots, account
from controllers.gpupool.assignment import is_offered, is_wanted
from controllers.gpupool.select import SERVED_MODES, claim, hint, is_automatic, selected, unfit

if TYPE_CHECKING:
    from controllers.api.gpudevice import GPUDevice
    from controllers.api.kube import Pod
    from controllers.api.meta import Condition
    from controllers.gpupool.observe import ObservedPool


def pool_status(seen: ObservedPool, now: float) -> GPUPoolStatus:
    """The status as it should be."""
    slots, allocation = node_slots(seen, now), seen.pool.spec.allocation
    total = capacity(slots, allocation)
    devices = [_device(seen, device, now) for device in seen.members]
    nodes, candidates = _nodes(seen, slots), _candidates(seen)
    served = allocation.mode in SERVED_MODES
    return GPUPoolStatus(
        capacity=total,
        applied_allocation=allocation if served else seen.pool.status.applied_allocation,
        nodes=tuple(nodes[: names.LIST_MAX]),
        devices=tuple(devices[: names.LIST_MAX]),
        candidates=tuple(candidates[: names.LIST_MAX]),
        truncated=max(len(nodes), len(devices), len(candidates)) > names.LIST_MAX or None,
        conditions=_conditions(seen, total, now),
    )


def node_slots(seen: ObservedPool, now: float) -> list[NodeSlots]:
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
            allocation=seen.pool.spec.allocation,
            now=now,
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


def _nodes(seen: ObservedPool, slots: list[NodeSlots]) -> list[PoolNode]:
    everywhere: dict[str, int] = defaultdict(int)
    for device in (*seen.members, *seen.free):
        everywhere[device.status.node_name or ""] += 1
    made = []
    for node in slots:
        problem = _problem(seen, node)
        made.append(
            PoolNode(
                name=node.node,
                total_devices=everywhere[node.node],
                assigned_devices=len(node.cards),
                slots=sum(card.slots for card in node.cards),
                used=sum(card.used for card in node.cards) + node.overflow,
                health="Healthy" if problem is None else "Degraded",
                last_event=problem,
            )
        )
    return made


def _problem(seen: ObservedPool, node: NodeSlots) -> str | None:
    """The first thing that keeps a card of the node from being offered."""
    for card in node.cards:
        if not is_wanted(seen, card.device):
            return f"{card.device.status.inventory_id} is leaving the pool"
        if why := unfit(card.device, seen.facts(node.node)):
            return f"{card.device.status.inventory_id}: {why}"
        if card.device.status.published is None:
            return f"{card.device.status.inventory_id}: the node's device plugin does not offer it yet"
    return None


def _candidates(seen: ObservedPool) -> list[Candidate]:
    """Ready cards in no pool that this pool's selectors mean and nobody has decided about."""
    pool, made = seen.pool, []
    limit = pool.spec.allocation.max_devices_per_node
    taken = Counter(device.status.node_name for device in seen.members)
    for device in seen.free:
        facts = seen.facts(device.status.node_name)
        if claim(device) is not None or unfit(device, facts) is not None:
            continue
        if limit is not None and taken[device.status.node_name] >= limit:
            continue
        if selected(pool, device, facts, seen.positions.get(device.name, 0)):
            automatic = is_automatic(pool, device, seen.settings)
            entry = CandidatePool(
                pool=pool.name,
                reason="AwaitingApproval",
                auto_approved=automatic,
                annotation_hint=hint(pool.name),
            )
            made.append(Candidate(name=device.name, pools=(entry,)))
    return made


def _conditions(seen: ObservedPool, total: Capacity, now: float) -> tuple[Condition, ...]:
    pool, at = seen.pool, stamp(now)
    existing, generation = pool.status.conditions, pool.metadata.generation

    def say(kind: str, status: bool, reason: str, message: str) -> Condition:
        return kinds.condition(
            existing, kind, status=status, reason=reason, message=message, now=at, generation=generation
        )

    mode = pool.spec.allocation.mode
    served = mode in SERVED_MODES
    offered = sum(1 for device in seen.members if is_offered(seen, device) and device.status.published)
    if offered:
        available = say(kinds.AVAILABLE, True, "CardsOffered", f"{offered} of {len(seen.members)} cards are offered.")
    elif seen.members:
        message = f"{len(seen.members)} cards are in the pool and none is offered yet; status.nodes says why."
        available = say(kinds.AVAILABLE, False, "WaitingForPlugin", message)
    else:
        message = f"No card is in the pool. Confirm candidates: kubectl annotate gpudevice <card> {hint(pool.name)}"
        available = say(kinds.AVAILABLE, False, "NoCards", message)
    misconfigured = say(kinds.MISCONFIGURED, False, "AsExpected", "The pool is served as it is written.")
    if not served:
        message = (
            f"spec.allocation.mode is {mode}; this version of the module hands out {', '.join(SERVED_MODES)} only."
        )
        misconfigured = say(kinds.MISCONFIGURED, True, "ModeNotServed", message)
    low = is_low(total)
    counted = f"{total.available} of {total.total} slots are available."
    return (
        available,
        say(kinds.MAINTENANCE, False, "AsExpected", "The nodes are configured as the pool is written."),
        misconfigured,
        say(kinds.CAPACITY_LOW, low, "BelowTenPercent" if low else "Enough", counted),
    )
