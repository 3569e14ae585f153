"""The driver root: which root file system of the node has its driver; a driver in a container comes and goes.

GPU Operator's driver container mounts its own root at `/run/nvidia/driver` of the host. When it has ended, the folder
is left behind: the mount is gone, or leads nowhere. So the folder itself says nothing; the driver's library in it does.

`controllers/components/pods/driverroot.sh` is the same rule for the containers that have a shell and no Python.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from nodeagent.host import library
from nodeagent.host.hostfiles import inside

HOST: Final = "/"
CONTROL: Final = "dev/nvidiactl"


@dataclass(frozen=True, slots=True)
class DriverRoot:
    """Where the driver lies; true for one look."""

    name: str = HOST
    """As the host calls it: `/`, `/run/nvidia/driver`."""
    path: Path = Path(HOST)
    """As we see it: libraries and firmware are below."""
    devices: Path = Path(HOST)
    """The root whose `dev` has the driver's device nodes, as we see it."""
    library: str = ""
    """The library there with every link followed, as the host calls it; empty where there is none. Of a driver that
    was replaced it is another one: the version stands in its name."""

    @property
    def reported_name(self) -> str:
        """The name, where it is not the host's own root."""
        return "" if self.name == HOST else self.name


def locate(host: Path, driver: Path) -> DriverRoot:
    """The driver's root: the folder `driver` of the host where the driver's library is in it, else the host's own."""
    own = inside(host, str(driver))
    if own is not None and own != host and (found := library.first(own)) is not None:
        devices = own if inside(own, CONTROL) is not None else host
        return DriverRoot(f"/{own.relative_to(host)}", own, devices, f"/{found.relative_to(host)}")
    found = library.first(host)
    return DriverRoot(HOST, host, host, f"/{found.relative_to(host)}" if found is not None else "")
