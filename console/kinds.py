"""The kinds that the console reads: what of them, and by which record."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from console.pods import ShownPod
from controllers.api import names
from controllers.api.gpudevice import GPUDevice
from controllers.api.gpudriver import GPUDriver
from controllers.api.gpunodeinventory import GPUNodeInventory
from controllers.api.gpupool import GPUPool
from controllers.api.kube import Node
from controllers.api.meta import KubeObject
from controllers.api.resources import GPUDEVICE, GPUDRIVER, GPUNODEINVENTORY, GPUPOOL, NODE, POD, Resource


@dataclass(frozen=True, slots=True)
class Read:
    """A kind of objects without a namespace, and how they are read."""

    resource: Resource
    record: type[KubeObject]
    within: str
    """The field of `console.records.Seen` that has them."""


WHOLE: Final = (
    Read(GPUDEVICE, GPUDevice, "cards"),
    Read(NODE, Node, "nodes"),
    Read(GPUNODEINVENTORY, GPUNodeInventory, "inventories"),
    Read(GPUPOOL, GPUPool, "pools"),
    Read(GPUDRIVER, GPUDriver, "drivers"),
)
"""Those that a viewer may read wholly or not at all."""
PODS: Final[tuple[Resource, type[ShownPod]]] = (POD, ShownPod)
PODS_LABEL: Final = names.LABEL_POOL
"""The label of pods that a pool admitted."""


def named(resource: Resource) -> str:
    """`gpudevices.gpu.deckhouse.io`, as kubectl takes it."""
    return f"{resource.plural}.{resource.group}" if resource.group else resource.plural
