"""The components' DaemonSets, each built whole by one function. Pure.

They use the driver that the administrator installed on the host. What reaches into the host
does so by root with the mounts that it needs; only what enters other root file systems or
the container runtime is privileged. Images are NVIDIA's, by version; settings override them.
"""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Final

from controllers.api import names
from controllers.bootstrap import parts
from controllers.bootstrap.parts import RUNTIME_CLASS, TOOLKIT_ROOT
from controllers.bootstrap.phases import PHASES, setting

if TYPE_CHECKING:
    from collections.abc import Callable

    from controllers.api.settings import BootstrapSettings
    from controllers.bootstrap.parts import Json

HANDLER: Final = "nvidia"
# Versions that NVIDIA's GPU operator v26.7.0 ships together.
IMAGES: Final = {
    "driver-validator": "nvcr.io/nvidia/gpu-operator:v26.7.0",
    "toolkit": "nvcr.io/nvidia/k8s/container-toolkit:v1.20.0",
    "gfd": "nvcr.io/nvidia/k8s-device-plugin:v0.20.0",
    "dcgm": "nvcr.io/nvidia/cloud-native/dcgm:4.6.0-1-ubuntu24.04",
    "dcgm-exporter": "nvcr.io/nvidia/k8s/dcgm-exporter:4.6.0-4.8.3-distroless",
    "validator": "nvcr.io/nvidia/gpu-operator:v26.7.0",
}
# On the host's network, so from the range that Deckhouse leaves to modules.
DCGM_PORT, EXPORTER_PORT = 4255, 4256


def object_name(component: str) -> str:
    """The name of a component's DaemonSet."""
    return f"gpu-{component}"


def daemonsets(settings: BootstrapSettings) -> dict[str, Json]:
    """The DaemonSets that are to run, by name: whole objects but for what names them."""
    made = {}
    for phase in PHASES:
        chosen = setting(phase, settings)
        if chosen.enabled:
            image = chosen.image or IMAGES[phase.component]
            made[object_name(phase.component)] = _daemonset(phase.component, _PODS[phase.component](image, settings))
    return made


def labels(component: str) -> dict[str, str]:
    """Labels of a component's DaemonSet and pods."""
    return {
        names.LABEL_HERITAGE: "deckhouse",
        names.LABEL_MODULE: names.MODULE,
        names.LABEL_APP: object_name(component),
        names.LABEL_COMPONENT: component,
    }


def runtime_classes() -> dict[str, Json]:
    """The RuntimeClass under which containers see cards: the API server refuses pods that name an absent one."""
    meta = {"labels": {names.LABEL_HERITAGE: "deckhouse", names.LABEL_MODULE: names.MODULE}}
    return {RUNTIME_CLASS: {"metadata": meta, "handler": HANDLER}}


def _daemonset(component: str, pod: Json) -> Json:
    """What all components have in common around a pod."""
    common = {
        "nodeSelector": {names.deploy_label(component): "true"},
        "priorityClassName": "system-node-critical",
        # A node that is not ready, cordoned or reserved for a pool is prepared all the same.
        "tolerations": [{"operator": "Exists"}],
        "automountServiceAccountToken": False,
        "terminationGracePeriodSeconds": 30,
    }
    spec = {
        "selector": {"matchLabels": {names.LABEL_APP: object_name(component)}},
        "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "10%"}},
        "revisionHistoryLimit": 2,
        "template": {"metadata": {"labels": labels(component)}, "spec": common | pod},
    }
    annotations = {names.SPEC_HASH: spec_hash(spec)}
    return {"metadata": {"labels": labels(component), "annotations": annotations}, "spec": spec}


def spec_hash(spec: Json) -> str:
    """What tells one version of a spec from another."""
    return hashlib.sha256(json.dumps(spec, sort_keys=True).encode()).hexdigest()[:16]


def _driver_validator(image: str, _: BootstrapSettings) -> Json:
    """Runs the host's nvidia-smi until it answers; ready means that the driver works."""
    check = parts.validation(
        "driver", image, [*parts.mounts("validations", "dev-char"), parts.mount("host", "/host", read_only=True)]
    )
    check["env"].append({"name": "WITH_WAIT", "value": "true"})
    return {
        "initContainers": [check],
        "containers": [parts.holder("driver-validator", image, "driver-ready")],
        "volumes": parts.volumes("host", "validations", "dev-char"),
    }


def _toolkit(image: str, _: BootstrapSettings) -> Json:
    """Installs the container toolkit on the host and tells the container runtime of it."""
    env = {
        "ROOT": TOOLKIT_ROOT,
        "RUNTIME": "containerd",
        "CONTAINERD_RUNTIME_CLASS": RUNTIME_CLASS,
        "RUNTIME_CONFIG": "/runtime/config-dir/config.toml",
        "RUNTIME_DROP_IN_CONFIG": "/runtime/config-dir.d/99-nvidia.toml",
        "RUNTIME_DROP_IN_CONFIG_HOST_PATH": "/etc/containerd/conf.d/99-nvidia.toml",
        "RUNTIME_SOCKET": "/runtime/sock-dir/containerd.sock",
        "CDI_ENABLED": "true",
        "NVIDIA_RUNTIME_SET_AS_DEFAULT": "false",
        "NVIDIA_CONTAINER_RUNTIME_MODE": "cdi",
        "NVIDIA_CONTAINER_RUNTIME_MODES_CDI_DEFAULT_KIND": "management.nvidia.com/gpu",
        "NVIDIA_DRIVER_ROOT": "/",
        "DRIVER_ROOT_CTR_PATH": "/host",
        "NVIDIA_VISIBLE_DEVICES": "void",
        "TOOLKIT_PID_FILE": "/run/nvidia/toolkit/toolkit.pid",
    }
    container = {
        "name": "toolkit",
        "image": image,
        "command": ["nvidia-toolkit"],
        "env": parts.env(env),
        # The runtime's socket and configuration, and signals to it, are root's of the host.
        "securityContext": {"privileged": True},
        "resources": parts.resources("20m", "64Mi", "256Mi"),
        "readinessProbe": parts.run(f"test -x {TOOLKIT_ROOT}/toolkit/nvidia-container-runtime", 5),
        "livenessProbe": parts.run("kill -0 $(cat /run/nvidia/toolkit/toolkit.pid)", 30),
        "volumeMounts": [
            *parts.mounts("toolkit-run", "toolkit-root", "cdi"),
            parts.mount("containerd-config", "/runtime/config-dir"),
            parts.mount("containerd-drop-ins", "/runtime/config-dir.d"),
            parts.mount("containerd-socket", "/runtime/sock-dir"),
            parts.mount("host", "/host", read_only=True),
        ],
    }
    volumes = ("toolkit-run", "toolkit-root", "cdi", "containerd-config", "containerd-drop-ins", "containerd-socket")
    return {"hostPID": True, "containers": [container], "volumes": parts.volumes(*volumes, "host")}


def _gfd(image: str, _: BootstrapSettings) -> Json:
    """Describes the cards in labels, through a features file that NFD's worker reads."""
    container = {
        "name": "gfd",
        "image": image,
        "command": ["gpu-feature-discovery"],
        "env": [
            *parts.env(
                {
                    "GFD_SLEEP_INTERVAL": "60s",
                    "GFD_FAIL_ON_INIT_ERROR": "true",
                    # By default it would write a NodeFeature itself, for which it has no rights here.
                    "GFD_USE_NODE_FEATURE_API": "false",
                    "NVIDIA_VISIBLE_DEVICES": "all",
                }
            ),
            parts.from_field("NODE_NAME", "spec.nodeName"),
        ],
        "securityContext": parts.root(),
        "resources": parts.resources("10m", "64Mi", "128Mi"),
        "readinessProbe": parts.run("test -s /etc/kubernetes/node-feature-discovery/features.d/gfd", 5),
        "livenessProbe": parts.run("test -d /etc/kubernetes/node-feature-discovery/features.d", 60),
        "volumeMounts": [*parts.mounts("features"), parts.mount("sys", "/sys", read_only=True)],
    }
    return {"runtimeClassName": RUNTIME_CLASS, "containers": [container], "volumes": parts.volumes("features", "sys")}


def _dcgm(image: str, _: BootstrapSettings) -> Json:
    """The host engine, for the exporter of the same node alone: it listens on loopback."""
    container = {
        "name": "dcgm",
        "image": image,
        "command": ["nv-hostengine"],
        "args": ["-n", "-b", "127.0.0.1", "-p", str(DCGM_PORT)],
        "env": parts.env({"NVIDIA_VISIBLE_DEVICES": "all"}),
        # Profiling counters need SYS_ADMIN.
        "securityContext": parts.root(add=["SYS_ADMIN"], read_only=False),
        "resources": parts.resources("50m", "128Mi", "512Mi"),
        "ports": [{"name": "dcgm", "containerPort": DCGM_PORT, "protocol": "TCP"}],
        "readinessProbe": parts.probe({"tcpSocket": {"host": "127.0.0.1", "port": DCGM_PORT}}, 5),
        "livenessProbe": parts.probe({"tcpSocket": {"host": "127.0.0.1", "port": DCGM_PORT}}, 30),
    }
    return parts.on_host_network(container)


def _dcgm_exporter(image: str, settings: BootstrapSettings) -> Json:
    """Telemetry as text; through the host engine where that runs, else with an engine of its own."""
    env = {
        "DCGM_EXPORTER_LISTEN": f":{EXPORTER_PORT}",
        "DCGM_EXPORTER_KUBERNETES": "true",
        "DCGM_EXPORTER_COLLECTORS": "/etc/dcgm-exporter/dcp-metrics-included.csv",
        "NVIDIA_VISIBLE_DEVICES": "all",
    }
    if settings.dcgm.enabled:
        env["DCGM_REMOTE_HOSTENGINE_INFO"] = f"127.0.0.1:{DCGM_PORT}"
    health = {"httpGet": {"path": "/health", "port": "metrics"}}
    container = {
        "name": "dcgm-exporter",
        "image": image,
        "env": [*parts.env(env), parts.from_field("NODE_NAME", "spec.nodeName")],
        "securityContext": parts.root(add=[] if settings.dcgm.enabled else ["SYS_ADMIN"], read_only=False),
        "resources": parts.resources("50m", "128Mi", "512Mi"),
        "ports": [{"name": "metrics", "containerPort": EXPORTER_PORT, "protocol": "TCP"}],
        "readinessProbe": parts.probe(health, 5),
        "livenessProbe": parts.probe(health, 30),
        "volumeMounts": [parts.mount("pod-resources", "/var/lib/kubelet/pod-resources", read_only=True)],
    }
    return parts.on_host_network(container, "pod-resources")


def _validator(image: str, _: BootstrapSettings) -> Json:
    """A container under the runtime class that must see the cards; ready means that it does."""
    check = parts.validation("toolkit", image, parts.mounts("validations"))
    check["env"] += [{"name": "WITH_WAIT", "value": "true"}, {"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]
    return {
        "runtimeClassName": RUNTIME_CLASS,
        "initContainers": [check],
        "containers": [parts.holder("validator", image, "toolkit-ready")],
        "volumes": parts.volumes("validations"),
    }


_PODS: dict[str, Callable[[str, BootstrapSettings], Json]] = {
    "driver-validator": _driver_validator,
    "toolkit": _toolkit,
    "gfd": _gfd,
    "dcgm": _dcgm,
    "dcgm-exporter": _dcgm_exporter,
    "validator": _validator,
}
