"""A variant: one revision of a driver for one system and, where its modules are precompiled, one kernel. Pure.

It is the value of the node label `gpu.deckhouse.io/driver.variant`, and names the DaemonSet whose pods come to nodes
with that value.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Final

REVISION_LENGTH: Final = 10
KERNEL_LENGTH: Final = 8
ANY: Final = "any"
"""In place of the kernel, where the modules are compiled on the node."""
SYSTEM_MAX: Final = 40


@dataclass(frozen=True, slots=True, order=True)
class Variant:
    """Which driver exactly."""

    revision: str
    """Ten digits of the revision's hash."""
    system: str
    """`<ID><VERSION_ID>`, such as ubuntu24.04."""
    kernel: str = ""
    """Release of the kernel, where the modules are precompiled for it; empty where they are compiled."""

    @property
    def value(self) -> str:
        """The label's value, at most 63 characters."""
        system = self.system if len(self.system) <= SYSTEM_MAX else _digest(self.system)[:REVISION_LENGTH]
        kernel = _digest(self.kernel)[:KERNEL_LENGTH] if self.kernel else ANY
        return f"{self.revision}-{system}-{kernel}"

    @property
    def object_name(self) -> str:
        """Name of its DaemonSet and of its ConfigMap."""
        return f"gpu-driver-{self.value}"


def revision_of(value: str) -> str:
    """The revision in a label's value."""
    return value.partition("-")[0]


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
