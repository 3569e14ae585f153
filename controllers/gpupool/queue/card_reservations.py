"""Reservations on the cards of a pool for pending pods: which cards, and the writes for them. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from controllers.api.gpudevice import Reservation
from controllers.api.record import to_json
from controllers.api.resources import GPUDEVICE
from controllers.domain.allocation import applied, offered_profiles
from controllers.domain.clock import stamp_exact
from controllers.domain.lifecycle import apply_transition, facts_of, is_allowed, live, project, state_with
from controllers.domain.queue.supply import node_slots, reserved_of
from controllers.domain.waiting import PLAN_WORK, NodeCapacities, NodeCapacity, PendingPod
from controllers.gpupool.queue.records import GRACE, ObservedQueue
from controllers.runtime.plan import Merge, PlanBuilder, ref

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Mapping

    from controllers.api.gpudevice import DeviceState, GPUDevice
    from controllers.domain.slots import Card, NodeSlots


WORK: Final = PLAN_WORK


def take_back(view: ObservedQueue, requests: Container[str], now: float) -> list[Merge]:
    """Take back what is reserved for these requests: a part of what the pod needs, or what it cannot use."""
    return [
        _remove_reservations(device, [r for r in device.status.reservations if r.request_id not in requests], now)
        for device in view.members
        if any(r.request_id in requests and live(r, now) for r in device.status.reservations)
    ]


@dataclass(slots=True)
class Left:
    """What a round has not given away yet."""

    nodes: Mapping[str, NodeSlots]
    """By name, those on which something may be free."""
    slots: dict[str, int]
    """Slots by node, without those that are given to pods or kept for them."""
    written: set[str]
    """Cards (by name) that the round writes: their next version is known only afterwards."""


def left_of(view: ObservedQueue, profiles: Iterable[str | None], now: float) -> dict[str | None, Left]:
    """All that the pool's nodes have free, by profile: the slots of each are given out apart from the others'."""
    written, offered = set[str](), offered_profiles(applied(view.pool))
    found: dict[str | None, Left] = {}
    for profile in profiles:
        nodes = node_slots(view, now, profile) if profile in offered else {}
        found[profile] = Left(nodes, {name: slots.free for name, slots in nodes.items()}, written)
    return found


def reserve_cards(
    view: ObservedQueue, queue: list[PendingPod], lefts: Mapping[str | None, Left], draft: PlanBuilder, now: float
) -> tuple[list[str], list[str]]:
    """Reserve for whom there is room; returns their requests, and those of pods that there was no work left for."""
    served, rest = list[str](), list[str]()
    for profile, left in lefts.items():
        found, unreached = _reserve(view, [pod for pod in queue if pod.profile == profile], left, draft, now)
        served += found
        rest += unreached
    return served, rest


def _reserve(
    view: ObservedQueue, queue: list[PendingPod], left: Left, draft: PlanBuilder, now: float
) -> tuple[list[str], list[str]]:
    """The same for pods that ask for one profile."""
    nodes, written = left.nodes, left.written
    there = (NodeCapacity(view.nodes[name], s.free, sum(card.slots for card in s.cards)) for name, s in nodes.items())
    rooms = NodeCapacities(there, WORK, share=1.0)
    served: list[str] = []
    for at, pod in enumerate(queue):
        room = rooms.take(pod)
        if rooms.spent:
            # One that had all of the work for itself, and not enough, had its look.
            left.slots = rooms.left()
            return served, _not_reached(view, queue[max(1, at) :], draft)
        if room is None or room.free < pod.units:
            continue
        # A card is written once in a plan: its next version is known only afterwards.
        shares = _choose_cards(pod, nodes[room.node.name], written, now)
        if shares is None:
            continue
        for device, slots in shares:
            entry = reservation(pod.request_id, pod.namespace, pod.pod, slots, profile=pod.profile, view=view, now=now)
            draft.add(add_reservations(device, [entry], now))
            written.add(device.name)
        served.append(pod.request_id)
    left.slots = rooms.left()
    return served, []


def _not_reached(view: ObservedQueue, rest: list[PendingPod], draft: PlanBuilder) -> list[str]:
    """Whom the next plan begins with: who has not been looked at since all were."""
    left = [pod.request_id for pod in rest if not view.unreached or pod.request_id in view.unreached]
    # What changed meanwhile may be room for those that were looked at first, and nothing else brings the pool back.
    draft.requeue_within(GRACE if left else view.unseen_ttl)
    return left


def _choose_cards(
    pod: PendingPod, slots: NodeSlots, written: Container[str], now: float
) -> list[tuple[GPUDevice, int]] | None:
    """Cards of a node for the pod, its own first; None where the node's cards are not enough."""

    def order(card: Card) -> tuple[bool, int, str]:
        return card.device.status.inventory_id not in pod.devices, -card.free, card.device.name

    need, shares = pod.units, []
    for card in sorted(slots.cards, key=order):
        # Reservations that ended are taken off, with an Event where they ran out, by the loop over cards.
        is_current = card.reserved == reserved_of(card.device, pod.profile)
        can = is_current and card.device.name not in written and is_allowed(facts_of(card.device, now), "reserve")
        if need and card.free and can:
            take = min(need, card.free)
            shares.append((card.device, take))
            need -= take
    return shares if need == 0 else None


def reservation(
    request_id: str, namespace: str, pod: str, slots: int, *, profile: str | None, view: ObservedQueue, now: float
) -> Reservation:
    """What one card is reserved for; the pod is there, so it counts as seen."""
    return Reservation(
        request_id=request_id,
        namespace=namespace,
        pod=pod,
        slots=slots,
        since=stamp_exact(now),
        expires_at=stamp_exact(now + view.reservation_ttl),
        seen=True,
        profile=profile,
    )


def add_reservations(device: GPUDevice, entries: Iterable[Reservation], now: float) -> Merge:
    """The write that reserves slots of a card."""
    state = project(apply_transition(facts_of(device, now), "reserve"))
    return _write_reservations(device, [*device.status.reservations, *entries], state)


def _remove_reservations(device: GPUDevice, kept: list[Reservation], now: float) -> Merge:
    return _write_reservations(device, kept, state_with(device, [r for r in kept if live(r, now)], now))


def _write_reservations(device: GPUDevice, reservations: list[Reservation], state: DeviceState) -> Merge:
    status = {"state": state, "reservations": [to_json(reservation) for reservation in reservations]}
    return Merge(ref(GPUDEVICE, device), device.metadata.resource_version, {"status": status}, "status")
