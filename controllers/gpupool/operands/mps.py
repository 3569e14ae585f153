"""A pool's MPS control daemons: their DaemonSet, as a whole object. Pure.

Its pod runs the agent's role `mps`, which has one daemon of NVIDIA's for each card. It updates `OnDelete`: a new
version of the module ends no daemon, for whoever computes by it would end, too. It asks no API server, and so has no
token.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from controllers.api import names
from controllers.components import podspec
from controllers.components.daemonset import ON_EVERY_NODE, build_daemonset
from controllers.domain.allocation import applied, wanted
from controllers.gpupool.operands.device_plugin import labels, owner

if TYPE_CHECKING:
    from controllers.api.gpupool import GPUPool
    from controllers.gpupool.views import ObservedPool

COMPONENT: Final = "mps"
"""Component of what belongs to MPS control daemons."""
CAPABILITIES: Final = "compute,utility"
"""Of the driver's programs: nvidia-cuda-mps-control and its server, and nvidia-smi."""


def is_needed(seen: ObservedPool) -> bool:
    """Whether cards of the pool are to have daemons, have them, or have yet to be rid of them."""
    modes = {applied(seen.pool).mode, wanted(seen.pool).mode}
    return "MPS" in modes or any(device.status.mps is not None for device in seen.members)


def daemonset(pool: GPUPool, image: str) -> dict[str, Any]:
    """The pool's MPS control daemons on every node that has a card of it."""
    own = labels(pool.name) | {names.LABEL_COMPONENT: COMPONENT}
    return build_daemonset(names.mps(pool.name), own, _pod(pool.name, image), owners=owner(pool), on_delete=True)


def _pod(pool: str, image: str) -> dict[str, Any]:
    root = podspec.mount("mps", names.MPS_ROOT) | {"mountPropagation": "Bidirectional"}
    return {
        "nodeSelector": {names.pool_node_label(pool): "true"},
        "serviceAccountName": "gpu-nodeagent-device-plugin",
        "automountServiceAccountToken": False,
        **ON_EVERY_NODE,
        "hostPID": True,  # a server of MPS knows its clients by the numbers that the host has for them
        "terminationGracePeriodSeconds": 60,  # daemons quit, and compute modes are put back
        "runtimeClassName": names.RUNTIME_CLASS,
        # Before the other container starts: what is mounted later at a path would not be its /dev/shm.
        "initContainers": [_container(pool, image, "shm", "--mount-shm") | {"volumeMounts": [root]}],
        "containers": [
            _container(pool, image, "mps") | {"volumeMounts": [root, podspec.mount("shm", "/dev/shm")]}  # noqa: S108
        ],
        "volumes": [
            podspec.host_volume("mps", names.MPS_ROOT, "DirectoryOrCreate"),
            podspec.host_volume("shm", f"{names.MPS_ROOT}/{pool}/shm"),
        ],
    }


def _container(pool: str, image: str, name: str, *flags: str) -> dict[str, Any]:
    env = {names.VISIBLE_DEVICES: "all", "NVIDIA_DRIVER_CAPABILITIES": CAPABILITIES}
    return {
        "name": name,
        "image": image,
        "args": ["mps", "--pool", pool, *flags],
        "env": podspec.env(env),
        "terminationMessagePolicy": "FallbackToLogsOnError",
        # Servers have contexts of CUDA on their cards, for all clients of these.
        "resources": {"requests": {"cpu": "10m", "memory": "64Mi"}, "limits": {"memory": "2Gi"}},
        # Mounts that the host sees, and compute modes, are for privileged root alone.
        "securityContext": {"privileged": True, "readOnlyRootFilesystem": True, "runAsUser": 0},
    }
