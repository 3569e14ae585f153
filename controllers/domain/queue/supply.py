"""What a pool has for its queue: its nodes out of cards, pods and nodes, and whether a promise still holds. Pure.

gpupool-controller counts so what it gives to the queue, and `kubectl gpu` what it explains.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Protocol

from controllers.api import names
from controllers.api.conditions import MAINTENANCE, MISCONFIGURED, is_true
from controllers.domain.accounting import account
from controllers.domain.allocation import applied, is_applied
from controllers.domain.issuing import accepts_new_pods, issuable
from controllers.domain.lifecycle import live
from controllers.domain.near import NOTHING_FREE
from controllers.domain.placement.capacity import NodeCapacity, node_capacity, without_cards
from controllers.domain.slots import NodeSlots, is_of, slots_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from controllers.api.gpudevice import GPUDevice, Reservation
    from controllers.api.gpupool import AllocationSpec, GPUPool, Toleration
    from controllers.api.kube import Node, Pod
    from controllers.domain.queue.entry import Member


COMING: Final = 2.0
"""Seconds within which the other cards of a pod that has ended are free after one of them is."""


@dataclass(frozen=True, slots=True)
class AwaitedSlots:
    """Slots of a node that are about to be free."""

    slots: int
    until: float
    """Epoch seconds up to which they are waited for."""


class PoolObjects(Protocol):
    """A pool with all that its free slots depend on."""

    @property
    def pool(self) -> GPUPool:
        """The pool."""

    @property
    def members(self) -> tuple[GPUDevice, ...]:
        """Its cards."""

    @property
    def nodes(self) -> Mapping[str, Node]:
        """The nodes of its cards, by name."""

    @property
    def bound(self) -> tuple[Pod, ...]:
        """Pods that are on a node and hold cards of the pool."""

    @property
    def tolerated(self) -> tuple[Toleration, ...]:
        """What the pool's pods tolerate."""


def reserves_now(pool: GPUPool) -> bool:
    """Whether the pool promises cards now; Maintenance waits until none is promised."""
    conditions = pool.status.conditions
    changes = pool.status.applied_allocation is not None and not is_applied(pool)
    closed = changes or is_true(conditions, MAINTENANCE) or is_true(conditions, MISCONFIGURED)
    return pool.metadata.deletion_timestamp is None and not closed


def node_slots(seen: PoolObjects, now: float, profile: str | None = None) -> dict[str, NodeSlots]:
    """By name, the nodes on which something may be free; of one profile, where one is named."""
    allocation = applied(seen.pool)
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
            allocation=allocation,
            now=now,
            tolerated=seen.tolerated,
            profile=profile,
        )
        for name, devices in cards.items()
        if name in seen.nodes and any(_may_be_free(device, allocation, profile, now) for device in devices)
    }


def _may_be_free(device: GPUDevice, allocation: AllocationSpec, profile: str | None, now: float) -> bool:
    """A cheap first look: a pool may have thousands of cards, nearly all of them in use."""
    taken, size = 0, slots_of(device, allocation, profile)
    for one in device.status.allocations:
        if is_of(profile, one.profile):
            taken += one.slots
    if taken >= size:
        return False
    for promise in device.status.reservations:
        if is_of(profile, promise.profile) and live(promise, now):
            taken += promise.slots
    return taken < size


def capacities(
    seen: PoolObjects,
    slots: Mapping[str, NodeSlots],
    free: Mapping[str, int],
    written: Collection[str] = (),
    profile: str | None = None,
) -> Iterator[NodeCapacity]:
    """What each node of the pool has for the queue.

    `slots`: those on which something may be free; `free`: what is left of them by node, after pods that come before
    the queue; `written`: names of cards that are being written, and cannot be given now; `profile`: what was counted.
    """
    totals: Counter[str] = Counter()
    allocation = applied(seen.pool)
    for device in seen.members:
        totals[device.status.node_name or ""] += slots_of(device, allocation, profile)
    for name, total in totals.items():
        if name in seen.nodes and name not in slots:
            yield NodeCapacity(seen.nodes[name], NodeSlots(name, ()), (), 0, total, total, 0, {}, NOTHING_FREE)
    for name, here in slots.items():
        capacity = node_capacity(seen.nodes[name], here, {})
        # Reservations that have ended are taken off, with an Event where they ran out, by the loop over cards.
        stale = {
            card.device.name
            for card in here.cards
            if card.device.name in written or card.reserved != reserved_of(card.device, profile)
        }
        if stale:
            (capacity,) = without_cards((capacity,), stale)
        yield replace(capacity, free=min(capacity.free, free.get(name, 0)))


def slots_coming(
    seen: PoolObjects, came_free_at: Mapping[str, float], now: float, profile: str | None = None
) -> dict[str, AwaitedSlots]:
    """By node, slots of pods that have ended and of which kubelet has yet to say that it has them back.

    `came_free_at`: by node, when a card of it came free, in epoch seconds: what has not followed soon does not count.
    """
    until = {name: at + COMING for name, at in came_free_at.items() if at <= now < at + COMING}
    if not until:
        return {}
    running = {pod.metadata.uid for pod in seen.bound if not pod.finished}
    found: Counter[str] = Counter()
    for device in seen.members:
        if (name := device.status.node_name or "") in until and issuable(device, seen.pool.name):
            gone = (each for each in device.status.allocations if each.pod_uid not in running)
            found[name] += sum(each.slots for each in gone if is_of(profile, each.profile))
    return {name: AwaitedSlots(slots, until[name]) for name, slots in found.items() if slots}


def reserved_of(device: GPUDevice, profile: str | None) -> int:
    """Slots that a card's reservations name, ended ones too; of one profile, where one is named."""
    return sum(each.slots for each in device.status.reservations if is_of(profile, each.profile))


def suffices(seen: PoolObjects, member: Member, reserved: Iterable[tuple[GPUDevice, Reservation]]) -> bool:
    """Whether live reservations are all that the pod needs, on one node, which gives its cards."""
    found = list(reserved)
    nodes = {device.status.node_name or "" for device, _ in found}
    return (
        sum(each.slots for _, each in found) >= member.units
        and len(nodes) == 1
        and all(accepts_new_pods(seen.nodes.get(node)) for node in nodes)
        and all(issuable(device, seen.pool.name) for device, _ in found)
    )
