"""Slots of one pool on one node: total, allocated, reserved and free.

The webhook places by it and the pool controller reports by it, so that a pod is never
admitted to a slot that the pool's status does not have.

A slot is taken by an allocation (what kubelet reported), by a bound pod as far as kubelet has
not reported it yet (cards are reported one by one), or by a live reservation of a pod that is
not bound. What is not reported takes the cards that the pod's annotation names, or else the
first that are free: kubelet may decide differently, but the number is right.

Of what is left no more is free than the Node's own `allocatable` has room for: schedulers go by that.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Literal, NamedTuple, cast

from controllers.api import formerly, names
from controllers.api.conditions import FAULTED, IGNORED, INVENTORY_INCOMPLETE, MANAGED_DISABLED
from controllers.domain.allocation import slots_under, suffixes
from controllers.domain.lifecycle import live
from controllers.domain.request import suffix_for, units_of, whole
from controllers.domain.taints import keeps_off

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from controllers.api.gpudevice import GPUDevice, Offer, Published
    from controllers.api.gpupool import AllocationSpec, Toleration
    from controllers.api.kube import Node, Pod
    from controllers.api.meta import Condition

BLOCKING = (FAULTED, IGNORED, MANAGED_DISABLED, INVENTORY_INCOMPLETE)
"""Conditions of a card that keep it from being pooled, offered and issued."""
Withheld = Literal[
    "OtherPool", "Leaving", "Ignored", "Faulted", "ManagedDisabled", "InventoryIncomplete", "NotPublished"
]
"""Why a card cannot be given, which its object alone says; the first that holds in this order."""
NotIssued = Literal[Withheld, "ForeignUsers"]
"""Why a new pod cannot get it; last, that pods have it by another program's resource."""


class Card(NamedTuple):
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
        """Slots that are used or promised beyond what the card has.

        Kubelet gave a reserved slot to another pod, or the plugin offers fewer than before.
        """
        return max(0, self.used + self.reserved - self.slots)

    @property
    def unavailable(self) -> int:
        """Unused slots that cannot be issued now."""
        return 0 if self.issuable else max(0, self.slots - self.used - self.reserved)


@dataclass(frozen=True)
class NodeSlots:
    """The cards of one pool on one node. What it adds up it adds up once: several ask for each node of a pool."""

    node: str
    cards: tuple[Card, ...]
    overflow: int = 0
    """Slots of bound pods beyond what the cards have: kubelet gave what we do not know of."""
    allocatable: int | None = None
    """Slots that the Node offers to schedulers, used or not; None where it tells nothing of the kind."""

    @cached_property
    def displaced(self) -> int:
        """Slots that the cards do not have: each needs another card of the node, and the scheduler counts it there."""
        return sum(card.displaced for card in self.cards)

    @cached_property
    def taken(self) -> int:
        """Slots that pods have or are promised."""
        return sum(card.used + card.reserved for card in self.cards) + self.overflow

    @cached_property
    def free(self) -> int:
        """Slots that new pods can get on this node."""
        return self.offered(self._idle, self.taken)

    @property
    def hidden(self) -> int:
        """Slots that the cards have to give, and that the Node does not offer: no scheduler would find them."""
        return self._idle - self.free

    @property
    def unshown(self) -> int:
        """Slots of those hidden that kubelet has yet to show.

        The others stand behind pods on cards that no plugin offers now: schedulers count these too, until they end.
        """
        beside = sum(card.used + card.reserved for card in self.cards if card.device.status.published is None)
        return self._idle - self.offered(self._idle, self.taken - beside)

    @cached_property
    def _idle(self) -> int:
        return max(0, sum(card.free for card in self.cards) - self.overflow - self.displaced)

    def offered(self, free: int, taken: int) -> int:
        """So many of the `free` slots as the Node offers beside those `taken`: what the scheduler will count.

        Kubelet shows a plugin's cards with its next status update, up to ten seconds after it has acknowledged them.
        """
        return free if self.allocatable is None else max(0, min(free, self.allocatable - taken))


def slots_of(device: GPUDevice, allocation: AllocationSpec, profile: str | None = None) -> int:
    """Slots of a card under the layout that its pool's nodes are configured for; of one profile, where one is named.

    Never more than its plugin offers, nor than the layout has: a plugin that is behind may still offer the card as
    it was before a reconfiguration, and nobody is to be admitted to what is about to go.
    """
    intended, published = slots_under(device, allocation, profile), device.status.published
    return intended if published is None else min(intended, offered_slots(published, profile))


def offered_slots(published: Published, profile: str | None = None) -> int:
    """Slots that a card's plugin offers; of one profile, where one is named."""
    if profile is None:
        return published.slots
    return sum(each.slots for each in published.profiles or () if each.profile == profile)


def blocked_by(device: GPUDevice) -> Condition | None:
    """The condition that keeps the card from being pooled, offered and issued; the first where there are several."""
    if not device.status.conditions:
        return None  # nearly all: this is asked several times for every card of a pool
    found = [c for c in device.status.conditions if c.status == "True" and c.type in BLOCKING]
    return min(found, key=lambda c: BLOCKING.index(c.type), default=None)


def gives(node: Node | None) -> bool:
    """Whether a node gives its cards to anybody new."""
    return node is not None and node.ready and not node.spec.unschedulable


def withheld(device: GPUDevice, pool: str) -> Withheld | None:
    """Why a pool cannot give the card to anybody, whoever has it and wherever its node is; None where nothing does."""
    status = device.status
    if status.pool_ref is None or status.pool_ref.name != pool:
        return "OtherPool"
    if device.metadata.annotations.get(names.ASSIGNMENT) != pool:
        return "Leaving"
    if (blocking := blocked_by(device)) is not None:
        return cast("Withheld", blocking.type)
    return None if is_offered(device, pool) else "NotPublished"


def not_issued(device: GPUDevice, pool: str) -> NotIssued | None:
    """Why a new pod of the pool cannot get the card now, wherever its node is; None where it can.

    What people are shown of a card goes by it, so that no page calls a card free that nobody can get.
    """
    return withheld(device, pool) or ("ForeignUsers" if device.status.foreign_allocations else None)


def issuable(device: GPUDevice, pool: str) -> bool:
    """Whether the card can be given to a new pod of the pool now, where its node `gives`."""
    return not_issued(device, pool) is None


def is_offered(device: GPUDevice, pool: str) -> bool:
    """Whether a plugin offers the card for the pool, and is to go on with it.

    One that was told to offer it no more, and has not answered, may be as far gone as its node.
    """
    published = device.status.published
    return published is not None and published.pool == pool and offer_of(device) != "AwaitingWithdrawal"


def offer_of(device: GPUDevice) -> Offer | None:
    """What its pool says last of the card's offer; None before it has said anything."""
    return device.status.offer or formerly.offer(device.status)


def named_devices(pod: Pod) -> tuple[str, ...]:
    """The inventoryIDs that the webhook wrote on the pod."""
    return tuple(part for part in pod.metadata.annotations.get(names.DEVICES, "").split(",") if part)


def named_nodes(pod: Pod) -> set[str]:
    """The nodes of these cards: an inventoryID ends in the card's PCI address, which has no hyphen."""
    return {name.rpartition("-")[0] for name in named_devices(pod)}


def reported(cards: Iterable[GPUDevice]) -> Counter[tuple[str | None, str]]:
    """Slots that kubelet has reported, by node and uid of the pod: no node speaks for another one's pods."""
    told: Counter[tuple[str | None, str]] = Counter()
    for card in cards:
        for taken in card.status.allocations:
            told[card.status.node_name, taken.pod_uid] += taken.slots
    return told


def _given(
    cards: Iterable[GPUDevice], allocation: AllocationSpec, profile: str | None
) -> tuple[Counter[str], Counter[str], Counter[str]]:
    """Slots that kubelet has given, by card and by the pod's uid: of no card more than it can have; and what is beyond.

    That is by the pod's uid: where a pod is bound there it does hold the slot, and no card of ours has it.
    """
    used: Counter[str] = Counter()
    told: Counter[str] = Counter()
    beyond: Counter[str] = Counter()
    for card in cards:
        published = card.status.published
        offered = offered_slots(published, profile) if published is not None else 0
        room = max(slots_under(card, allocation, profile), offered)
        for taken in card.status.allocations:
            if not is_of(profile, taken.profile):
                continue
            counted = min(taken.slots, room - used[card.name])
            used[card.name] += counted
            told[taken.pod_uid] += counted
            beyond[taken.pod_uid] += taken.slots - counted
    return used, told, beyond


def account(
    pool: str,
    *,
    node: Node | None,
    node_name: str,
    devices: Iterable[GPUDevice],
    pods: Iterable[Pod],
    allocation: AllocationSpec,
    now: float,
    tolerated: Collection[Toleration] = (),
    profile: str | None = None,
) -> NodeSlots:
    """Count one node. `devices`: the pool's cards there; `pods`: the pool's pods bound there.

    `profile`: count the slots of this one alone, in a mixed layout: they are given and promised apart from the others.

    `tolerated` is what the pool's pods tolerate (`taints.tolerations`): a node that is closed to them gives nothing.
    Pods bound elsewhere may be among them: what was reserved for them here is reserved no more.
    """
    cards = sorted(devices, key=lambda device: device.name)
    placed = [pod for pod in pods if pod.node is not None]
    bound = [pod for pod in placed if pod.node == node_name and not pod.finished]
    requests = {pod.metadata.annotations.get(names.REQUEST_ID) for pod in placed} - {None}
    sizes = {card.name: slots_of(card, allocation, profile) for card in cards}
    used, told, beyond = _given(cards, allocation, profile)
    overflow = 0
    for pod in sorted(bound, key=lambda pod: pod.key):
        lacking = max(0, units_of(pod, pool, profile) - told[pod.metadata.uid])
        cut = min(lacking, beyond[pod.metadata.uid])
        overflow += cut
        if lacking > cut:
            overflow += _place(pod, lacking - cut, cards, sizes, used)
    given = node is not None and gives(node) and keeps_off(node, tolerated) is None
    reserved = {
        card.name: sum(
            r.slots
            for r in card.status.reservations
            if live(r, now) and r.request_id not in requests and is_of(profile, r.profile)
        )
        if card.status.reservations
        else 0
        for card in cards
    }
    return NodeSlots(
        node_name,
        tuple(
            Card(card, sizes[card.name], used[card.name], reserved[card.name], given and issuable(card, pool))
            for card in cards
        ),
        overflow,
        _allocatable(pool, profile, node, allocation),
    )


def is_of(profile: str | None, said: str | None) -> bool:
    """Whether slots that are `said` to be of a profile count where one is asked about; None asks about all."""
    return profile is None or said == profile


def _allocatable(pool: str, profile: str | None, node: Node | None, allocation: AllocationSpec) -> int | None:
    """What the Node shows of a pool's resources: 0 where it shows others alone; None where it shows nothing at all."""
    if node is None or not node.status.allocatable:
        return None
    found = suffixes(pool, allocation) if profile is None else (suffix_for(pool, profile),)
    try:
        return sum(whole(node.status.allocatable.get(names.resource_name(suffix), 0)) for suffix in found)
    except ValueError:
        return 0


def _place(pod: Pod, units: int, cards: list[GPUDevice], sizes: dict[str, int], used: Counter[str]) -> int:
    """Count what kubelet has not reported of a pod on the likeliest cards; returns what does not fit."""
    # The webhook fills one card after the other and names them in that order.
    wanted = {name: at for at, name in enumerate(named_devices(pod))}

    def likely(card: GPUDevice) -> tuple[int, bool]:
        # Kubelet cannot have given a card that was not offered.
        return wanted.get(card.status.inventory_id or "", len(wanted)), card.status.published is None

    for card in sorted(cards, key=likely):
        take = min(units, max(0, sizes[card.name] - used[card.name]))
        used[card.name] += take
        units -= take
    return units
