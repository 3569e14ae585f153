"""What is to be done to a node before a driver's container starts there. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from controllers.api.driver_look import DONE, NODE, TEXT_MAX, WAIT, Prepared
from controllers.domain.driver.choice import is_wanted
from controllers.domain.driver.holders import process_name
from controllers.domain.wording import listed
from nodeagent.host.modules import LIVE

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from nodeagent.host.modules import KernelModule
    from nodeagent.host.openfiles import OpenFile

CODES: Final = {
    "DevicesHeld": WAIT,
    "MofedMissing": WAIT,
    "DriverLocked": NODE,
    "HostDriver": NODE,
    "NouveauLoaded": NODE,
    "OldDriverStuck": NODE,
    "RebootRequired": NODE,
}
"""Exit codes of `prepare` by reason."""
WHOLE: Final = ("nvidia", "nvidia_uvm", "nvidia_modeset")
"""Modules that NVIDIA's program loads of every driver. One that ended midway leaves the first of them alone."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """The driver that is to come."""

    digest: str
    """As its container is told it: DRIVER_CONFIG_DIGEST."""
    compiled: bool
    version: str = ""
    """Whole, or its branch; empty where any is right."""
    mofed: str = ""
    """Whose MOFED has to be loaded before it: `host`, `container`; empty for nobody's."""


@dataclass(frozen=True, slots=True)
class Found:
    """What the node says of the driver that is loaded."""

    modules: Mapping[str, KernelModule]
    """The driver's modules by name, and nouveau."""
    state: str
    """The digest that NVIDIA's program noted."""
    mark: str
    """The digest of the driver that served last."""


def modules_can_stay(wanted: Wanted, found: Found) -> bool:
    """Whether the modules that are loaded are the wanted ones, all of them, and are left as they are.

    NVIDIA's program that compiles keeps them if it noted this digest. Otherwise it would unload them; the script around
    it does not start it while somebody uses them (controllers/driver/pods/scripts/wrapper.sh).
    """
    if not is_whole(found.modules) or not _is_version(wanted, found.modules["nvidia"]):
        return False
    if wanted.compiled and found.state == wanted.digest:
        return True
    return found.mark == wanted.digest and in_use(found.modules, compiled=wanted.compiled)


def is_whole(modules: Mapping[str, KernelModule]) -> bool:
    """Whether a driver is loaded that can serve: half of one is none, whoever noted its digest."""
    return all((one := modules.get(name)) is not None and one.state == LIVE for name in WHOLE)


def _is_version(wanted: Wanted, main: KernelModule) -> bool:
    return not (wanted.version and main.version) or is_wanted(wanted.version, main.version)


def in_use(modules: Mapping[str, KernelModule], *, compiled: bool) -> bool:
    """Whether somebody computes, or, where the modules are precompiled, has any card open: the wrapper's rule."""
    uvm, main = modules.get("nvidia_uvm"), modules.get("nvidia")
    if uvm is not None and uvm.uses > 0:
        return True
    return not compiled and main is not None and main.uses > len(main.needed_by)


def refused(reason: str, message: str) -> Prepared:
    """What cannot be done now, and why."""
    return Prepared(result="Refused", reason=reason, message=message[:TEXT_MAX])


def exit_code(said: Prepared) -> int:
    """The exit status that tells whose fault it is."""
    return CODES.get(said.reason, NODE) if said.result == "Refused" else DONE


def held(holders: Iterable[OpenFile]) -> Prepared:
    """Somebody has the devices open."""
    names = listed(process_name(one.command, one.pid, one.pod_uid) for one in holders)
    return refused("DevicesHeld", f"have the driver's devices open: {names}; end them")
