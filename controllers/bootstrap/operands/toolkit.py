"""NVIDIA's container toolkit, installed on the host by its installer, and the CDI specification of the cards. Pure."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from controllers.api import names
from controllers.bootstrap import parts
from controllers.bootstrap.parts import TOOLKIT_ROOT

if TYPE_CHECKING:
    from controllers.api.settings import BootstrapSettings
    from controllers.bootstrap.parts import Json

RUN: Final = "/run/nvidia/toolkit"
PID_FILE: Final = f"{RUN}/toolkit.pid"
DROP_IN: Final = "/runtime/config-dir.d/99-nvidia.toml"
ENVIRONMENT: Final = {
    "ROOT": TOOLKIT_ROOT,
    "RUNTIME": "containerd",
    "CONTAINERD_RUNTIME_CLASS": names.RUNTIME_CLASS,
    "RUNTIME_CONFIG": "/runtime/config-dir/config.toml",
    "RUNTIME_DROP_IN_CONFIG": DROP_IN,
    "RUNTIME_DROP_IN_CONFIG_HOST_PATH": "/etc/containerd/conf.d/99-nvidia.toml",
    "RUNTIME_SOCKET": "/runtime/sock-dir/containerd.sock",
    "CDI_ENABLED": "true",
    "NVIDIA_RUNTIME_SET_AS_DEFAULT": "false",
    "NVIDIA_CONTAINER_RUNTIME_MODE": "cdi",
    "NVIDIA_CONTAINER_RUNTIME_MODES_CDI_DEFAULT_KIND": "management.nvidia.com/gpu",
    "NVIDIA_DRIVER_ROOT": "/",
    "DRIVER_ROOT_CTR_PATH": "/host",
    "NVIDIA_VISIBLE_DEVICES": "void",
    "TOOLKIT_PID_FILE": PID_FILE,
}
# The installer makes its pid file first, then installs the programs, then writes the drop-in, and removes pid file
# and drop-in when it is stopped in order. A drop-in that is older than the pid file is left from a run that was not.
# The image has busybox, whose test compares whole seconds: hence not the other way round, "is newer".
READY: Final = (
    f"test -x {TOOLKIT_ROOT}/toolkit/nvidia-container-runtime && test -s {PID_FILE} && test -s {DROP_IN}"
    f" && ! test {PID_FILE} -nt {DROP_IN}"
)
KEEPER: Final = (Path(__file__).parent / "specification.sh").read_text("utf-8")
PLACES: Final = {
    "HOST": "/host",
    "PROC": "/proc",
    "CDI": "/var/run/cdi",
    "RUN": RUN,
    "TOOLKIT": f"{TOOLKIT_ROOT}/toolkit",
}
# Also with one of an earlier run, and where the script found that none is to be made: no node waits for a card that
# cannot be named. The folders are emptied by a reboot.
SPECIFIED: Final = f"test -s {PLACES['CDI']}/gpu-control-plane.yaml || test -e {RUN}/cdi.none"
# The driver may hang. There is no better way to end who asks it than with the container.
ALIVE: Final = f'test -n "$(find {RUN}/cdi.alive -mmin -5)"'


def pod(image: str, _: BootstrapSettings) -> Json:
    """Installs the container toolkit on the host, tells the container runtime of it, and of the cards by name."""
    volumes = ("toolkit-run", "toolkit-root", "cdi", "containerd-config", "containerd-drop-ins", "containerd-socket")
    # The settings are of the first container.
    return {
        "hostPID": True,
        "containers": [_installer(image), _keeper(image)],
        "volumes": parts.volumes(*volumes, "host"),
    }


def _installer(image: str) -> Json:
    return {
        "name": "toolkit",
        "image": image,
        "command": ["nvidia-toolkit"],
        "env": parts.env(ENVIRONMENT),
        # The runtime's socket and configuration, and signals to it, are root's of the host.
        "securityContext": {"privileged": True},
        "resources": parts.resources("20m", "64Mi", "256Mi"),
        "readinessProbe": parts.run(READY, 5),
        # The pid is the host's: the pod shares its processes.
        "livenessProbe": parts.run(f"kill -0 $(cat {PID_FILE})", 30),
        "volumeMounts": [
            *parts.mounts("toolkit-run", "toolkit-root", "cdi"),
            parts.mount("containerd-config", "/runtime/config-dir"),
            parts.mount("containerd-drop-ins", "/runtime/config-dir.d"),
            parts.mount("containerd-socket", "/runtime/sock-dir"),
            parts.mount("host", "/host", read_only=True),
        ],
    }


def _keeper(image: str) -> Json:
    return {
        "name": "cdi",
        "image": image,
        "command": ["sh", "-c", KEEPER],
        "env": parts.env(PLACES | {"NVIDIA_VISIBLE_DEVICES": "void"}),
        # Another root, and all cards' device nodes in it.
        "securityContext": {"privileged": True},
        "resources": parts.resources("10m", "64Mi", "256Mi"),
        "readinessProbe": parts.run(SPECIFIED, 5),
        "livenessProbe": parts.run(ALIVE, 30),
        "volumeMounts": [
            *parts.mounts("toolkit-run", "cdi"),
            parts.mount("host", PLACES["HOST"], read_only=True),
            # The same folder in the other root: there nvidia-ctk writes what it then prints.
            parts.mount("toolkit-run", PLACES["HOST"] + RUN),
        ],
    }
