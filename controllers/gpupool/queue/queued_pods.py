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
from math import inf
from typing import TYPE_CHECKING

from controllers.api import names
from controllers.domain.lifecycle import live
from controllers.domain.placement.choice import policy_of as placement_of
from controllers.domain.queue.entry import Entry, Member
from controllers.domain.queue.gates import is_queued
from controllers.domain.queue.order import in_order
from controllers.domain.queue.policy import policy_of
from controllers.domain.queue.serve import Decision, Walk
from controllers.domain.queue.supply import capacities, slots_coming, suffices
from controllers.domain.queue.usage import used_by_namespace
from controllers.domain.queue.whole_gangs import group_gangs
from controllers.domain.request import units_of
from controllers.gpupool.queue.card_reservations import add_reservations, reservation, take_back
from controllers.gpupool.queue.numbers import QueueNumbers
from controllers.gpupool.queue.queue_status import queue_status
from controllers.gpupool.queue.records import Promise
from controllers.gpupool.queue.release import release
from controllers.gpupool.queue.scale_up import scale_up
from controllers.gpupool.queue.wait import Wait
from controllers.runtime.plan import PlanBuilder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

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
    reasons: dict[str, Wait]
    """By key, of those that are no entries now."""


def read_queue(view: ObservedQueue, by_request: ReservationsByRequest, now: float) -> Queue:
    """Tell the pool's queued pods apart."""
    pods = {pod.key: pod for pod in view.unbound if is_queued(pod)}
    entries, reasons = list[Entry](), dict[str, Wait]()
    for pod, entry in view.entries.of(pods, view.pool.name, view.tolerated):
        if entry is None:
            reasons[pod.key] = Wait("OtherGates", units_of(pod, view.pool.name))
        elif (said := view.denied.get(entry.members[0].request_id)) is not None:
            reasons[pod.key] = Wait("ReleaseDenied", entry.units, said)
        else:
            entries.append(entry)
    whole, incomplete = group_gangs(pods, (*view.unbound, *view.bound), entries)
    units = {entry.key: entry.units for entry in entries}
    reasons |= {key: Wait("WaitingForGang", units[key], detail) for key, detail in incomplete.items()}
    waiting, promised = list[Entry](), list[Entry]()
    for entry in whole:
        if by_request and all(_is_promised(view, member, by_request, now) for member in entry.members):
            promised.append(entry)
        else:
            waiting.append(entry)
    torn = {request for request, found in by_request.items() if any(live(each, now) for _, each in found)}
    torn -= {member.request_id for entry in promised for member in entry.members}
    if torn:
        torn &= {pod.metadata.annotations.get(names.REQUEST_ID, "") for pod in pods.values()}
    return Queue(pods, tuple(waiting), tuple(promised), frozenset(torn), reasons)


def _is_promised(view: ObservedQueue, member: Member, by_request: ReservationsByRequest, now: float) -> bool:
    return suffices(view, member, [one for one in by_request.get(member.request_id, ()) if live(one[1], now)])


def close(view: ObservedQueue, queue: Queue, now: float) -> tuple[list[Merge], dict[str, Wait]]:
    """What a pool that gives no cards takes back of its queue, and why the pods wait."""
    members = [member for entry in (*queue.waiting, *queue.promised) for member in entry.members]
    reasons = queue.reasons | {member.key: Wait("PoolClosed", member.units) for member in members}
    return take_back(view, {*queue.torn, *(member.request_id for member in members)}, now), reasons


def release_promised(view: ObservedQueue, queue: Queue, by_request: ReservationsByRequest) -> list[Promise]:
    """Release those whose cards are reserved already: whoever reserved them did not come to it."""
    found: list[Promise] = []
    for entry in queue.promised:
        draft = PlanBuilder()
        for member in entry.members:
            cards = sorted((device for device, _ in by_request[member.request_id]), key=lambda device: device.name)
            draft.add(_release(view, queue.pods[member.key], cards))
        found.append(_promise(entry.members, draft))
    return found


@dataclass(frozen=True, slots=True)
class QueueRound:
    """What a walk over the queue came to."""

    promises: tuple[Promise, ...]
    reasons: Mapping[str, Wait]
    """By key: why those wait that are not served."""
    status: QueueStatus | None
    next_look: float
    """Epoch seconds from which on time alone can change what is decided."""
    numbers: Callable[[str], str]
    """By a pod's key: what the pool is to it in numbers."""


def serve(
    view: ObservedQueue,
    queue: Queue,
    by_request: ReservationsByRequest,
    lefts: Mapping[str | None, Left],
    now: float,
) -> QueueRound:
    """Serve the queue in its order with what is left of each profile."""
    policy, placement = policy_of(view.pool), placement_of(view.pool, view.scheduling)
    used = used_by_namespace(view.pool.name, view.members, view.bound, now)
    walks = {
        profile: Walk(
            view.pool.name,
            capacities(view, left.nodes, left.slots, left.written, profile),
            policy,
            placement,
            now,
            coming=slots_coming(view, view.came_free_at, now, profile),
        )
        for profile, left in lefts.items()
    }
    placed, waiting, reasons = list[Decision](), list[Decision](), dict[str, Wait]()
    for each in in_order(queue.waiting, used, policy):
        decision = walks[each.entry.profile].decide(each)
        if decision.placements:
            placed.append(decision)
            continue
        for member in each.entry.members:
            reasons[member.key] = Wait(decision.outcome, member.units, unlooked=decision.unlooked)
        waiting.append(decision)
    status = queue_status([decision.entry for decision in waiting])
    let_go, again = scale_up(view, waiting, queue.pods, by_request, now)
    next_look = min((walk.next_look for walk in walks.values()), default=inf)
    next_look = next_look if again is None else min(next_look, now + again)
    numbers = _numbers(view, lefts, walks, waiting, now)
    return QueueRound((*_promises(view, queue, placed, now), *let_go), reasons, status, next_look, numbers)


def _numbers(
    view: ObservedQueue,
    lefts: Mapping[str | None, Left],
    walks: Mapping[str | None, Walk],
    waiting: Iterable[Decision],
    now: float,
) -> Callable[[str], str]:
    """By a pod's key, what the pool is to it in numbers; each profile was walked apart from the others."""
    left_over: dict[str | None, list[Decision]] = defaultdict(list)
    profile_of: dict[str, str | None] = {}
    for each in waiting:
        left_over[each.entry.profile].append(each)
        profile_of |= dict.fromkeys((member.key for member in each.entry.members), each.entry.profile)
    found = {
        profile: QueueNumbers(view, lefts[profile].nodes, walk, left_over[profile], now, profile=profile)
        for profile, walk in walks.items()
    }
    return lambda key: found[profile_of[key]].spelled(key) if key in profile_of else ""


def _promises(view: ObservedQueue, queue: Queue, placed: Iterable[Decision], now: float) -> list[Promise]:
    """The writes: entries that share a card are one promise, since a card is written once in a round."""
    groups: list[list[Decision]] = []
    group_of: dict[str, list[Decision]] = {}
    for decision in placed:
        cards = [share.device.name for _, placement in decision.placements for share in placement.shares]
        joined = [decision]
        for group in {id(group_of[card]): group_of[card] for card in cards if card in group_of}.values():
            joined = group + joined
            groups = [other for other in groups if other is not group]
        groups.append(joined)
        for member in joined:
            for _, placement in member.placements:
                group_of.update((share.device.name, joined) for share in placement.shares)
    return [_reserve_and_release(view, queue, group, now) for group in groups]


def _reserve_and_release(view: ObservedQueue, queue: Queue, group: list[Decision], now: float) -> Promise:
    """First all cards, then the pods."""
    draft, placements = PlanBuilder(), [each for decision in group for each in decision.placements]
    devices: dict[str, GPUDevice] = {}
    entries: dict[str, list[Reservation]] = defaultdict(list)
    for member, placement in placements:
        pod = queue.pods[member.key].metadata
        for share in placement.shares:
            devices[share.device.name] = share.device
            entries[share.device.name].append(
                reservation(
                    member.request_id,
                    pod.namespace or "",
                    pod.name,
                    share.slots,
                    profile=member.profile,
                    view=view,
                    now=now,
                )
            )
    for name, device in devices.items():
        draft.add(replace(add_reservations(device, entries[name], now), parallel_safe=True))
    for member, placement in placements:
        # Not with the writes above: no pod goes on before all cards of its gang are written.
        cards = [share.device for share in placement.shares]
        draft.add(replace(_release(view, queue.pods[member.key], cards), parallel_safe=False))
    return _promise([member for member, _ in placements], draft)


def _promise(members: Iterable[Member], draft: PlanBuilder) -> Promise:
    found = tuple(members)
    return Promise(tuple(member.key for member in found), tuple(member.request_id for member in found), draft.build())


def _release(view: ObservedQueue, pod: TenantPod, cards: list[GPUDevice]) -> JSONPatch:
    devices = ",".join(card.status.inventory_id or card.name for card in cards)
    return release(pod, cards[0].status.node_name or "", devices, view.tolerated)
