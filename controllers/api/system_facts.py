"""What the node agent says of a node's system: attributes of feature `gpu.system`, and how they are read. Pure.

The agent writes what it sees; a value that it could not see is left out. Each text is cut where it is read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from controllers.api.record import record

if TYPE_CHECKING:
    from collections.abc import Mapping

OS_ID: Final = "os.id"
OS_VERSION: Final = "os.version"
SYSTEM: Final = "system"
KERNEL: Final = "kernel"
NEXT_KERNEL: Final = "kernel.next"
SECURE_BOOT: Final = "secure-boot"
LOCKDOWN: Final = "lockdown"
RUNTIME: Final = "runtime"
RUNTIME_CONFIG: Final = "runtime.config"
DRIVER_SOURCE: Final = "driver.source"
HOLDERS: Final = "holders"
NVSWITCH: Final = "nvswitch"
TEXT_MAX: Final = 253
DIGITS_MAX: Final = 9
_TRUTH: Final = {"true": True, "false": False}


@record
class SystemFacts:
    """One node's system."""

    os_id: str = ""
    """ID of os-release, such as ubuntu."""
    os_version: str = ""
    """VERSION_ID of os-release, such as 24.04."""
    system: str = ""
    """`<ID><VERSION_ID>`, such as ubuntu24.04; of RHEL and its kin the major version alone, such as rhel9."""
    kernel: str = ""
    """Release of the running kernel."""
    next_kernel: str = ""
    """Release of the newest installed kernel, where it is another one."""
    secure_boot: bool | None = None
    """Whether the firmware checks signatures; false on machines without UEFI, None where it cannot be seen."""
    lockdown: str = ""
    """The kernel's lockdown mode: none, integrity or confidentiality; empty where the kernel has none."""
    runtime: str = ""
    """Kind of the container runtime: containerd, cri-o, docker, k3s, rke2, k0s, microk8s."""
    runtime_config: str = ""
    """The file, or folder, that usually configures it and is there, as the host calls it."""
    driver_source: str = ""
    """Whose driver is loaded or installed: host, container; empty without one."""
    holders: int | None = None
    """Processes that hold the driver's devices open; None where that could not be seen."""
    nvswitch: bool | None = None
    """Whether an NVSwitch is on the PCI bus; None where that could not be seen."""


def read(attributes: Mapping[str, str]) -> SystemFacts:
    """The facts that the attributes of the feature tell; what makes no sense is left out."""

    def text(key: str) -> str:
        return attributes.get(key, "")[:TEXT_MAX]

    holders = text(HOLDERS)
    return SystemFacts(
        os_id=text(OS_ID),
        os_version=text(OS_VERSION),
        system=text(SYSTEM),
        kernel=text(KERNEL),
        next_kernel=text(NEXT_KERNEL),
        secure_boot=_TRUTH.get(text(SECURE_BOOT)),
        lockdown=text(LOCKDOWN),
        runtime=text(RUNTIME),
        runtime_config=text(RUNTIME_CONFIG),
        driver_source=text(DRIVER_SOURCE),
        holders=int(holders) if holders.isascii() and holders.isdigit() and len(holders) <= DIGITS_MAX else None,
        nvswitch=_TRUTH.get(text(NVSWITCH)),
    )


def write(facts: SystemFacts) -> dict[str, str]:
    """The attributes that tell the facts; what is not known is left out."""
    found = {
        OS_ID: facts.os_id,
        OS_VERSION: facts.os_version,
        SYSTEM: facts.system,
        KERNEL: facts.kernel,
        NEXT_KERNEL: facts.next_kernel,
        SECURE_BOOT: _spelled(facts.secure_boot),
        LOCKDOWN: facts.lockdown,
        RUNTIME: facts.runtime,
        RUNTIME_CONFIG: facts.runtime_config,
        DRIVER_SOURCE: facts.driver_source,
        HOLDERS: _spelled(facts.holders),
        NVSWITCH: _spelled(facts.nvswitch),
    }
    return {key: value for key, value in found.items() if value}


def _spelled(value: int | None) -> str:
    return "" if value is None else str(value).lower()
