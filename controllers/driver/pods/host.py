"""The host's folders in pods of drivers, as GPU Operator mounts them. Pure.

Source: NVIDIA/gpu-operator, manifests/state-driver/0500_daemonset.yaml.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from controllers.components.podspec import host_volume, later, mount
from controllers.domain.driver import files

if TYPE_CHECKING:
    from controllers.components.podspec import Json

_MAKE: Final = "DirectoryOrCreate"
MELLANOX: Final = "/run/mellanox/drivers"
_FIRMWARE: Final = "/sys/module/firmware_class/parameters/path"
_VOLUMES: Final = {
    "host": ("/", "Directory"),
    "sys": ("/sys", "Directory"),
    "run": ("/run", "Directory"),
    "run-nvidia": (files.RUN, _MAKE),
    "run-nvidia-fabricmanager": ("/run/nvidia-fabricmanager", _MAKE),
    "run-nvidia-topologyd": ("/run/nvidia-topologyd", _MAKE),
    "var-log": ("/var/log", None),
    "dev-log": ("/dev/log", None),
    "os-release": ("/etc/os-release", None),
    "mellanox": (MELLANOX, _MAKE),
    "mellanox-sources": (f"{MELLANOX}/usr/src", _MAKE),
    "firmware-path": (_FIRMWARE, None),
    "sys-devices-system": ("/sys/devices/system", "Directory"),
    # The kernel loads the cards' firmware from the driver's root, into which the container installs it.
    "firmware": (f"{files.ROOT}/lib/firmware", _MAKE),
}
HOST: Final = "/host"
"""Where the agent has the host's root."""
OS_RELEASE: Final = mount("os-release", "/host-etc/os-release", read_only=True)


def volumes(*keys: str, host_mofed: bool = False) -> list[Json]:
    """Volumes of the host; `host_mofed`: whose sources of MOFED they are to have."""
    found = _VOLUMES | ({"mellanox-sources": ("/usr/src", _MAKE)} if host_mofed else {})
    return [host_volume(key, *found[key]) for key in keys]


def shared(volume: str, path: str) -> Json:
    """A mount in which what the container mounts is seen by the host, too."""
    return mount(volume, path) | {"mountPropagation": "Bidirectional"}


AGENT: Final = (
    shared("run-nvidia", files.RUN),
    later(mount("host", HOST, read_only=True)),
    mount("sys", "/sys", read_only=True),
)
"""Of the node agent, which looks at the host and unloads modules. It waits for MOFED, whose container mounts its root
on the host meanwhile."""
DRIVER: Final = (
    shared("run-nvidia", files.RUN),
    mount("run-nvidia-fabricmanager", "/run/nvidia-fabricmanager"),
    mount("run-nvidia-topologyd", "/run/nvidia-topologyd"),
    mount("var-log", "/var/log"),
    mount("dev-log", "/dev/log"),
    OS_RELEASE,
    later(mount("mellanox-sources", f"{MELLANOX}/usr/src")),
    later(mount("mellanox", MELLANOX)),
    mount("firmware-path", _FIRMWARE),
    mount("sys-devices-system", "/sys/devices/system"),
    mount("firmware", "/lib/firmware"),
)
PEERMEM: Final = (
    shared("run-nvidia", files.RUN),
    mount("var-log", "/var/log"),
    mount("dev-log", "/dev/log", read_only=True),
    later(mount("mellanox", MELLANOX)),
)
BESIDE: Final = (
    later(mount("run-nvidia", files.RUN)),
    mount("var-log", "/var/log"),
    mount("dev-log", "/dev/log", read_only=True),
)
"""Of containers that load one more module beside the driver's."""
