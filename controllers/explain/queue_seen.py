"""What was read of a pool's queue: the pool with its pods, cards and nodes. Pure."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from controllers.domain.lifecycle import live
from controllers.explain.records import Unreadable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from controllers.api.gpudevice import GPUDevice, Reservation
    from controllers.api.gpupool import GPUPool, Toleration
    from controllers.api.kube import Node
    from controllers.api.tenant import TenantPod


@dataclass(frozen=True)
class QueueSeen:
    """A pool with its pods, cards and nodes."""

    pool: GPUPool
    pods: tuple[TenantPod, ...]
    """Those that the pool admitted, of all namespaces."""
    members: tuple[GPUDevice, ...]
    """The pool's cards."""
    nodes_read: Mapping[str, Node] | Unreadable
    """The nodes of its cards, by name."""
    tolerated: tuple[Toleration, ...]
    now: float

    @property
    def nodes(self) -> Mapping[str, Node]:
        """The nodes, as far as they are known."""
        return {} if isinstance(self.nodes_read, Unreadable) else self.nodes_read

    @cached_property
    def bound(self) -> tuple[TenantPod, ...]:
        """Pods that are on a node."""
        return tuple(pod for pod in self.pods if pod.node is not None)


def reservations_of(seen: QueueSeen) -> dict[str, list[tuple[GPUDevice, Reservation]]]:
    """Live reservations with their cards, by request."""
    found: dict[str, list[tuple[GPUDevice, Reservation]]] = defaultdict(list)
    for device in seen.members:
        for each in device.status.reservations:
            if live(each, seen.now):
                found[each.request_id].append((device, each))
    return found
