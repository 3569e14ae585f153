"""What runs on a GPU node, by version: `status.software` of a GPUNodeInventory, and the names of its entries. Pure."""

from __future__ import annotations

import sys
from typing import Annotated, Final

from pydantic import AfterValidator, Field

from controllers.api.components import DCGM, DRIVER_VALIDATOR, EXPORTER, GFD, TOOLKIT, VALIDATOR
from controllers.api.record import record

KERNEL: Final = "kernel"
OS: Final = "os"
RUNTIME: Final = "runtime"
KUBELET: Final = "kubelet"
DRIVER: Final = "driver"
CUDA: Final = "cuda"
AGENT: Final = "agent"
DISCOVER: Final = "discover"
"""The component's label of the DaemonSet that the list calls AGENT: of all its roles, the one that every node has."""
DEVICE_PLUGIN: Final = "device-plugin"
MIG_MANAGER: Final = "mig-manager"
HOST: Final = (KERNEL, OS, RUNTIME, KUBELET, DRIVER, CUDA)
"""What the machine itself has, in words of its own."""
ORDER: Final = (*HOST, TOOLKIT, AGENT, DEVICE_PLUGIN, MIG_MANAGER, GFD, DCGM, EXPORTER, DRIVER_VALIDATOR, VALIDATOR)
"""From the machine up to what checks it; the order of the list, and of kubectl's table."""
VERSION_MAX: Final = 512
"""Characters of a version; a tag with its digest has 200 at most."""
SEPARATOR: Final = ", "
"""Between versions of one component on one node, which pools' programs may be of."""

Shared = Annotated[str, AfterValidator(sys.intern)]
"""A text that thousands of objects have in common: a process keeps it once."""
Told = Annotated[str, AfterValidator(lambda text: sys.intern(text[:VERSION_MAX]))]
"""The same of what a node says of itself: whoever has its token may say a megabyte, which every cache would hold."""
Version = Annotated[Shared, Field(max_length=VERSION_MAX)]


@record
class SoftwareVersion:
    """The version of one component on the node."""

    component: Annotated[Shared, Field(max_length=63)]
    """What it is: kernel, os, runtime, kubelet, driver, cuda, or a component of the module."""
    running: Version
    """Version that serves. While a pod is replaced, the one that served last. Several are parted by commas."""
    wanted: Version | None = None
    """Version that the component's DaemonSet asks for; absent where the module decides about no version."""

    @property
    def versions(self) -> list[str]:
        """Those that run, each by itself."""
        return [self.running] if self.component in HOST else self.running.split(SEPARATOR)

    @property
    def differs(self) -> bool:
        """Whether another version is wanted than the one that runs."""
        return self.wanted is not None and self.wanted != self.running


def place(component: str) -> tuple[int, str]:
    """Where a component stands in a list: those that are not in ORDER come last, by name."""
    return (ORDER.index(component) if component in ORDER else len(ORDER), component)
