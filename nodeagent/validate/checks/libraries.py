"""Whether the driver's libraries are those of the loaded module. Pure.

The kernel module refuses a library of another version, so a host whose packages were upgraded
without a reboot, or the other way round, has a driver that nobody can use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nodeagent.host.driverroot import HOST
from nodeagent.validate.checks.check import Check, failed, ok, unknown
from nodeagent.validate.checks.facts import LIBRARIES, Library

if TYPE_CHECKING:
    from nodeagent.validate.checks.facts import Facts

NAME = "library"


def library(facts: Facts, where: str, missing: str) -> Check:
    """The check, for the libraries `where` (`on the host`); `missing`: what to do where they are not there."""
    if facts.libraries is None:
        return unknown(NAME, "HostFilesNotVisible", f"libraries {where} cannot be seen: mount the folder /usr")
    if not facts.version:
        return unknown(NAME, "ModuleVersionUnknown", "no version of a loaded module to compare with", needed=False)
    found = {name: facts.libraries.get(name, Library()) for name in LIBRARIES}
    if absent := [name for name, library in found.items() if not library.versions and not library.linked]:
        message = f"{' and '.join(absent)} of driver {facts.version} not found {where}; {missing}"
        return failed(NAME, "LibraryMissing", message)
    others = {name: _other(library, facts.version) for name, library in found.items()}
    if wrong := [f"{name} is {version}" for name, version in others.items() if version]:
        message = f"{where} {', '.join(wrong)}, while the loaded kernel module is {facts.version}: {_cure(facts)}"
        return failed(NAME, "LibraryMismatch", message)
    return ok(NAME, f"{' and '.join(LIBRARIES)} {where} are {facts.version}, as the loaded module")


def _cure(facts: Facts) -> str:
    if facts.root.name != HOST:
        return f"two drivers; end the one that is not wanted, and unmount {facts.root.name} if its container is gone"
    return "the driver is half upgraded; reboot the node, or unload and load the nvidia modules"


def _other(library: Library, version: str) -> str:
    """The version that a program would get, where it is not the module's."""
    if library.linked:
        return library.linked if library.linked != version else ""
    return "" if version in library.versions else ", ".join(library.versions)
