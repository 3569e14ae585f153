"""Tolerations that a pool's pods get, kept until a pool's taints change, on nodes too, or a card comes or leaves.

Lives as long as the process, used from its event loop only: a review asks for it, and reservations, which change cards
all the time, change nothing here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from controllers.api import names
from controllers.domain.taints import tolerated, wanted
from webhook.caches.stores import BY_POOL

if TYPE_CHECKING:
    from controllers.api.gpudevice import GPUDevice
    from controllers.api.gpupool import GPUPool, Scheduling, Toleration
    from controllers.api.kube import Node, NodeTaint
    from controllers.runtime.store import Store


class PoolTolerations:
    """The tolerations that pools give."""

    def __init__(self, pools: Store[GPUPool], devices: Store[GPUDevice], nodes: Store[Node]) -> None:
        """Follow the stores."""
        self._pools, self._devices, self._nodes = pools, devices, nodes
        self._tainting: tuple[GPUPool, ...] | None = None
        self._known: dict[str, tuple[Toleration, ...]] = {}
        pools.subscribe(self._pool_changed)
        devices.subscribe(self._device_changed)
        nodes.subscribe(self._node_changed)

    def of(self, pool: GPUPool) -> tuple[Toleration, ...]:
        """What pods of a pool tolerate beside what they bring."""
        known = self._known.get(pool.name)
        if known is None:
            if self._tainting is None:
                self._tainting = tuple(filter(wanted, self._pools))
            known = tolerated(pool, self._tainting, self._nodes_of, self._nodes.get)
            self._known[pool.name] = known
        return known

    def _nodes_of(self, pool: str) -> set[str]:
        return {device.status.node_name or "" for device in self._devices.by(BY_POOL, pool)}

    def _pool_changed(self, old: GPUPool | None, new: GPUPool | None) -> None:
        if _scheduling(old) != _scheduling(new):
            self._known.clear()
            self._tainting = None

    def _device_changed(self, old: GPUDevice | None, new: GPUDevice | None) -> None:
        if _where(old) != _where(new):
            self._known.clear()

    def _node_changed(self, old: Node | None, new: Node | None) -> None:
        if _noted(old) != _noted(new):
            self._known.clear()


def _noted(node: Node | None) -> tuple[str | None, tuple[NodeTaint, ...]]:
    """The taints that a node has, and which of them pools have put there."""
    if node is None:
        return None, ()
    return node.metadata.annotations.get(names.POOL_TAINTS), node.spec.taints


def _scheduling(pool: GPUPool | None) -> Scheduling | None:
    return pool.spec.scheduling if pool is not None else None


def _where(device: GPUDevice | None) -> tuple[str | None, str | None]:
    """The pool and the node of a card."""
    if device is None or device.home is None:
        return None, None
    return device.home, device.status.node_name
