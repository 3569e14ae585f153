"""A variant: one revision of a driver for one system, flavour and, where its image is for one kernel, kernel. Pure.

It is the value of the node label `gpu.deckhouse.io/driver.variant`, and names the DaemonSet whose pods come to nodes
with that value. Two nodes of one variant get the same pod.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from typing import Final, Literal

Modules = Literal["Open", "Proprietary"]
REVISION_LENGTH: Final = 10
KERNEL_LENGTH: Final = 8
ADOPTED: Final = "adopted"
"""In place of a value, on a node whose driver another program brought and a person gave over to the module."""
ANY: Final = "any"
"""In place of the kernel, where the image serves every kernel of the system."""
SYSTEM_MAX: Final = 40
NAME: Final = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*")
"""What can be part of an object's name; a system's word may have underscores as well."""
PROPRIETARY: Final = "-p"
"""End of the value where the modules are the proprietary ones: one driver may have nodes of both flavours."""


@dataclass(frozen=True, slots=True, order=True)
class Variant:
    """Which driver exactly."""

    revision: str
    """Ten digits of the revision's hash."""
    system: str
    """`<ID><VERSION_ID>`, such as ubuntu24.04."""
    kernel: str = ""
    """Release of the kernel, where the image was chosen for it; empty where it serves all kernels of the system."""
    modules: Modules = "Open"
    """Flavour of the kernel modules."""

    @property
    def value(self) -> str:
        """The label's value, at most 63 characters, and all of them such that an object's name may end with them."""
        fits = len(self.system) <= SYSTEM_MAX and NAME.fullmatch(self.system)
        system = self.system if fits else _digest(self.system)[:REVISION_LENGTH]
        flavour = PROPRIETARY if self.modules == "Proprietary" else ""
        return f"{self.revision}-{system}-{_kernel_part(self.kernel)}{flavour}"

    @property
    def object_name(self) -> str:
        """Name of its DaemonSet and of its ConfigMap."""
        return object_name(self.value)


def object_name(value: str) -> str:
    """Name of the DaemonSet and of the ConfigMap of a variant, by the label's value."""
    return f"gpu-driver-{value}"


def revision_of(value: str) -> str:
    """The revision in a label's value."""
    return value.partition("-")[0]


def of_value(value: str, kernel: str) -> Variant | None:
    """The variant of a label's value on a node that runs a kernel; None where it is for another kernel."""
    revision, _, rest = value.removesuffix(PROPRIETARY).partition("-")
    system = rest.rpartition("-")[0]
    modules: Modules = "Proprietary" if value.endswith(PROPRIETARY) else "Open"
    made = Variant(revision, system, "" if is_for_any_kernel(value) else kernel, modules)
    return made if made.value == value else None


def is_for_any_kernel(value: str) -> bool:
    """Whether the image of a label's value serves every kernel of its system: it compiles the modules on the node."""
    return _kernel_of(value) == ANY


def serves(value: str, kernel: str) -> bool:
    """Whether the driver of a label's value serves a node that runs the kernel: it is for any, or for this one."""
    return value == ADOPTED or is_for_any_kernel(value) or _kernel_of(value) == _kernel_part(kernel)


def _kernel_part(kernel: str) -> str:
    """What a label's value has of a kernel's release; empty is for any."""
    return _digest(kernel)[:KERNEL_LENGTH] if kernel else ANY


def _kernel_of(value: str) -> str:
    """The same, out of a label's value."""
    return value.removesuffix(PROPRIETARY).rpartition("-")[2]


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
