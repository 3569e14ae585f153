"""The informers' stores that reviews read, with every index that anything in this process asks for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from controllers.api import names
from controllers.domain.request import pools_of

if TYPE_CHECKING:
    from controllers.api.gpudevice import GPUDevice
    from controllers.api.gpupool import GPUPool
    from controllers.api.kube import Namespace, Node
    from controllers.api.tenant import TenantPod
    from controllers.runtime.store import Store

BY_NODE: Final = "node"
"""Cards, and pods that are bound, by the name of their node."""
BY_POOL: Final = "pool"
"""Cards by the pool that they are in."""
BY_POOL_AND_NODE: Final = "pool and node"
"""Cards, and pods that are bound, by `pool_and_node`."""
BY_REQUEST: Final = "request"
"""Cards by the requests of their reservations, and pods by theirs."""


@dataclass(frozen=True, slots=True)
class Stores:
    """The caches."""

    pools: Store[GPUPool]
    devices: Store[GPUDevice]
    nodes: Store[Node]
    namespaces: Store[Namespace]
    pods: Store[TenantPod]

    def __post_init__(self) -> None:
        """Make the indexes."""
        self.devices.index(BY_NODE, lambda device: [device.status.node_name] if device.status.node_name else [])
        self.devices.index(BY_POOL, lambda device: [device.home] if device.home else [])
        self.devices.index(BY_POOL_AND_NODE, _pool_and_node_of_device)
        self.devices.index(BY_REQUEST, lambda device: [entry.request_id for entry in device.status.reservations])
        self.pods.index(BY_NODE, lambda pod: [pod.node] if pod.node else [])
        self.pods.index(BY_POOL_AND_NODE, _pools_and_node_of_pod)
        self.pods.index(BY_REQUEST, lambda pod: [pod.metadata.annotations.get(names.REQUEST_ID, "")])

    @property
    def synced(self) -> bool:
        """Whether all have been filled."""
        return all(s.synced for s in (self.pools, self.devices, self.nodes, self.namespaces, self.pods))


def pool_and_node(pool: str, node: str) -> str:
    """The value of index `BY_POOL_AND_NODE`."""
    return f"{pool}/{node}"


def _pool_and_node_of_device(device: GPUDevice) -> list[str]:
    node = device.status.node_name
    return [pool_and_node(device.home, node)] if device.home and node else []


def _pools_and_node_of_pod(pod: TenantPod) -> list[str]:
    return [pool_and_node(pool, pod.node) for pool in pools_of(pod)] if pod.node else []
