"""The fence (design §6): who uses a pool's cards, or is about to, whatever is done about it. Pure.

A card is clear when its plugin has acknowledged that it does not offer it, kubelet reports nobody on it, nobody is
promised it, and no pod is bound to its node that may have it beside the cards of which kubelet tells.

What a node says keeps its own cards. A whole pool waits for those alone of whom the cluster knows: pods that are bound,
and promises. Else whoever has one node's token could freeze a pool by a pod that does not exist.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING

from controllers.api import names
from controllers.api.resources import POD
from controllers.domain.lifecycle import live
from controllers.domain.request import lasting_of, units_of
from controllers.domain.slots import named_devices, reported
from controllers.runtime.plan import Expect

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from controllers.api.gpudevice import GPUDevice
    from controllers.api.kube import Pod
    from controllers.gpupool.observe import ObservedPool

RUNS = "Running"
"""The phase of a pod whose init containers have ended."""
BOUND = f"spec.nodeName!=,{names.TENANT_PODS}"
"""Field selector for pods that have a node."""


@dataclass(frozen=True, slots=True)
class Fence:
    """A pool's users, counted once for all its cards."""

    unreported: frozenset[str]
    """Nodes with a bound pod of which kubelet has not told all cards that it tells of."""
    now: float
    kept: frozenset[str] = frozenset()
    """Cards (inventoryIDs) that kubelet may keep for pods without telling of them."""

    def is_clear(self, device: GPUDevice) -> bool:
        """Whether nobody can be using, or be about to use, a card that is off the allowed list."""
        status = device.status
        return (
            status.published is None
            and not status.allocations
            and not any(live(reservation, self.now) for reservation in status.reservations)
            and status.node_name not in self.unreported
            and status.inventory_id not in self.kept
        )


def fence(seen: ObservedPool, now: float) -> Fence:
    """The fence around a pool's cards."""
    told, pool = reported(seen.members), seen.pool.name
    bound = [pod for pod in seen.pods if pod.node and not pod.finished]
    beside = [(pod.node or "", untold(pod, pool, told[pod.node, pod.metadata.uid])) for pod in bound]
    return Fence(
        frozenset(node for node, cards in beside if cards is None),
        now,
        frozenset(chain.from_iterable(cards for _, cards in beside if cards is not None)),
    )


def untold(pod: Pod, pool: str, told: int) -> Collection[str] | None:
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


def holders(seen: ObservedPool, now: float) -> tuple[str, ...]:
    """Every pod (namespace/name) that holds a card of the pool or is promised one, sorted."""
    bound = {pod.key for pod in seen.pods if pod.node and not pod.finished}
    placed = {pod.metadata.annotations.get(names.REQUEST_ID) for pod in seen.pods if pod.node or pod.finished}
    promised = {
        f"{promise.namespace}/{promise.pod}"
        for card in seen.members
        for promise in card.status.reservations
        if live(promise, now) and promise.request_id not in placed
    }
    return tuple(sorted(bound | promised))


def nobody_else_bound(seen: ObservedPool, node: str | None = None) -> list[Expect]:
    """The quorum must know of no other bound pod of the pool, on that node or on any, than the cache does."""
    known = frozenset(pod.key for pod in seen.pods if pod.node and node in (None, pod.node))
    fields = BOUND if node is None else bound_to(node)
    labels = f"{names.LABEL_POOL}={seen.pool.name}"
    return [Expect(POD, known, labels=labels, fields=fields), *still_unbound(seen.unlabelled, fields)]


def still_unbound(pods: Iterable[Pod], fields: str) -> list[Expect]:
    """The quorum must know none of these pods as bound, to where `fields` says: no list by label shows them."""
    return [
        Expect(POD, frozenset(), pod.metadata.namespace, fields=f"metadata.name={pod.name},{fields}") for pod in pods
    ]


def bound_to(node: str) -> str:
    """Field selector for the pods of a node that may hold cards."""
    return f"spec.nodeName={node},{names.TENANT_PODS}"
