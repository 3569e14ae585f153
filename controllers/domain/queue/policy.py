"""The rules of a pool's queue, as its spec and the module's settings give them. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from controllers.api.queue import EVERY_NAMESPACE, NamespaceShare, Queue

if TYPE_CHECKING:
    from collections.abc import Mapping

    from controllers.api.gpupool import GPUPool
    from controllers.api.queue import OnShortage, Order
    from controllers.api.settings import AdmissionSettings

_DEFAULT = Queue()
_SHARE = NamespaceShare(name=EVERY_NAMESPACE)


@dataclass(frozen=True, slots=True)
class QueuePolicy:
    """How a pool's queue is ordered."""

    order: Order
    hold_pods: int
    """For how many pods that fit nowhere free cards are kept."""
    hold_after: float
    """Seconds that such a pod has waited before."""
    shares: Mapping[str, NamespaceShare]
    """By namespace."""

    def share(self, namespace: str) -> NamespaceShare:
        """Weight, guarantee and limit of a namespace."""
        return self.shares.get(namespace) or self.shares.get(EVERY_NAMESPACE, _SHARE)


def queue_of(pool: GPUPool) -> Queue:
    """The pool's queue as its spec has it, with defaults where it says nothing."""
    return pool.spec.queue or _DEFAULT


def policy_of(pool: GPUPool) -> QueuePolicy:
    """The rules of a pool's queue."""
    queue = queue_of(pool)
    return QueuePolicy(queue.order, queue.hold.pods, queue.hold.after, {each.name: each for each in queue.namespaces})


def on_shortage(pool: GPUPool, settings: AdmissionSettings) -> OnShortage:
    """What becomes of a pod for which the pool has no cards."""
    return queue_of(pool).on_shortage or settings.on_shortage
