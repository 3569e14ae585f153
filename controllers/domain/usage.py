"""Usage of a card: pods that have it or may get it; the one rule before it is released or partitioned. Pure.

A card is clear when no plugin of ours offers it, kubelet reports nobody on it, nobody is promised it, and no pod is
bound to its node that may have it beside the cards of which kubelet tells.

What a node says keeps its own cards. A whole pool waits for those alone of whom the cluster knows: pods that are bound,
and promises. Else whoever has one node's token could freeze a pool by a pod that does not exist.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING

from controllers.api import names
from controllers.domain.accounting import reported
from controllers.domain.lifecycle import live
from controllers.domain.named_devices import named_devices
from controllers.domain.request import lasting_of, needs, units_of
from controllers.domain.wording import listed

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from controllers.api.gpudevice import GPUDevice
    from controllers.api.kube import Pod

RUNS = "Running"
"""The phase of a pod whose init containers have ended."""


@dataclass(frozen=True, slots=True)
class Unreported:
    """What bound pods may have beside the cards of which kubelet tells."""

    nodes: frozenset[str] = frozenset()
    """Nodes where it may be any card."""
    cards: frozenset[str] = frozenset()
    """Cards (inventoryIDs)."""

    def may_have(self, device: GPUDevice) -> bool:
        """Whether it may be this card."""
        return device.status.node_name in self.nodes or device.status.inventory_id in self.cards


def holds_driver(device: GPUDevice) -> bool:
    """Whether the card's MPS control daemon may run, and so hold the driver open."""
    return device.status.mps is not None and device.status.mps.running


def unreported(pool: str, cards: Iterable[GPUDevice], pods: Iterable[Pod]) -> Unreported:
    """What a pool's bound pods may have of its `cards` beside what kubelet tells; `pods` are the pool's."""
    told = reported(cards)
    bound = [pod for pod in pods if pod.node and not pod.finished]
    beside = [(pod.node or "", _unreported_of(pod, pool, told[pod.node, pod.metadata.uid])) for pod in bound]
    return Unreported(
        frozenset(node for node, found in beside if found is None),
        frozenset(chain.from_iterable(found for _, found in beside if found is not None)),
    )


def _unreported_of(pod: Pod, pool: str, told: int) -> Collection[str] | None:
    """The cards (inventoryIDs) of a pool that a bound pod may have beside what kubelet tells; None: any of its node.

    `told`: slots of which kubelet has told. It tells card by card, so a pod may hold one more than is shown yet. What
    ordinary init containers have is never told: while they may run, it can be any card; afterwards nobody is on it, but
    kubelet keeps it for the pod, should they run again. Then it is what the webhook named, as far as anybody can say:
    of a pod that it did not see nobody can, and it may be any.
    """
    units = units_of(pod, pool)
    if told >= max(1, units):
        return ()
    if not units or pod.status.phase != RUNS or told < lasting_of(pod, pool):
        return None
    return named_devices(pod) or None


def is_withdrawn(device: GPUDevice) -> bool:
    """Whether no plugin of ours offers the card, and none tells of a pod on it."""
    return device.status.published is None and not device.status.allocations


def is_unused(device: GPUDevice) -> bool:
    """Whether the card is withdrawn, and no container has it by a resource of others."""
    return is_withdrawn(device) and not device.status.foreign_allocations


def is_promised(device: GPUDevice, now: float) -> bool:
    """Whether a reservation of the card still holds."""
    return any(live(reservation, now) for reservation in device.status.reservations)


def is_clear(device: GPUDevice, beside: Unreported, now: float) -> bool:
    """Whether nobody can be using, or be about to use, a card that is on no list of cards to offer."""
    return is_withdrawn(device) and not is_promised(device, now) and not beside.may_have(device)


def given_cards(cards: Collection[GPUDevice], pods: Iterable[Pod]) -> set[str]:
    """Cards (inventoryIDs) that bound pods were given, without pods of which kubelet has told all cards.

    `cards` and `pods` are those of one node. An object that was deleted by hand comes back empty while its card still
    serves a pod: the pod itself says so.
    """
    told = reported(cards)
    return {card for pod in pods for card in _given_to(pod, told)}


def _given_to(pod: Pod, told: Mapping[tuple[str | None, str], int]) -> Collection[str]:
    """The cards (inventoryIDs) that a bound pod was given, as its annotation says; none once kubelet has told of all.

    Kubelet tells card by card: some of a pod's may be told, and others not yet. `told`: as of `accounting.reported`.
    """
    if pod.finished or told.get((pod.node, pod.metadata.uid), 0) >= needs(pod):
        return ()
    return named_devices(pod)


def in_use(device: GPUDevice, *, held: bool) -> bool:
    """Whether a card in no pool may still serve a pod. `held`: a bound pod was given it, as `given_cards` says.

    A plugin that has not withdrawn the card yet still offers it for another pool. Who has it by a resource of others is
    not asked here: `foreign_users` tells.
    """
    return held or not is_withdrawn(device)


def foreign_users(device: GPUDevice) -> str | None:
    """By what others have the card, in a sentence's words; None where nobody has.

    It names no pod: events and pools tell it too, and more people read these than may read GPUDevices.
    """
    resources = sorted({taken.resource for taken in device.status.foreign_allocations})
    if not resources:
        return None
    found = f"containers have the card by {listed(resources)}, which is not the module's"
    return f"{found} (status.foreignAllocations of its GPUDevice names them)"


def promised_to(cards: Iterable[GPUDevice], pods: Iterable[Pod], now: float) -> set[str]:
    """Pods (namespace/name) to which cards are promised. `pods`: those that promises may be about, bound or ended too.

    A pod that is bound or has ended is promised nothing: kubelet tells what it has.
    """
    placed = {pod.metadata.annotations.get(names.REQUEST_ID) for pod in pods if pod.node or pod.finished}
    return {
        f"{promise.namespace}/{promise.pod}"
        for card in cards
        for promise in card.status.reservations
        if live(promise, now) and promise.request_id not in placed
    }


def pool_users(cards: Iterable[GPUDevice], pods: Collection[Pod], now: float) -> tuple[str, ...]:
    """Every pod (namespace/name) that holds a card of a pool or is promised one, sorted; `cards` and `pods` are its."""
    bound = {pod.key for pod in pods if pod.node and not pod.finished}
    return tuple(sorted(bound | promised_to(cards, pods, now)))


def card_users(
    device: GPUDevice, pods: Iterable[Pod], told: Mapping[tuple[str | None, str], int], now: float
) -> tuple[str, ...]:
    """Pods (namespace/name) that kubelet, a reservation or their own annotation says have the card, sorted.

    `pods`: those that are bound to the card's node, and those whose reservations it has. `told`: slots of which kubelet
    has told (`accounting.reported`); what it told counts then, and not what the annotation wished.
    """
    known = {pod.key: pod for pod in pods}.values()
    allocated = {f"{taken.namespace}/{taken.pod}" for taken in device.status.allocations}
    named = {
        pod.key
        for pod in known
        if pod.node == device.status.node_name and device.status.inventory_id in _given_to(pod, told)
    }
    return tuple(sorted(allocated | named | promised_to([device], known, now)))
