"""What the cards of one pool on one node hold, and what is free.

The webhook places by it and the pool controller reports by it, so that a pod is never
admitted to a slot that the pool's status does not have.

A slot is taken by an allocation (what kubelet reported), by a bound pod that kubelet has not
reported yet, or by a live reservation of a pod that is not bound. A bound pod that is not
reported takes the cards that its annotation names, or else the first that are free: kubelet
may decide differently, but the number is right.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from controllers.api import names
from controllers.api.conditions import FAULTED, IGNORED, INVENTORY_INCOMPLETE, MANAGED_DISABLED, is_true
from controllers.domain.lifecycle import live
from controllers.domain.request import units_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from controllers.api.gpudevice import GPUDevice
    from controllers.api.gpupool import AllocationSpec
    from controllers.api.kube import Node, Pod

BLOCKING = (FAULTED, IGNORED, MANAGED_DISABLED, INVENTORY_INCOMPLETE)
"""Conditions of a card that keep it from being pooled, offered and issued."""


@dataclass(frozen=True, slots=True)
class Card:
    """One card of a pool."""

    device: GPUDevice
    slots: int
    used: int
    reserved: int
    issuable: bool

    @property
    def free(self) -> int:
        """Slots that a new pod can get."""
        return max(0, self.slots - self.used - self.reserved) if self.issuable else 0

    @property
    def displaced(self) -> int:
        """Reserved slots that kubelet gave to another pod."""
        return min(self.reserved, max(0, self.used + self.reserved - self.slots))

    @property
    def unavailable(self) -> int:
        """Unused slots that cannot be issued now."""
        return 0 if self.issuable else max(0, self.slots - self.used - self.reserved)


@dataclass(frozen=True, slots=True)
class NodeSlots:
    """The cards of one pool on one node."""

    node: str
    cards: tuple[Card, ...]
    overflow: int = 0
    """Slots of bound pods beyond what the cards have: kubelet gave what we do not know of."""

    @property
    def displaced(self) -> int:
        """Reserved slots that kubelet gave to another pod: each needs another card of the node."""
        return sum(card.displaced for card in self.cards)

    @property
    def free(self) -> int:
        """Slots that new pods can get on this node."""
        return max(0, sum(card.free for card in self.cards) - self.overflow - self.displaced)


def slots_of(device: GPUDevice, allocation: AllocationSpec) -> int:
    """Slots of a card under an allocation: what its plugin offers, or will offer."""
    published = device.status.published
    if published is not None:
        return published.slots
    if allocation.mode == "TimeSlice":
        return allocation.time_slice.max_slices_per_device if allocation.time_slice else 8
    return 1


def issuable(device: GPUDevice, pool: str, node: Node | None) -> bool:
    """Whether the card can be given to a new pod of the pool now."""
    status = device.status
    blocked = any(is_true(status.conditions, kind) for kind in BLOCKING)
    return (
        not blocked
        and status.pool_ref is not None
        and status.pool_ref.name == pool
        and status.published is not None
        and status.published.pool == pool
        and device.metadata.annotations.get(names.ASSIGNMENT) == pool
        and node is not None
        and node.ready
        and not node.spec.unschedulable
    )


def named_devices(pod: Pod) -> tuple[str, ...]:
    """The inventoryIDs that the webhook wrote on the pod."""
    return tuple(part for part in pod.metadata.annotations.get(names.DEVICES, "").split(",") if part)


def account(
    pool: str,
    *,
    node: Node | None,
    node_name: str,
    devices: Iterable[GPUDevice],
    pods: Iterable[Pod],
    allocation: AllocationSpec,
    now: float,
) -> NodeSlots:
    """Count one node. `devices`: the pool's cards there; `pods`: the pool's pods bound there.

    Pods bound elsewhere may be among them: what was reserved for them here is reserved no more.
    """
    cards = sorted(devices, key=lambda device: device.name)
    placed = [pod for pod in pods if pod.node is not None]
    bound = [pod for pod in placed if pod.node == node_name and not pod.finished]
    requests = {pod.metadata.annotations.get(names.REQUEST_ID) for pod in placed} - {None}
    sizes = {card.name: slots_of(card, allocation) for card in cards}
    used: Counter[str] = Counter()
    reported: set[str] = set()
    for card in cards:
        for taken in card.status.allocations:
            used[card.name] += taken.slots
            reported.add(taken.pod_uid)
    overflow = 0
    for pod in sorted(bound, key=lambda pod: pod.key):
        if pod.metadata.uid not in reported:
            overflow += _place(pod, units_of(pod, pool), cards, sizes, used)
    reserved = {
        card.name: sum(r.slots for r in card.status.reservations if live(r, now) and r.request_id not in requests)
        for card in cards
    }
    return NodeSlots(
        node_name,
        tuple(
            Card(card, sizes[card.name], used[card.name], reserved[card.name], issuable(card, pool, node))
            for card in cards
        ),
        overflow,
    )


def _place(pod: Pod, units: int, cards: list[GPUDevice], sizes: dict[str, int], used: Counter[str]) -> int:
    """Count a pod that kubelet has not reported on the likeliest cards; returns what does not fit."""
    wanted = named_devices(pod)
    # Kubelet cannot have given a card that was not offered.
    for card in sorted(cards, key=lambda c: (c.status.inventory_id not in wanted, c.status.published is None)):
        take = min(units, max(0, sizes[card.name] - used[card.name]))
        used[card.name] += take
        units -= take
    return units
