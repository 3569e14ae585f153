"""Pods with our scheduling gate: who of them is served now, and why the others wait (docs/dev/design.md, Queue). Pure.

Waiting  only our gate, and no promise    → Promised, when the order comes to it and a node has its cards
Promised reservations for all it needs    → Released, by the patch that takes the gate off; taken back where a card of
                                            them cannot be given any more, or the pool closes
Released no gate                          → bound by the scheduler; its reservation ends as any (`reservations`)

All cards are written before the pod is, so any prefix is safe: a promise without its release is released by the next
round, or taken back.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from controllers.domain.lifecycle import live
from controllers.domain.placement.choice import policy_of as placement_of
from controllers.domain.queue.entry import Entry, queue_entry
from controllers.domain.queue.gates import is_queued
from controllers.domain.queue.order import in_order
from controllers.domain.queue.policy import policy_of
from controllers.domain.queue.serve import Decision, Walk
from controllers.domain.queue.supply import capacities, suffices
from controllers.domain.queue.usage import used_by_namespace
from controllers.domain.request import units_of
from controllers.gpupool.queue.card_reservations import add_reservations, reservation, take_back
from controllers.gpupool.queue.queue_status import queue_status
from controllers.gpupool.queue.records import Promise
from controllers.gpupool.queue.release import release
from controllers.gpupool.queue.waits import Wait
from controllers.runtime.plan import PlanBuilder

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from controllers.api.gpudevice import GPUDevice, Reservation
    from controllers.api.queue import QueueStatus
    from controllers.api.tenant import TenantPod
    from controllers.gpupool.queue.card_reservations import Left
    from controllers.gpupool.queue.records import ObservedQueue, ReservationsByRequest
    from controllers.runtime.plan import JSONPatch, Merge


@dataclass(frozen=True, slots=True)
class Queue:
    """The pods with our gate that wait for cards of a pool."""

    pods: Mapping[str, TenantPod]
    """By key."""
    waiting: tuple[Entry, ...]
    promised: tuple[Entry, ...]
    """Those whose reservations suffice, on cards that can be given."""
    torn: frozenset[str]
    """Requests whose reservations do not."""
    waits: dict[str, Wait]
    """By key, of those that are no entries now."""


def read_queue(view: ObservedQueue, by_request: ReservationsByRequest, now: float) -> Queue:
    """Tell the pool's queued pods apart."""
    pods = {pod.key: pod for pod in view.unbound if is_queued(pod)}
    waiting, promised, torn, waits = list[Entry](), list[Entry](), set[str](), dict[str, Wait]()
    for key, pod in pods.items():
        entry = queue_entry(pod, view.pool.name, view.tolerated)
        if entry is None:
            waits[key] = Wait("OtherGates", units_of(pod, view.pool.name))
            continue
        reserved = [found for found in by_request.get(entry.request_id, ()) if live(found[1], now)]
        if entry.request_id in view.denied:
            waits[key] = Wait("ReleaseDenied", entry.units, view.denied[entry.request_id])
        elif reserved and suffices(view, entry, reserved):
            promised.append(entry)
            continue
        else:
            waiting.append(entry)
        if reserved:
            torn.add(entry.request_id)
    return Queue(pods, tuple(waiting), tuple(promised), frozenset(torn), waits)


def close(view: ObservedQueue, queue: Queue, now: float) -> tuple[list[Merge], dict[str, Wait]]:
    """What a pool that gives no cards takes back of its queue, and why the pods wait."""
    entries = (*queue.waiting, *queue.promised)
    waits = queue.waits | {entry.key: Wait("PoolClosed", entry.units) for entry in entries}
    return take_back(view, {*queue.torn, *(entry.request_id for entry in queue.promised)}, now), waits


def release_promised(view: ObservedQueue, queue: Queue, by_request: ReservationsByRequest) -> list[Promise]:
    """Release those whose cards are reserved already: whoever reserved them did not come to it."""
    found: list[Promise] = []
    for entry in queue.promised:
        cards = sorted((device for device, _ in by_request[entry.request_id]), key=lambda device: device.name)
        draft = PlanBuilder()
        draft.add(_release(view, queue.pods[entry.key], cards))
        found.append(Promise((entry.key,), (entry.request_id,), draft.build()))
    return found


@dataclass(frozen=True, slots=True)
class Served:
    """What a walk over the queue came to."""

    promises: tuple[Promise, ...]
    waits: Mapping[str, Wait]
    """By key: why those wait that are not served."""
    status: QueueStatus | None
    next_hold: float
    """Epoch seconds from which on time alone can change what is decided."""


def serve(view: ObservedQueue, queue: Queue, left: Left, now: float) -> Served:
    """Serve the queue in its order with what is left."""
    policy = policy_of(view.pool)
    used = used_by_namespace(view.pool.name, view.members, view.bound, now)
    ranked = in_order(queue.waiting, used, policy)
    there = capacities(view, left.nodes, left.free, left.written)
    walk = Walk(view.pool.name, there, policy, placement_of(view.pool, view.scheduling), now)
    placed, waits, rest = list[Decision](), dict[str, Wait](), list[Entry]()
    for each in ranked:
        decision = walk.decide(each)
        if decision.placement is not None:
            placed.append(decision)
            continue
        limit = policy.share(each.entry.namespace).limit
        detail = f" ({limit}, spec.queue.namespaces)" if decision.reason == "OverLimit" else ""
        waits[each.entry.key] = Wait(decision.reason, each.entry.units, detail)
        rest.append(each.entry)
    status = queue_status(rest, waits, used)
    return Served(tuple(_promises(view, queue, placed, now)), waits, status, walk.next_hold)


def _promises(view: ObservedQueue, queue: Queue, placed: Iterable[Decision], now: float) -> list[Promise]:
    """The writes: entries that share a card are one promise, since a card is written once in a round."""
    groups: list[list[Decision]] = []
    group_of: dict[str, list[Decision]] = {}
    for decision in placed:
        if decision.placement is None:
            continue
        cards = [share.device.name for share in decision.placement.shares]
        joined = [decision]
        for group in {id(group_of[card]): group_of[card] for card in cards if card in group_of}.values():
            joined = group + joined
            groups.remove(group)
        groups.append(joined)
        for member in joined:
            group_of.update((share.device.name, joined) for share in (member.placement or decision.placement).shares)
    return [_promise(view, queue, group, now) for group in groups]


def _promise(view: ObservedQueue, queue: Queue, group: list[Decision], now: float) -> Promise:
    draft = PlanBuilder()
    devices: dict[str, GPUDevice] = {}
    entries: dict[str, list[Reservation]] = defaultdict(list)
    for decision in group:
        for share in decision.placement.shares if decision.placement is not None else ():
            pod = queue.pods[decision.entry.key].metadata
            devices[share.device.name] = share.device
            entries[share.device.name].append(
                reservation(decision.entry.request_id, pod.namespace or "", pod.name, share.slots, view=view, now=now)
            )
    for name, device in devices.items():
        draft.add(replace(add_reservations(device, entries[name], now), parallel_safe=True))
    # Another kind of write ends the group of parallel ones: no pod is released before all cards are written.
    for decision in group:
        if decision.placement is not None:
            cards = [share.device for share in decision.placement.shares]
            draft.add(replace(_release(view, queue.pods[decision.entry.key], cards), parallel_safe=False))
    return Promise(
        tuple(decision.entry.key for decision in group),
        tuple(decision.entry.request_id for decision in group),
        draft.build(),
    )


def _release(view: ObservedQueue, pod: TenantPod, cards: list[GPUDevice]) -> JSONPatch:
    devices = ",".join(card.status.inventory_id or card.name for card in cards)
    return release(pod, cards[0].status.node_name or "", devices, view.tolerated)
