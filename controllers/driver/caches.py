"""The caches of the process, and the indexes by which it finds nodes by what is done to them.

Made once at the start, before any is filled; each is changed by its reflector and by our own writes, in the event loop
(`controllers.runtime.store`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from controllers.api import names
from controllers.domain.driver.states import TRYING
from controllers.domain.driver.variant import revision_of
from controllers.runtime.store import Store

if TYPE_CHECKING:
    from controllers.api.agent_report import Report
    from controllers.api.gpudevice import GPUDevice
    from controllers.api.gpudriver import GPUDriver
    from controllers.api.gpunodeinventory import GPUNodeInventory
    from controllers.api.kube import ConfigMap, DaemonSet, Node
    from controllers.api.user_pod import ResourceClaim, UserPod
    from controllers.driver.records import Pod, Pool

BY_NODE, BY_VARIANT = "node", "variant"
BY_CLAIM = "claim"
"""Pods by the ResourceClaims that they have, `namespace/name`."""
BY_PHASE, BY_DRIVER = "phase", "driver"
BY_TRIAL = "trial"
"""Nodes that try a revision of a driver, by `trial_of`."""
BY_PROOF = "proof"
"""Nodes on which a revision came to serve, or failed, when they were last at work; likewise."""


@dataclass(slots=True)
class Caches:
    """One cache for each kind."""

    drivers: Store[GPUDriver]
    nodes: Store[Node]
    reports: Store[Report]
    inventories: Store[GPUNodeInventory]
    devices: Store[GPUDevice]
    pods: Store[Pod]
    daemonsets: Store[DaemonSet]
    configmaps: Store[ConfigMap]
    users: Store[UserPod]
    """Pods that may use cards, on every node."""
    claims: Store[ResourceClaim]
    pools: Store[Pool]
    adopted: Store[Pod] = field(default_factory=lambda: Store("adopted drivers"))
    """Drivers' pods of other programs that people gave over to the module."""

    def __post_init__(self) -> None:
        """Index what is asked for."""
        self.devices.index(BY_NODE, lambda device: (device.status.node_name or "",))
        self.pods.index(BY_NODE, lambda pod: (pod.node or "",))
        self.adopted.index(BY_NODE, lambda pod: (pod.node or "",))
        self.users.index(BY_NODE, lambda pod: (pod.node or "",))
        self.users.index(BY_CLAIM, lambda pod: tuple(pod.claims))
        self.nodes.index(BY_VARIANT, variants_of_node)
        self.inventories.index(BY_VARIANT, variants_of_work)
        self.inventories.index(BY_PHASE, _phase)
        self.inventories.index(BY_DRIVER, drivers_of)
        self.inventories.index(BY_TRIAL, _trial)
        self.inventories.index(BY_PROOF, proofs_of)
        self.daemonsets.index(BY_VARIANT, variants_of_node)
        self.configmaps.index(BY_VARIANT, variants_of_node)

    def variants(self) -> set[str]:
        """Variants that have an object, or that a node has."""
        stores = (self.daemonsets, self.configmaps, self.nodes)
        return {value for store in stores for value in store.index_values(BY_VARIANT)}


def trial_of(driver: str, revision: str) -> str:
    """The value of an index for a revision of a driver."""
    return f"{driver}/{revision}"


def variants_of_node(obj: Node | DaemonSet | ConfigMap) -> tuple[str, ...]:
    """The variant that an object's label names."""
    return (value,) if (value := obj.metadata.labels.get(names.DRIVER_VARIANT)) else ()


def variants_of_work(inventory: GPUNodeInventory) -> tuple[str, ...]:
    """The variants that the node is on its way to, and back to: its check pod or its label needs what belongs to it."""
    work = inventory.status.driver_work
    return tuple({value for value in (work.to, work.from_) if value is not None}) if work is not None else ()


def drivers_of(inventory: GPUNodeInventory) -> tuple[str, ...]:
    """The GPUDriver for which the node is at work."""
    work = inventory.status.driver_work
    return (work.driver,) if work is not None else ()


def is_used(device: GPUDevice) -> bool:
    """Whether a card is published, or allocated to somebody: its driver stays."""
    status = device.status
    return bool(status.published or status.allocations or status.foreign_allocations)


def proofs_of(inventory: GPUNodeInventory) -> tuple[str, ...]:
    """Revisions of which the node says something."""
    last = inventory.status.last_driver_work
    if last is None or not last.stratum or last.result == "Unproved":
        return ()
    return (trial_of(last.driver, last.revision),)


def _trial(inventory: GPUNodeInventory) -> tuple[str, ...]:
    work = inventory.status.driver_work
    if work is None or work.phase not in TRYING or work.to is None:
        return ()
    return (trial_of(work.driver, revision_of(work.to)),)


def _phase(inventory: GPUNodeInventory) -> tuple[str, ...]:
    work = inventory.status.driver_work
    return (work.phase,) if work is not None else ()
