"""The pod of a pool's device plugin. Pure.

It sees of its host only what it needs: kubelet's two folders, the bus, the device nodes that it hands out, and what
tells whether the runtime applies CDI. In mode MIG it has to ask the driver for the instances, and so runs with the
runtime's help. Else it asks no driver, and starts where the driver is broken or the toolkit is missing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from controllers.api import names
from controllers.domain.agents import LISTENS, PORTS

if TYPE_CHECKING:
    from controllers.api.settings import DeviceStrategy

PLUGIN_DIR = "/var/lib/kubelet/device-plugins"
POD_RESOURCES_DIR = "/var/lib/kubelet/pod-resources"
HOST = "/host"
"""Where the container sees folders of its host that it has itself."""
STRATEGIES: dict[DeviceStrategy, str] = {"Auto": "auto", "CDI": "cdi", "DeviceSpecs": "device-specs"}
"""The setting, as the program takes it."""
SERVES: dict[str, Any] = {
    "ports": [*PORTS],
    # On a busy node Python takes its time to start: only then does its silence count.
    "startupProbe": {"httpGet": {"path": "/healthz", "port": "health"}, "periodSeconds": 2, "failureThreshold": 90},
    "livenessProbe": {"httpGet": {"path": "/healthz", "port": "health"}, "periodSeconds": 10},
    "readinessProbe": {"httpGet": {"path": "/readyz", "port": "health"}, "periodSeconds": 5},
}
"""What a container says of where it answers."""


def pod(pool: str, image: str, strategy: DeviceStrategy, *, divided: bool) -> dict[str, Any]:
    """The pod; `divided` where cards are handed out by MIG instances."""
    mounts = [
        _mount("plugins", PLUGIN_DIR, PLUGIN_DIR, writable=True),
        _mount("pod-resources", POD_RESOURCES_DIR, POD_RESOURCES_DIR),
        _mount("sys", "/sys", "/sys"),
        _mount("dev", "/dev", f"{HOST}/dev"),
        # Not all of /etc and /run: there lie keys, and sockets that a read-only mount does not close.
        *(
            _mount(name, path, f"{HOST}/root{path}", create=True)
            for name, path in (("cdi", "/etc/cdi"), ("cdi-run", "/var/run/cdi"), ("containerd", "/etc/containerd"))
        ),
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
    env = {"HOST_DEV": f"{HOST}/dev", "HOST_ROOT": f"{HOST}/root", "DEVICE_STRATEGY": STRATEGIES[strategy]}
    if divided:
        env |= {names.VISIBLE_DEVICES: "all", "NVIDIA_DRIVER_CAPABILITIES": "utility"}
    return {
        "name": "device-plugin",
        "image": image,
        "args": ["device-plugin", "--pool", pool, *LISTENS],
        "env": [
            {"name": "NODE_NAME", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
            *({"name": name, "value": value} for name, value in env.items()),
        ],
        **SERVES,
        # Why it ended, as where its socket is taken, then stands in the pod's status.
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "resources": {"requests": {"cpu": "10m", "memory": "96Mi"}, "limits": {"memory": "192Mi"}},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "runAsUser": 0,  # kubelet's sockets belong to root
            "capabilities": {"drop": ["ALL"]},
            "seccompProfile": {"type": "RuntimeDefault"},
        },
    }


def _mount(
    name: str, path: str, inside: str, *, writable: bool = False, create: bool = False
) -> tuple[dict[str, Any], dict[str, Any]]:
    """A folder of the host: how the container mounts it, and the volume."""
    kind = "DirectoryOrCreate" if create else "Directory"
    mount = {"name": name, "mountPath": inside} | ({} if writable else {"readOnly": True})
    return mount, {"name": name, "hostPath": {"path": path, "type": kind}}
