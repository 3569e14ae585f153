"""Whether the driver's device nodes are there and lead to the driver that is loaded. Pure.

`/dev/nvidiactl` is minor 255 of the driver's major number, `/dev/nvidiaN` minor N (N from the
card's `information`), `/dev/nvidia-uvm` has a major number of its own, given when the module is loaded: a
node, or a container, that is older than the module leads to nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from nodeagent.validate.checks.check import Check, aside, failed, ok, several, unknown

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from nodeagent.validate.checks.facts import Facts, Node

NAME = "devices"
CONTROL, UVM = "nvidiactl", "nvidia-uvm"
CONTROL_MINOR = 255
STALE_PROC: Final = "ProcOfOldDriver"
STALE_PROC_MESSAGE = (
    "/proc/driver/nvidia was copied into this container from a driver of another version; restart this pod"
)
_FRONTENDS = ("nvidia-frontend", "nvidia")
"""The name of the driver's major number, by its age."""


def host(facts: Facts) -> Check:
    """On the host. Missing nodes are made at the first use (nvidia-modprobe, the toolkit): no failure."""
    if facts.module is None:
        return unknown(NAME, "ModuleNotLoaded", "no driver, so no device nodes are to be expected", needed=False)
    if facts.majors is None:
        return unknown(NAME, "HostFilesNotVisible", "/proc/devices cannot be read", needed=False)
    if _frontend(facts) is None:
        message = "/proc/devices has no major number of the nvidia module though it is loaded; unload and load it"
        return failed(NAME, "DeviceNumberMissing", message)
    if facts.nodes is None:
        return unknown(NAME, "HostFilesNotVisible", "the host's /dev is not mounted here", needed=False)
    return _host_nodes(facts, facts.nodes)


def _host_nodes(facts: Facts, nodes: Mapping[str, Node]) -> Check:
    if stale := _stale(facts):
        message = _stale_message(stale, "remove them on the host and run nvidia-modprobe -u -c=0")
        return failed(NAME, "DeviceStale", message)
    missing = [f"/dev/{name}" for name in (CONTROL, *_names(facts), UVM) if name not in nodes]
    if missing:
        message = f"{several(missing)} not made yet on the host; nvidia-modprobe or the toolkit makes them at first use"
        return unknown(NAME, "DeviceNotMade", message, needed=False)
    return ok(NAME, "the device nodes of all cards are on the host")


def inside(facts: Facts) -> Check:
    """In the container: without them no program of it reaches a card."""
    nodes = facts.nodes or {}
    if not any(name.startswith("nvidia") for name in nodes):
        return failed(NAME, "DevicesMissing", f"the container has no /dev/nvidia*: {_why_none(facts)}")
    for name, do in (
        (CONTROL, "see the toolkit's configuration"),
        (UVM, "CUDA cannot start without it; run nvidia-modprobe -u on the host, or load nvidia_uvm at boot"),
    ):
        if name not in nodes:
            return failed(NAME, "DevicesMissing", f"the container has no /dev/{name}; {do}")
    if stale := _stale(facts):
        return failed(NAME, "DeviceStale", _stale_message(stale, "the driver was loaded anew: restart this pod"))
    if facts.taken is None:
        return unknown(NAME, STALE_PROC, STALE_PROC_MESSAGE)
    missing = [address for address in facts.held if _name(facts, address) not in nodes]
    if missing:
        message = (
            f"the container has {len(facts.held) - len(missing)} of {len(facts.held)} cards, not {several(missing)}; "
            "expected /dev/nvidia<N> of each card; see NVIDIA_VISIBLE_DEVICES, and the CDI specification's devices"
        )
        return failed(NAME, "DeviceMissing", message, *missing)
    return ok(NAME, f"the container has the device nodes of all {len(facts.held)} cards")


def specification(facts: Facts) -> Check:
    """The host's CDI specification, as a remark: what it does to a container shows in its devices and libraries.

    This container need not have come by it: NVIDIA's runtime makes one of its own in memory, and an old
    file may lie about for another program. Who hands out cards by CDI names reads the attribute `cdi`.
    """
    return aside(_specification(facts))


def _specification(facts: Facts) -> Check:
    name = "cdi"
    do = (
        "container cdi of the toolkit's pod renews the module's, and its log says why it cannot; "
        "one of your own: nvidia-ctk cdi generate --device-name-strategy=uuid"
    )
    found = facts.specification
    if found is None:
        return unknown(name, "HostFilesNotVisible", "the host's /etc/cdi and /var/run/cdi cannot be seen", needed=False)
    if found.broken:
        return failed(name, "CDIBroken", f"{several(found.broken)} cannot be read as a CDI specification; {do}")
    if not found.files:
        return unknown(name, "CDIAbsent", "no CDI specification of nvidia.com/gpu on the host", needed=False)
    if facts.version and found.versions - {facts.version}:
        versions = ", ".join(sorted(found.versions))
        message = f"{several(found.files)} mounts libraries of {versions}, the loaded module is {facts.version}; {do}"
        return failed(name, "CDIStale", message)
    taken = facts.taken or {}
    minors = {address: taken[address].minor for address in facts.held if address in taken}
    missing = [address for address, minor in minors.items() if minor is not None and minor not in found.minors]
    if missing:
        return failed(name, "CDIIncomplete", f"{several(found.files)} does not name {several(missing)}; {do}", *missing)
    return ok(name, f"{several(found.files)} names all cards")


def _why_none(facts: Facts) -> str:
    if facts.handler:
        return (
            f"the runtime's handler {facts.handler} did not bring them; see the pod's runtimeClassName and "
            "NVIDIA_VISIBLE_DEVICES, and the log of the container runtime"
        )
    known = (
        "the host's configuration of the container runtime names no handler of NVIDIA's and "
        if facts.handler == ""
        else ""
    )
    return (
        f"{known}this container was not started by NVIDIA's runtime; install the toolkit (nvidia-ctk runtime configure)"
    )


def _frontend(facts: Facts) -> int | None:
    majors = facts.majors or {}
    return next((majors[name] for name in _FRONTENDS if name in majors), None)


def _name(facts: Facts, address: str) -> str | None:
    told = (facts.taken or {}).get(address)
    return f"nvidia{told.minor}" if told is not None and told.minor is not None else None


def _names(facts: Facts) -> list[str]:
    return [name for address in facts.held if (name := _name(facts, address)) is not None]


def _stale(facts: Facts) -> list[str]:
    """Nodes whose numbers are not the driver's."""
    return [
        f"/dev/{name}"
        for name, major, minor in _expected(facts)
        if _differs((facts.nodes or {}).get(name), major, minor)
    ]


def _expected(facts: Facts) -> Iterator[tuple[str, int, int]]:
    front, uvm = _frontend(facts), (facts.majors or {}).get(UVM)
    if front is not None:
        yield CONTROL, front, CONTROL_MINOR
        for told in (facts.taken or {}).values():
            if told.minor is not None:
                yield f"nvidia{told.minor}", front, told.minor
    if uvm is not None:
        yield UVM, uvm, 0


def _differs(node: Node | None, major: int, minor: int) -> bool:
    return node is not None and node.major is not None and (node.major, node.minor) != (major, minor)


def _stale_message(stale: list[str], do: str) -> str:
    return f"{several(stale)} have other numbers than the loaded driver (/proc/devices); {do}"
