"""The host of a simulated node: its system, its kernels, and whether it brings a driver of its own. Pure.

Annotation `sim.gpu.deckhouse.io/system` names the system in the catalogue; `sim.gpu.deckhouse.io/host` has words,
separated by commas, for what differs from the usual machine:

    bare                    the host has neither driver nor toolkit: both have to be brought
    next-kernel=<release>   a newer kernel is installed and does not run
    secure-boot             the firmware checks signatures
    lockdown=<mode>         the kernel's lockdown: none, integrity or confidentiality
    runtime=<kind>          the container runtime, where it is not containerd
    mofed=<Host|Container>  whose MOFED is loaded

The kernel that runs is the one that the Node names (`status.nodeInfo.kernelVersion`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from controllers.api.system_facts import SystemFacts
from controllers.domain.driver.systems import system_of
from nodeagent.host.system import CONFIGURATIONS
from sim.nodes import names

if TYPE_CHECKING:
    from controllers.api.kube import Node
    from sim.hardware import Catalogue
    from sim.hardware.catalogue import System

CONTAINERD: Final = "containerd"
_FLAGS: Final = ("bare", "secure-boot")
_VALUES: Final = ("next-kernel", "lockdown", "runtime", "mofed")


@dataclass(frozen=True, slots=True)
class Host:
    """What is on the machine beside its cards and their driver."""

    os_id: str = ""
    os_version: str = ""
    kernel: str = ""
    next_kernel: str = ""
    bare: bool = False
    """Whether no driver and no toolkit are installed on it."""
    secure_boot: bool = False
    lockdown: str = ""
    runtime: str = CONTAINERD
    mofed: str = ""
    unknown: tuple[str, ...] = ()
    """Words that are none of those above, for the log."""

    @property
    def system(self) -> str:
        """`<ID><VERSION_ID>`, of RHEL and its kin with the major version alone."""
        return system_of(self.os_id, self.os_version)

    def facts(self, source: str) -> SystemFacts:
        """What the node agent tells of it; `source`: whose driver is loaded or installed."""
        return SystemFacts(
            os_id=self.os_id,
            os_version=self.os_version,
            system=self.system,
            kernel=self.kernel,
            next_kernel=self.next_kernel,
            secure_boot=self.secure_boot,
            lockdown=self.lockdown,
            runtime=self.runtime,
            runtime_config=next((f"/{path}" for path in CONFIGURATIONS.get(self.runtime, ())), ""),
            driver_source=source,
        )


def host(node: Node, catalogue: Catalogue) -> Host:
    """The host under a node; raises UserError for a system that is not in the catalogue."""
    annotations = node.metadata.annotations
    system = catalogue.system_named(annotations.get(names.SYSTEM, ""))
    words = sorted({word.strip() for word in annotations.get(names.HOST, "").split(",")} - {""})
    values = {key: value for key, _, value in (word.partition("=") for word in words) if key in _VALUES and value}
    return replace(
        of(system),
        kernel=node.status.node_info.kernel_version or system.kernel,
        next_kernel=values.get("next-kernel", ""),
        bare="bare" in words,
        secure_boot="secure-boot" in words,
        lockdown=values.get("lockdown", ""),
        runtime=values.get("runtime", CONTAINERD),
        mofed=values.get("mofed", ""),
        unknown=tuple(word for word in words if word not in _FLAGS and word.partition("=")[0] not in values),
    )


def of(system: System) -> Host:
    """A host with that system, on which nothing is unusual."""
    return Host(system.release.get("ID", ""), system.release.get("VERSION_ID", ""), system.kernel)
