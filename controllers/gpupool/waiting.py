"""New reservations for pods that outlived theirs: oldest first, all or none (docs/design.md, Pods that wait). Pure.

Turns: each waiting pod is reserved for once, oldest first, before any is a second time; then
the one whose turn is longest ago comes first. A turn lasts the reservation's TTL, and nobody
has another before it is over. Where two turns ran out though the cards could be used, the
webhook's among them, the scheduler does not place the pod for a reason that is not ours:
others come first for a TTL, after each further turn for twice as long as before
(`status.passedOver`, which the webhook reads). Then it has its place again, by its age. So
such a pod holds cards for ever shorter shares of the time. Turns are what is seen of
reservations, and live in the process: after a restart a pod that is not in that list has one
turn more.

Where more pods wait than one plan can hold against the nodes (`WORK`), the rest comes first in
the next one, so that each is looked at in the end.

A pod of several cards is reserved for card by card; where that ends half-way, the next plan
takes back what is there and begins again.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from controllers.api import names
from controllers.api.conditions import MAINTENANCE, MISCONFIGURED, is_true
from controllers.api.gpudevice import Reservation
from controllers.api.gpupool import PassedOver
from controllers.api.record import to_json
from controllers.api.resources import GPUDEVICE, GPUPOOL
from controllers.domain.allocation import applied, is_applied
from controllers.domain.clock import seconds, stamp_exact
from controllers.domain.lifecycle import apply_transition, facts_of, is_allowed, live, project, state_with
from controllers.domain.slots import account, gives, issuable, slots_of
from controllers.domain.waiting import NodeCapacities, NodeCapacity, PendingPod, pending_pod, until, waits_from
from controllers.gpupool.observe import BY_POOL, UNBOUND
from controllers.runtime.plan import Merge, Plan, PlanBuilder, ref

if TYPE_CHECKING:
    from collections.abc import Collection, Container, Iterable, Mapping

    from controllers.api.gpudevice import DeviceState, GPUDevice
    from controllers.api.gpupool import GPUPool, Toleration
    from controllers.api.kube import Node, Pod
    from controllers.api.tenant import TenantPod
    from controllers.domain.slots import Card, NodeSlots
    from controllers.gpupool.observe import World

    Held = dict[str, list[tuple[GPUDevice, Reservation]]]
    """What is reserved on which card, by request."""

GRACE = 0.05
"""Seconds added to a deadline, so that it has passed when the key comes back."""
PASSED_AFTER: Final = 2
"""Turns that ran out."""
WORK: Final = 1_000_000
"""How much of what pods want one plan holds against nodes: half a second's worth. Each pod is 1 a node at least."""
DOUBLED_MAX: Final = 10
"""Times that the time for which others come first is doubled: with a TTL of two minutes to a day and a half."""


@dataclass(frozen=True, slots=True)
class Turn:
    """The last time that a pod's demand was reserved."""

    began: float
    """Seconds since the epoch."""
    ran_out: int = 0
    """Turns that ran out before the pod was bound, and were counted."""
    cards: frozenset[str] = frozenset()
    """The reserved cards, while it lasts."""


@dataclass(frozen=True, slots=True)
class ObservedQueue:
    """A pool's cards, and the pods that may wait for them."""

    pool: GPUPool
    unbound: tuple[TenantPod, ...]
    """Pods of the pool that are on no node and have not ended."""
    members: tuple[GPUDevice, ...]
    nodes: Mapping[str, Node]
    bound: tuple[Pod, ...] = ()
    """Pods that are on a node and hold cards of the pool."""
    tolerated: tuple[Toleration, ...] = ()
    """What the pool's pods tolerate."""
    turns: Mapping[str, Turn] = field(default_factory=dict)
    """By request."""
    unreached: frozenset[str] = frozenset()
    """Requests that the last plan did not come to."""
    reservation_ttl: float = 120.0
    unseen_ttl: float = 15.0


def observe(world: World, name: str, turns: Mapping[str, Turn], unreached: Iterable[str] = ()) -> ObservedQueue | None:
    """The view of a pool's queue; None where no pod can be in it, which costs nothing to see."""
    pool, unbound = world.pools.get(name), world.pods.by(UNBOUND, name)
    if pool is None or not (unbound or pool.status.passed_over):
        return None
    members = world.devices.by(BY_POOL, name)
    found = {node: world.nodes.get(node) for node in {device.status.node_name or "" for device in members}}
    return ObservedQueue(
        pool=pool,
        unbound=tuple(unbound),
        members=tuple(members),
        nodes={name: node for name, node in found.items() if node is not None},
        bound=tuple(pod for pod in world.pods_of(name) if pod.node is not None),
        tolerated=world.tolerated(pool),
        turns=turns,
        unreached=frozenset(unreached),
        reservation_ttl=world.settings.admission.reservation_ttl,
        unseen_ttl=world.settings.admission.unseen_ttl,
    )


@dataclass(frozen=True, slots=True)
class Turns:
    """What to write, and whose turn it is with that."""

    plan: Plan
    seen: Mapping[str, Turn]
    """By request: what was seen of turns, whatever becomes of the plan."""
    served: tuple[str, ...] = ()
    """Requests that are reserved for, once the plan is done."""
    unreached: tuple[str, ...] = ()
    """Requests that there was no work left for."""


def plan(seen: ObservedQueue, now: float) -> Turns:
    """Plan for the pods of one pool."""
    draft = PlanBuilder()
    if not _gives(seen.pool):
        return Turns(draft.build(), {})
    held = _held(seen)
    unbound = [found for pod in seen.unbound if (found := pending_pod(pod, seen.pool.name)) is not None]
    turns, ended = _followed(seen, unbound, held, now)
    passed = _passed_over(seen, turns, ended, now)
    if passed != (seen.pool.status.passed_over or ()):
        status = {"passedOver": [to_json(each) for each in passed] or None}
        draft.add(Merge(ref(GPUPOOL, seen.pool), seen.pool.metadata.resource_version, {"status": status}, "status"))
    queue = _queue(seen, unbound, held, turns, passed, draft=draft, now=now)
    if not queue:
        return Turns(draft.build(), turns)
    if remains := _remains(seen, queue, now):
        draft.add(*remains)
        return Turns(draft.build(), turns, unreached=tuple(seen.unreached))
    served, unreached = _reserve(seen, queue, draft, now)
    return Turns(draft.build(), turns, tuple(served), tuple(unreached))


def _held(seen: ObservedQueue) -> Held:
    found: Held = defaultdict(list)
    for device in seen.members:
        for reservation in device.status.reservations:
            found[reservation.request_id].append((device, reservation))
    return found


def _followed(
    seen: ObservedQueue, unbound: Iterable[PendingPod], held: Held, now: float
) -> tuple[dict[str, Turn], frozenset[str]]:
    """The turns of pods that wait, and the requests of those that ran out since the last look.

    Behind a gate nothing is a turn: such pods are not among `unbound`.
    """
    counted = {each.request_id: each.turns for each in seen.pool.status.passed_over or ()}
    turns, ended = dict[str, Turn](), set[str]()
    for wants in unbound:
        request, before = wants.request_id, seen.turns.get(wants.request_id)
        entries = [entry for entry in held.get(request, ()) if live(entry[1], now)]
        if sum(reservation.slots for _, reservation in entries) >= wants.units:
            began = max(_began(reservation, now) for _, reservation in entries)
            ran_out = before.ran_out if before is not None else counted.get(request, 0)
            turns[request] = Turn(began, ran_out, frozenset(device.name for device, _ in entries))
        elif before is not None and before.cards and _could_be_used(seen, before.cards):
            ended.add(request)
            turns[request] = Turn(before.began, before.ran_out + 1)
        elif before is not None:
            turns[request] = replace(before, cards=frozenset())
    return turns, frozenset(ended)


def _began(reservation: Reservation, now: float) -> float:
    try:
        return min(now, seconds(reservation.since))
    except ValueError:
        return now


def _could_be_used(seen: ObservedQueue, cards: Collection[str]) -> bool:
    """Whether none of these cards is out of service, or gone, at a turn's end: a fault of ours is not the pod's."""
    found = [device for device in seen.members if device.name in cards]
    return len(found) == len(cards) and all(
        issuable(device, seen.pool.name) and gives(seen.nodes.get(device.status.node_name or "")) for device in found
    )


def _passed_over(
    seen: ObservedQueue, turns: Mapping[str, Turn], ended: Collection[str], now: float
) -> tuple[PassedOver, ...]:
    """Whom others come before, with those whose turn has run out by now; the longest are kept where they are many."""
    unbound = {pod.metadata.annotations.get(names.REQUEST_ID) for pod in seen.unbound}
    found = {each.request_id: each for each in seen.pool.status.passed_over or () if each.request_id in unbound}
    for request in ended:
        if (ran_out := turns[request].ran_out) >= PASSED_AFTER:
            passed = seen.reservation_ttl * 2 ** min(ran_out - PASSED_AFTER, DOUBLED_MAX)
            found[request] = PassedOver(request_id=request, turns=ran_out, until=stamp_exact(now + passed))
    return tuple(sorted(found.values(), key=lambda each: (each.until, each.request_id))[-names.LIST_MAX :])


def _gives(pool: GPUPool) -> bool:
    """Whether the pool promises cards now; Maintenance waits until none is promised."""
    told = pool.status.conditions
    changes = pool.status.applied_allocation is not None and not is_applied(pool)
    closed = changes or is_true(told, MAINTENANCE) or is_true(told, MISCONFIGURED)
    return pool.metadata.deletion_timestamp is None and not closed


def _queue(
    seen: ObservedQueue,
    unbound: Iterable[PendingPod],
    held: Held,
    turns: Mapping[str, Turn],
    passed: tuple[PassedOver, ...],
    *,
    draft: PlanBuilder,
    now: float,
) -> list[PendingPod]:
    """The pods that wait without a reservation and are not passed over, in the order of their turns."""
    last = {each.request_id: until(each, now) for each in passed}
    queue: list[PendingPod] = []
    for found in unbound:
        reserved = [reservation for _, reservation in held.get(found.request_id, ())]
        since = waits_from(found, reserved, now, seen.unseen_ttl)
        if (turn := turns.get(found.request_id)) is not None:
            since = max(since, turn.began + seen.reservation_ttl)
        since = max(since, last.get(found.request_id, 0.0))
        if since <= now:
            queue.append(found)
        else:
            draft.requeue_within(since - now + GRACE)
    before = last | {request: turn.began for request, turn in turns.items()}
    return sorted(queue, key=lambda p: (p.request_id not in seen.unreached, before.get(p.request_id, 0.0), p.queue_key))


def _remains(seen: ObservedQueue, queue: list[PendingPod], now: float) -> list[Merge]:
    """Take back what is reserved for only a part of a pod's demand."""
    requests = {pod.request_id for pod in queue}
    return [
        _take_back(device, [r for r in device.status.reservations if r.request_id not in requests], now)
        for device in seen.members
        if any(r.request_id in requests and live(r, now) for r in device.status.reservations)
    ]


def _reserve(
    seen: ObservedQueue, queue: list[PendingPod], draft: PlanBuilder, now: float
) -> tuple[list[str], list[str]]:
    """Reserve for whom there is room; returns their requests, and those of pods that there was no work left for."""
    nodes = _slots(seen, now)
    there = (NodeCapacity(seen.nodes[name], s.free, sum(card.slots for card in s.cards)) for name, s in nodes.items())
    rooms = NodeCapacities(there, WORK, share=1.0)
    written: set[str] = set()
    served: list[str] = []
    for at, pod in enumerate(queue):
        room = rooms.take(pod)
        if rooms.spent:
            # One that had all of the work for itself, and not enough, had its look.
            return served, _left(seen, queue[max(1, at) :], draft)
        if room is None or room.free < pod.units:
            continue
        # A card is written once in a plan: its next version is known only afterwards.
        shares = _shares(pod, nodes[room.node.name], written, now)
        if shares is None:
            continue
        for device, slots in shares:
            entry = _reservation(pod, slots, now, seen.reservation_ttl)
            draft.add(_give(device, entry, now))
            written.add(device.name)
        served.append(pod.request_id)
    return served, []


def _left(seen: ObservedQueue, rest: list[PendingPod], draft: PlanBuilder) -> list[str]:
    """Whom the next plan begins with: who has not been looked at since all were."""
    left = [pod.request_id for pod in rest if not seen.unreached or pod.request_id in seen.unreached]
    # What changed meanwhile may be room for those that were looked at first, and nothing else brings the pool back.
    draft.requeue_within(GRACE if left else seen.unseen_ttl)
    return left


def _slots(seen: ObservedQueue, now: float) -> dict[str, NodeSlots]:
    """The nodes on which something may be free."""
    cards: dict[str, list[GPUDevice]] = defaultdict(list)
    for device in seen.members:
        cards[device.status.node_name or ""].append(device)
    pods: dict[str, list[Pod]] = defaultdict(list)
    promised = {r.request_id: d.status.node_name or "" for d in seen.members for r in d.status.reservations}
    for pod in seen.bound:
        pods[pod.node or ""].append(pod)
        elsewhere = promised.get(pod.metadata.annotations.get(names.REQUEST_ID, ""), pod.node)
        if elsewhere != pod.node:
            pods[elsewhere or ""].append(pod)  # nothing is reserved for it there any more
    return {
        name: account(
            seen.pool.name,
            node=seen.nodes[name],
            node_name=name,
            devices=devices,
            pods=pods[name],
            allocation=applied(seen.pool),
            now=now,
            tolerated=seen.tolerated,
        )
        for name, devices in cards.items()
        if name in seen.nodes and any(_may_be_free(seen, device) for device in devices)
    }


def _may_be_free(seen: ObservedQueue, device: GPUDevice) -> bool:
    """A cheap first look: a pool may have thousands of cards, nearly all of them in use."""
    status = device.status
    taken = sum(a.slots for a in status.allocations) + sum(r.slots for r in status.reservations)
    return taken < slots_of(device, applied(seen.pool))


def _shares(
    pod: PendingPod, slots: NodeSlots, written: Container[str], now: float
) -> list[tuple[GPUDevice, int]] | None:
    """Cards of a node for the pod, its own first; None where the node's cards are not enough."""

    def order(card: Card) -> tuple[bool, int, str]:
        return card.device.status.inventory_id not in pod.devices, -card.free, card.device.name

    need, shares = pod.units, []
    for card in sorted(slots.cards, key=order):
        # Reservations that ended are taken off, with an Event where they ran out, by the loop over cards.
        told = card.reserved == sum(r.slots for r in card.device.status.reservations)
        can = told and card.device.name not in written and is_allowed(facts_of(card.device, now), "reserve")
        if need and card.free and can:
            take = min(need, card.free)
            shares.append((card.device, take))
            need -= take
    return shares if need == 0 else None


def _reservation(pod: PendingPod, slots: int, now: float, ttl: float) -> Reservation:
    return Reservation(
        request_id=pod.request_id,
        namespace=pod.namespace,
        pod=pod.pod,
        slots=slots,
        since=stamp_exact(now),
        expires_at=stamp_exact(now + ttl),
        seen=True,
    )


def _give(device: GPUDevice, entry: Reservation, now: float) -> Merge:
    return _write(
        device, [*device.status.reservations, entry], project(apply_transition(facts_of(device, now), "reserve"))
    )


def _take_back(device: GPUDevice, kept: list[Reservation], now: float) -> Merge:
    return _write(device, kept, state_with(device, [r for r in kept if live(r, now)], now))


def _write(device: GPUDevice, reservations: list[Reservation], state: DeviceState) -> Merge:
    status = {"state": state, "reservations": [to_json(reservation) for reservation in reservations]}
    return Merge(ref(GPUDEVICE, device), device.metadata.resource_version, {"status": status}, "status")
