"""What `nodeagent driver look` and `nodeagent driver prepare` say of a node: one line of JSON in a termination message.

The node's side looks and unloads; what follows from it is decided by gpu-driver-controller.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import Field

from controllers.api.record import record

DONE: Final = 0
WAIT: Final = 20
"""Exit code: what is in the way goes by itself, such as a device that somebody holds open."""
NODE: Final = 30
"""Exit code: the node is at fault, such as a full disk or a module that cannot be unloaded without a reboot."""
CUT: Final = 4096
"""Bytes at which kubelet cuts a termination message. All those of a pod have 12,288 together, each an equal part."""
LINE_MAX: Final = 2048
"""Bytes of a line at most: a driver's pod has up to five containers."""
HOLDERS_MAX: Final = 16
TEXT_MAX: Final = 256


@record
class Holder:
    """A process that holds the driver's devices open."""

    pid: int
    """Its number on the host."""
    command: Annotated[str, Field(max_length=64)]
    """Its name."""
    pod_uid: Annotated[str | None, Field(max_length=63, alias="podUID")] = None
    """The pod whose container it is in; absent where no pod explains it."""


@record
class Module:
    """A kernel module that is loaded."""

    name: Annotated[str, Field(max_length=63)]
    """As the kernel spells it, with underscores."""
    version: Annotated[str, Field(max_length=64)] = ""
    """Its version, where it says one."""
    state: Annotated[str, Field(max_length=16)] = ""
    """live, coming or going."""
    users: int = 0
    """How many hold it."""


@record
class Look:
    """What is on the node."""

    system: Annotated[str, Field(max_length=63)] = ""
    """`<ID><VERSION_ID>` of os-release, such as ubuntu24.04 or rhel9 (major alone for RHEL and its kin)."""
    kernel: Annotated[str, Field(max_length=253)] = ""
    """Release of the running kernel."""
    next_kernel: Annotated[str, Field(max_length=253)] = ""
    """Release of the newest installed kernel, where it is another one."""
    boot_id: Annotated[str, Field(max_length=63, alias="bootID")] = ""
    """The node's start."""
    secure_boot: bool | None = None
    """Whether the firmware checks signatures; false on machines without UEFI, None where it cannot be seen."""
    lockdown: Annotated[str, Field(max_length=32)] = ""
    """The kernel's lockdown mode: none, integrity or confidentiality; empty where the kernel has none."""
    modules: Annotated[tuple[Module, ...], Field(max_length=16)] = ()
    """Modules of the driver, and nouveau, that are loaded."""
    holders: Annotated[tuple[Holder, ...], Field(max_length=HOLDERS_MAX)] = ()
    """Who holds the driver's devices open."""
    host_driver: Annotated[str, Field(max_length=64)] = ""
    """Version of a driver that the host itself has installed; empty without one."""
    free_mib: Annotated[int | None, Field(alias="freeMiB")] = None
    """Free space where the container runtime keeps its data, in MiB."""
    mofed: Literal["", "Host", "Container"] = ""
    """Whose MOFED is loaded."""
    gpus: int = 0
    """NVIDIA's cards on the PCI bus."""

    def module(self, name: str) -> Module | None:
        """A module by its name; None where it is not loaded."""
        return next((one for one in self.modules if one.name == name), None)


@record
class Prepared:
    """What became of the node."""

    result: Literal["Clean", "FastPath", "Refused"]
    """No driver is loaded; the wanted one is loaded and stays; or what was asked cannot be done now."""
    reason: Annotated[str, Field(max_length=63)] = ""
    """Why it was refused: a reason of `driverWork`."""
    message: Annotated[str, Field(max_length=TEXT_MAX)] = ""
    """What was found, expected and to be done."""
