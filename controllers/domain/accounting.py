"""Counts the slots of one pool on one node. Pure.

The webhook places by it and the pool controller reports by it, so that a pod is never
admitted to a slot that the pool's status does not have.

A slot is taken by an allocation (what kubelet reported), by a bound pod as far as kubelet has
not reported it yet (cards are reported one by one), or by a live reservation of a pod that is
not bound. What is not reported takes the cards that the pod's annotation names, or else the
first that are free: kubelet may decide differently, but the number is right.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from controllers.api import names
from controllers.domain.allocation import slots_under, suffixes
from controllers.domain.issuing import accepts_new_pods, issuable
from controllers.domain.lifecycle import live
from controllers.domain.named_devices import named_devices
from controllers.domain.request import suffix_for, units_of, whole
from controllers.domain.slots import Card, NodeSlots, is_of, offered_slots, slots_of
from controllers.domain.taints import keeps_off

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from controllers.api.gpudevice import GPUDevice
    from controllers.api.gpupool import AllocationSpec, Toleration
    from controllers.api.kube import Node, Pod


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
    sizes = {card.name: slots_of(card, allocation, profile) for card in cards}
    used, told, beyond = _given(cards, allocation, profile)
    overflow = 0
    for pod in sorted(bound, key=lambda pod: pod.key):
        lacking = max(0, units_of(pod, pool, profile) - told[pod.metadata.uid])
        cut = min(lacking, beyond[pod.metadata.uid])
        overflow += cut
        if lacking > cut:
            overflow += _place(pod, lacking - cut, cards, sizes, used)
    given = node is not None and accepts_new_pods(node) and keeps_off(node, tolerated) is None
    reserved = _promised(cards, placed, profile, now)
    return NodeSlots(
        node_name,
        tuple(
            Card(card, sizes[card.name], used[card.name], reserved[card.name], given and issuable(card, pool))
            for card in cards
        ),
        overflow,
        _allocatable(pool, profile, node, allocation),
    )


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


def _promised(cards: Iterable[GPUDevice], placed: Iterable[Pod], profile: str | None, now: float) -> dict[str, int]:
    """Slots of live reservations by card; what was reserved for a pod that has its node is reserved no more."""
    requests = {pod.metadata.annotations.get(names.REQUEST_ID) for pod in placed} - {None}
    return {
        card.name: sum(
            held.slots
            for held in card.status.reservations
            if live(held, now) and held.request_id not in requests and is_of(profile, held.profile)
        )
        if card.status.reservations
        else 0
        for card in cards
    }


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


def _allocatable(pool: str, profile: str | None, node: Node | None, allocation: AllocationSpec) -> int | None:
    """What the Node shows of a pool's resources: 0 where it shows others alone; None where it shows nothing at all."""
    if node is None or not node.status.allocatable:
        return None
    found = suffixes(pool, allocation) if profile is None else (suffix_for(pool, profile),)
    try:
        return sum(whole(node.status.allocatable.get(names.resource_name(suffix), 0)) for suffix in found)
    except ValueError:
        return 0
