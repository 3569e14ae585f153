"""The pod of a pool's device plugin. Pure.

It sees of its host kubelet's two folders and the bus. The device nodes, and what tells whether the runtime applies
CDI, are not mounted yet, nor is it probed: with strategy Auto it hands out cards by environment there. In mode MIG it
has to ask the driver for the instances, and so runs with the runtime's help.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from controllers.api import names

if TYPE_CHECKING:
    from controllers.api.settings import DeviceStrategy

PLUGIN_DIR = "/var/lib/kubelet/device-plugins"
POD_RESOURCES_DIR = "/var/lib/kubelet/pod-resources"
STRATEGIES: dict[DeviceStrategy, str] = {"Auto": "auto", "CDI": "cdi", "DeviceSpecs": "device-specs"}
"""The setting, as the program takes it."""


def pod(pool: str, image: str, strategy: DeviceStrategy, *, divided: bool) -> dict[str, Any]:
    """The pod; `divided` where cards are handed out by MIG instances."""
    mounts = [
        _mount("plugins", PLUGIN_DIR),
        _mount("pod-resources", POD_RESOURCES_DIR, writable=False),
        _mount("sys", "/sys", writable=False),
    ]
    return {
        "nodeSelector": {names.pool_node_label(pool): "true"},
        "serviceAccountName": "gpu-nodeagent-device-plugin",
        "automountServiceAccountToken": True,  # its ServiceAccount says no by default
        "priorityClassName": "system-node-critical",
        "tolerations": [{"operator": "Exists"}],
        "terminationGracePeriodSeconds": 10,
        **({"runtimeClassName": names.RUNTIME_CLASS} if divided else {}),
        "containers": [_container(pool, image, strategy, divided=divided) | {"volumeMounts": [m for m, _ in mounts]}],
        "volumes": [volume for _, volume in mounts],
    }


def _container(pool: str, image: str, strategy: DeviceStrategy, *, divided: bool) -> dict[str, Any]:
    env = {"DEVICE_STRATEGY": STRATEGIES[strategy]}
    if divided:
        env |= {"NVIDIA_VISIBLE_DEVICES": "all", "NVIDIA_DRIVER_CAPABILITIES": "utility"}
    return {
        "name": "device-plugin",
        "image": image,
        "args": ["device-plugin", "--pool", pool],
        "env": [
            {"name": "NODE_NAME", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
            *({"name": name, "value": value} for name, value in env.items()),
        ],
        "resources": {"requests": {"cpu": "10m", "memory": "96Mi"}, "limits": {"memory": "192Mi"}},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "runAsUser": 0,  # kubelet's sockets belong to root
            "capabilities": {"drop": ["ALL"]},
            "seccompProfile": {"type": "RuntimeDefault"},
        },
    }


def _mount(name: str, path: str, *, writable: bool = True) -> tuple[dict[str, Any], dict[str, Any]]:
    """A folder of the host: how the container mounts it, and the volume."""
    mount = {"name": name, "mountPath": path} | ({} if writable else {"readOnly": True})
    return mount, {"name": name, "hostPath": {"path": path}}
