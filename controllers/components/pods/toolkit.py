"""NVIDIA's container toolkit, installed on the host by its installer, and the CDI specification of the cards. Pure."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from controllers.api import names
from controllers.components import podspec
from controllers.components.agent import node_name, serving
from controllers.components.builder import Builder
from controllers.components.podspec import TOOLKIT_ROOT
from controllers.domain.agents import LISTENS

if TYPE_CHECKING:
    from controllers.components.agent import Agent
    from controllers.components.builder import Inputs
    from controllers.components.podspec import Json

RUN: Final = "/run/nvidia/toolkit"
PID_FILE: Final = f"{RUN}/gpu-control-plane/toolkit.pid"
"""The installer locks it for as long as it runs, and ends at once where another one has it. GPU Operator's is in `RUN`:
with a file of its own ours runs beside it. The installer makes the folder, and takes no other name for the file."""
CONFIG: Final = f"{TOOLKIT_ROOT}/toolkit/.config/nvidia-container-runtime/config.toml"
ENVIRONMENT: Final = {
    "ROOT": TOOLKIT_ROOT,
    # It would copy the runtime's CRI settings, passwords of registries among them, into a file that everybody reads,
    # and restart the runtime at each end and each start of this pod. Container `runtime` tells the runtime instead.
    "NO_RUNTIME_CONFIG": "true",
    # It makes the driver's control devices with that. What it writes once, no runtime reads: container `cdi` keeps it.
    "CDI_ENABLED": "true",
    "CDI_OUTPUT_DIR": f"{RUN}/cdi",
    "NVIDIA_CONTAINER_RUNTIME_MODE": "cdi",
    "NVIDIA_CONTAINER_RUNTIME_MODES_CDI_DEFAULT_KIND": "management.nvidia.com/gpu",
    names.VISIBLE_DEVICES: names.NO_DEVICES,
    "TOOLKIT_PID_FILE": PID_FILE,
}
# The installer makes its pid file first, then empties the programs' folder, and writes their configuration after they
# are all there. A configuration that is older than the pid file is left from a run before. The image has busybox, whose
# test compares whole seconds: hence not the other way round, "is newer".
READY: Final = (
    f"test -x {TOOLKIT_ROOT}/toolkit/nvidia-container-runtime && test -s {PID_FILE} && test -s {CONFIG}"
    f" && ! test {PID_FILE} -nt {CONFIG}"
)
LOCATE: Final = (Path(__file__).parent / "driverroot.sh").read_text("utf-8")
"""Begins each script that has to know where the driver lies."""
# The installer reads once, when it starts, where the driver lies: it is in the configuration and in the specification
# that it makes of the driver's files. So it notes what it was started for.
INSTALL: Final = f"""{LOCATE}
locate
echo "$library" >"$RUN/driver.library"
export NVIDIA_DRIVER_ROOT="$root" DRIVER_ROOT_CTR_PATH="$HOST${{root%/}}"
export NVIDIA_DEV_ROOT="$nodes" DEV_ROOT_CTR_PATH="$HOST${{nodes%/}}"
exec nvidia-toolkit "$@"
"""
# While there is no driver, nothing is gained by a new start.
CURRENT: Final = f'{LOCATE}\nlocate; {{ test -z "$library" || test "$library" = "$(cat "$RUN/driver.library")"; }}'
KEEPER: Final = LOCATE + "\n" + (Path(__file__).parent / "specification.sh").read_text("utf-8")
PLACES: Final = {
    "HOST": "/host",
    "PROC": "/proc",
    "CDI": "/var/run/cdi",
    "RUN": RUN,
    "TOOLKIT": f"{TOOLKIT_ROOT}/toolkit",
}
# Also with one of an earlier run, and where the script found that none is to be made: no node waits for a card that
# cannot be named. The folders are emptied by a reboot.
SPECIFIED: Final = (
    f"test -s {PLACES['CDI']}/management.nvidia.com-gpu.yaml"
    f" && {{ test -s {PLACES['CDI']}/gpu-control-plane.yaml || test -e {RUN}/cdi.none; }}"
)
# The driver may hang. There is no better way to end who asks it than with the container.
ALIVE: Final = f'test -n "$(find {RUN}/cdi.alive -mmin -5)"'


IDENTITY: Final = "identity"
"""The volume of a token that NVIDIA's containers do not get: only `runtime` speaks with the API server."""


def pod(given: Inputs) -> Json:
    """Installs the container toolkit on the host, tells the container runtime of it, and of the cards by name."""
    # The settings are of the first container.
    return {
        "hostPID": True,
        # A restart of containerd, and the way back from one that failed, are seen to their end.
        "terminationGracePeriodSeconds": 420,
        # The projected token names the pod's node. It is not mounted by itself, but where `_runtime` says so.
        "serviceAccountName": names.MANAGER_TOOLKIT,
        "containers": [_installer(given.image, given.agent), _keeper(given.image, given.agent), _runtime(given)],
        "volumes": [*podspec.volumes("toolkit-run", "toolkit-root", "cdi", "host"), _identity()],
    }


def _installer(image: str, agent: Agent) -> Json:
    return {
        "name": "toolkit",
        "image": image,
        "command": ["sh", "-c", INSTALL, "nvidia-toolkit"],
        "env": podspec.env(ENVIRONMENT | {"HOST": "/host", "RUN": RUN, "DRIVER": agent.driver_root}),
        # It makes the driver's control devices.
        "securityContext": {"privileged": True},
        "resources": podspec.resources("20m", "64Mi", "256Mi"),
        "readinessProbe": podspec.run(f"{CURRENT} && {READY}", 5),
        # The pid is the host's: the pod shares its processes.
        "livenessProbe": podspec.run(f"{CURRENT} && kill -0 $(cat {PID_FILE})", 30),
        "volumeMounts": [
            *podspec.mounts("toolkit-run", "toolkit-root", "cdi"),
            podspec.later(podspec.mount("host", "/host", read_only=True)),
        ],
    }


def _keeper(image: str, agent: Agent) -> Json:
    return {
        "name": "cdi",
        "image": image,
        "command": ["sh", "-c", KEEPER],
        "env": podspec.env(PLACES | {"DRIVER": agent.driver_root, names.VISIBLE_DEVICES: names.NO_DEVICES}),
        # Another root, and all cards' device nodes in it.
        "securityContext": {"privileged": True},
        "resources": podspec.resources("10m", "64Mi", "256Mi"),
        "readinessProbe": podspec.run(SPECIFIED, 5),
        "livenessProbe": podspec.run(ALIVE, 30),
        "volumeMounts": [
            *podspec.mounts("toolkit-run", "cdi"),
            podspec.later(podspec.mount("host", PLACES["HOST"], read_only=True)),
            # The same folder in the other root: there nvidia-ctk writes what it then prints.
            podspec.mount("toolkit-run", PLACES["HOST"] + RUN),
        ],
    }


def _runtime(given: Inputs) -> Json:
    """The node agent's role `toolkit`, with the host's files, and its processes by the pod's hostPID."""
    agent, chosen = given.agent, given.settings.container_toolkit.runtime_config
    # The default is not said, so that a pod does not start anew for it.
    more = () if chosen == "Auto" else (f"--runtime-config={chosen}",)
    return agent.reaching(
        {
            "name": "runtime",
            "image": agent.image,
            "command": ["python3", "-m", "nodeagent.toolkit"],
            "args": [*LISTENS, *more],
            "env": [
                node_name(),
                *podspec.env({"HOST_ROOT": "/host", names.VISIBLE_DEVICES: names.NO_DEVICES}),
            ],
            **serving(),
            # The runtime's socket and configuration are root's of the host, and so is the right to start it anew.
            "securityContext": {"privileged": True, "runAsUser": 0, "runAsGroup": 0, "readOnlyRootFilesystem": True},
            "resources": podspec.resources("10m", "96Mi", "256Mi"),
            "volumeMounts": [
                # What is mounted on the host later is seen, too.
                podspec.later(podspec.mount("host", "/host")),
                podspec.mount(IDENTITY, "/var/run/secrets/kubernetes.io/serviceaccount", read_only=True),
            ],
        }
    )


def _identity() -> Json:
    """As kubelet would mount it into every container of the pod."""
    namespace = {"path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}}
    sources = [
        {"serviceAccountToken": {"path": "token", "expirationSeconds": 3607}},
        {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
        {"downwardAPI": {"items": [namespace]}},
    ]
    return {"name": IDENTITY, "projected": {"defaultMode": 0o644, "sources": sources}}


BUILDER: Final = Builder(pod)
