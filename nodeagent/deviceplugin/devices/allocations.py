"""`status.allocations` of a GPUDevice: which container has which card, from kubelet's pod-resources API. Pure.

Kubelet knows pods by name and devices by id; the cluster knows pods by uid and cards by object.
What cannot be joined yet (a pod whose uid has not come, a MIG instance that the driver has not told
of) stays as it was reported before.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from controllers.api import names
from controllers.api.gpudevice import Allocation, ForeignAllocation
from controllers.domain.request import profile_of
from nodeagent.deviceplugin.devices.records import DRA_DEVICE, uuid_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from controllers.api.gpudevice import GPUDevice
    from controllers.api.kube import Pod
    from nodeagent.deviceplugin.devices.records import ContainerHolding

ENTRIES_MAX = 256
"""Of one card; the custom resource takes no more."""
Slots = Counter[tuple[str, str, str, str, str]]
"""Slots by card, namespace, pod, container and MIG profile, which is empty but under a mixed layout."""
FOREIGN_MAX = 64
"""The same of those who hold it by resources that are not the module's."""


def allocations(
    cards: Iterable[GPUDevice],
    held: Iterable[ContainerHolding],
    pods: Mapping[str, Pod],
    owners: Mapping[str, GPUDevice],
    unobservable: frozenset[str] = frozenset(),
) -> dict[str, tuple[Allocation, ...]]:
    """What each card's `allocations` are to be, by the object's name.

    `held`: all of this node, of every pool; `pods`: those bound to it, by namespace/name;
    `owners`: whose card a uuid is; `unobservable`: cards of which that cannot be told now.
    """
    cards, slots = list(cards), Slots()
    for entry in held:
        pod = pods.get(f"{entry.namespace}/{entry.pod}")
        if pod is not None and pod.finished:
            continue  # what has ended holds nothing, though kubelet may not have cleaned up yet
        profile = profile_of(entry.resource.removeprefix(names.PREFIX)) or ""
        for id_ in entry.ids:
            card = owners.get(uuid_of(id_))
            if card is not None:
                slots[card.name, entry.namespace, entry.pod, entry.container, profile] += 1
    return {
        card.name: card.status.allocations if card.name in unobservable else _merge_allocations(card, slots, pods)
        for card in cards
    }


def _merge_allocations(card: GPUDevice, slots: Slots, pods: Mapping[str, Pod]) -> tuple[Allocation, ...]:
    """The card's entries; those that were there keep their place, so that nothing is written anew."""
    before = {(a.namespace, a.pod, a.container, a.profile or ""): a for a in card.status.allocations}
    found: dict[tuple[str, str, str, str], Allocation] = {}
    for (name, *rest), count in slots.items():
        namespace, pod, container, profile = key = (rest[0], rest[1], rest[2], rest[3])
        known = pods.get(f"{namespace}/{pod}")
        uid = known.metadata.uid if known is not None else before[key].pod_uid if key in before else ""
        if name == card.name and uid:
            found[key] = Allocation(
                pod_uid=uid, namespace=namespace, pod=pod, container=container, slots=count, profile=profile or None
            )
    order = [key for key in before if key in found] + sorted(found.keys() - before.keys())
    return tuple(found[key] for key in order)[:ENTRIES_MAX]


def unknown(held: Iterable[ContainerHolding], owners: Mapping[str, GPUDevice]) -> frozenset[str]:
    """Uuids that containers hold and no card of this node has."""
    return frozenset(uuid for entry in held for id_ in entry.ids if (uuid := uuid_of(id_)) not in owners)


def foreign(
    cards: Iterable[GPUDevice],
    held: Iterable[ContainerHolding],
    pods: Mapping[str, Pod],
    owners: Mapping[str, GPUDevice],
    *,
    minors: Mapping[str, int],
    unobservable: frozenset[str] = frozenset(),
) -> dict[str, tuple[ForeignAllocation, ...]]:
    """What each card's `foreignAllocations` are to be, by the object's name.

    As `allocations`; but what kubelet says is enough, whether or not anybody else knows that pod. `minors`: by PCI
    address, since NVIDIA's DRA driver names a card so.
    """
    cards = list(cards)
    by_minor = {
        str(minors[hardware.pci.address]): card
        for card in cards
        if (hardware := card.status.hardware) is not None and hardware.pci.address in minors
    }
    users: dict[str, set[tuple[str, str, str, str]]] = {card.name: set() for card in cards}
    for entry in held:
        pod = pods.get(f"{entry.namespace}/{entry.pod}")
        if pod is not None and pod.finished:
            continue
        for id_ in entry.ids:
            named = DRA_DEVICE.fullmatch(id_)
            card = by_minor.get(named[1]) if named else owners.get(uuid_of(id_))
            if card is not None and card.name in users:
                users[card.name].add((entry.namespace, entry.pod, entry.container, entry.resource))
    return {
        card.name: card.status.foreign_allocations if card.name in unobservable else _users(users[card.name])
        for card in cards
    }


def _users(found: set[tuple[str, str, str, str]]) -> tuple[ForeignAllocation, ...]:
    return tuple(
        ForeignAllocation(namespace=namespace, pod=pod, container=container, resource=resource)
        for namespace, pod, container, resource in sorted(found)[:FOREIGN_MAX]
    )
