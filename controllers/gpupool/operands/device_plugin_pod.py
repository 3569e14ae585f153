"""The pod of a pool's device plugin. Pure.

It sees of its host only what it needs: kubelet's two folders, the bus, the device nodes that it hands out, and what
tells whether the runtime applies CDI. In mode MIG it has to ask the driver for the instances, and so runs with the
runtime's help. Else it asks no driver, and starts where the driver is broken or the toolkit is missing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from controllers.api import names
from controllers.components import podspec
from controllers.components.agent import node_name, serving_after_start
from controllers.components.daemonset import ON_EVERY_NODE
from controllers.domain.agents import LISTENS

if TYPE_CHECKING:
    from controllers.api.settings import DeviceStrategy

PLUGIN_DIR = "/var/lib/kubelet/device-plugins"
POD_RESOURCES_DIR = podspec.HOST_PATHS["pod-resources"][0]
MPS = "/mps"
"""Where the container sees the pool's folder of MPS."""
HOST = "/host"
"""Where the container sees folders of its host that it has itself."""
STRATEGIES: dict[DeviceStrategy, str] = {"Auto": "auto", "CDI": "cdi", "DeviceSpecs": "device-specs"}
"""The setting, as the program takes it."""


def pod(pool: str, image: str, strategy: DeviceStrategy, *, divided: bool, shared: bool = False) -> dict[str, Any]:
    """The pod; `divided` where cards are handed out by MIG instances, `shared` where they have MPS daemons."""
    # Not all of /etc and /run: there lie keys, and sockets that a read-only mount does not close.
    own = {"cdi": "/etc/cdi", "cdi-run": "/var/run/cdi", "containerd": "/etc/containerd"}
    mounts = [
        podspec.mount("plugins", PLUGIN_DIR),
        podspec.mount("pod-resources", POD_RESOURCES_DIR, read_only=True),
        podspec.mount("sys", "/sys", read_only=True),
        podspec.mount("dev", f"{HOST}/dev", read_only=True),
        *(podspec.mount(name, f"{HOST}/root{path}", read_only=True) for name, path in own.items()),
    ]
    volumes = [
        podspec.host_volume("plugins", PLUGIN_DIR, "Directory"),
        *podspec.volumes("pod-resources", "sys"),
        podspec.host_volume("dev", "/dev", "Directory"),
        *(podspec.host_volume(name, path, "DirectoryOrCreate") for name, path in own.items()),
    ]
    if shared:
        mounts.append(podspec.mount("mps", MPS))
        volumes.append(podspec.host_volume("mps", f"{names.MPS_ROOT}/{pool}", "DirectoryOrCreate"))
    return {
        "nodeSelector": {names.pool_node_label(pool): "true"},
        "serviceAccountName": "gpu-nodeagent-device-plugin",
        "automountServiceAccountToken": True,  # its ServiceAccount says no by default
        **ON_EVERY_NODE,
        "terminationGracePeriodSeconds": 10,
        **({"runtimeClassName": names.RUNTIME_CLASS} if divided else {}),
        "containers": [_container(pool, image, strategy, divided=divided, shared=shared) | {"volumeMounts": mounts}],
        "volumes": volumes,
    }


def _container(pool: str, image: str, strategy: DeviceStrategy, *, divided: bool, shared: bool) -> dict[str, Any]:
    env = {"HOST_DEV": f"{HOST}/dev", "HOST_ROOT": f"{HOST}/root", "DEVICE_STRATEGY": STRATEGIES[strategy]}
    if shared:
        env["MPS_DIR"] = MPS
    if divided:
        env |= {names.VISIBLE_DEVICES: "all", "NVIDIA_DRIVER_CAPABILITIES": "utility"}
    return {
        "name": "device-plugin",
        "image": image,
        "args": ["device-plugin", "--pool", pool, *LISTENS],
        "env": [
            node_name(),
            *podspec.env(env),
        ],
        **serving_after_start(),
        # Why it ended, as where its socket is taken, then stands in the pod's status.
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "resources": {"requests": {"cpu": "10m", "memory": "96Mi"}, "limits": {"memory": "192Mi"}},
        "securityContext": podspec.root(),  # kubelet's sockets belong to root
    }
