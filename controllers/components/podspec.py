"""Pieces of a PodSpec: volumes and mounts of the host, environment, resources, security, probes. Pure."""

from __future__ import annotations

from typing import Any, Final

from controllers.api import names

Json = dict[str, Any]

TOOLKIT_ROOT: Final = "/usr/local/nvidia"
DRIVER_ROOT: Final = "/run/nvidia/driver"
"""Where GPU Operator's driver container mounts its root; an agent that is told nothing looks there."""
# name: path on the host, type
HOST_PATHS: Final = {
    "host": ("/", "Directory"),
    "usr": ("/usr", "Directory"),
    "etc": ("/etc", "Directory"),
    "toolkit-run": ("/run/nvidia/toolkit", "DirectoryOrCreate"),
    "toolkit-root": (TOOLKIT_ROOT, "DirectoryOrCreate"),
    "cdi": ("/var/run/cdi", "DirectoryOrCreate"),
    "features": ("/etc/kubernetes/node-feature-discovery/features.d", "DirectoryOrCreate"),
    "sys": ("/sys", "Directory"),
    "pod-resources": ("/var/lib/kubelet/pod-resources", "Directory"),
}


def on_host_network(container: Json, *paths: str) -> Json:
    """A pod on the host's network."""
    pod = {"runtimeClassName": names.RUNTIME_CLASS, "hostNetwork": True, "dnsPolicy": "ClusterFirstWithHostNet"}
    return pod | {"containers": [container]} | ({"volumes": volumes(*paths)} if paths else {})


def volumes(*keys: str) -> list[Json]:
    """Volumes of the host."""
    paths = ((name, *HOST_PATHS[name]) for name in keys)
    return [host_volume(name, path, kind) for name, path, kind in paths]


def host_volume(name: str, path: str, kind: str | None = None) -> Json:
    """A volume of the host; without a kind kubelet does not look what is there."""
    return {"name": name, "hostPath": {"path": path} | ({"type": kind} if kind else {})}


def mounts(*keys: str) -> list[Json]:
    """Mounts at the host's own paths."""
    return [mount(name, HOST_PATHS[name][0]) for name in keys]


def mount(volume: str, path: str, *, read_only: bool = False) -> Json:
    """One mount."""
    return {"name": volume, "mountPath": path} | ({"readOnly": True} if read_only else {})


def later(mount: Json) -> Json:
    """A mount that shows what is mounted on the host after the pod's start; of a host whose mounts are shared."""
    return mount | {"mountPropagation": "HostToContainer"}


def env(values: dict[str, str]) -> list[Json]:
    """Environment from plain values."""
    return [{"name": name, "value": value} for name, value in values.items()]


def from_field(name: str, path: str) -> Json:
    """Environment from a field of the pod."""
    return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}


def resources(cpu: str, memory: str, limit: str) -> Json:
    """Requests, and a limit of memory: a limit of CPU would only slow the node's preparation."""
    return {
        "requests": {"cpu": cpu, "memory": memory, "ephemeral-storage": "50Mi"},
        "limits": {"memory": limit},
    }


def root(*, add: list[str] | None = None, read_only: bool = True) -> Json:
    """Root without privileges: device files and kubelet's sockets are root's."""
    capabilities: Json = {"drop": ["ALL"]} | ({"add": add} if add else {})
    return {
        "runAsUser": 0,
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": read_only,
        "capabilities": capabilities,
        "seccompProfile": {"type": "RuntimeDefault"},
    }


def probe(check: Json, period: int) -> Json:
    """A check and its rhythm."""
    return {**check, "periodSeconds": period, "failureThreshold": 3}


def run(script: str, period: int) -> Json:
    """A probe that runs a script; on a node that is busy a shell takes its time."""
    return probe({"exec": {"command": ["sh", "-c", script]}, "timeoutSeconds": 10}, period)
