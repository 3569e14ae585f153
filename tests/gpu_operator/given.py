"""Objects of GPU Operator's for the tests, in version 26.7; facts of NVIDIA/gpu-operator's CRDs and chart."""

from __future__ import annotations

from typing import Any

import yaml

from controllers.gpu_operator.imported import Imported, imported
from controllers.gpu_operator.source import read

NVIDIA = "nvcr.io/nvidia"


def policy(**spec: Any) -> dict[str, Any]:
    """A ClusterPolicy."""
    meta = {"name": "cluster-policy"}
    return {"apiVersion": "nvidia.com/v1", "kind": "ClusterPolicy", "metadata": meta, "spec": spec}


def nvidia_driver(name: str = "main", **spec: Any) -> dict[str, Any]:
    """An NVIDIADriver."""
    body = {"driverType": "gpu", "version": "580.105.08", **spec}
    return {"apiVersion": "nvidia.com/v1alpha1", "kind": "NVIDIADriver", "metadata": {"name": name}, "spec": body}


def config_map(name: str, **data: str) -> dict[str, Any]:
    """A ConfigMap."""
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


def node(name: str, labels: dict[str, str], **more: Any) -> dict[str, Any]:
    """A Node."""
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels, **more}}


def of(*objects: dict[str, Any]) -> Imported:
    """The import of these."""
    return imported(read([("given.yaml", yaml.safe_dump_all(objects))]))


def kinds(made: Imported, kind: str) -> dict[str, Any]:
    """The specs of the objects of a kind, by name."""
    return {one["metadata"]["name"]: one["spec"] for one in made.objects if one["kind"] == kind}


def remarks(made: Imported, kind: str = "") -> dict[str, str]:
    """Reasons by the field's path."""
    chosen = (one for one in made.remarks if not kind or one.kind == kind)
    return {one.about.partition(": ")[2] or one.about: one.reason for one in chosen}


def usual() -> dict[str, Any]:
    """What the chart of 26.7 makes where nobody sets a value, as far as an import reads it."""
    part = {"imagePullPolicy": "IfNotPresent", "hostNetwork": False}
    upgrade = {
        "autoUpgrade": True,
        "maxParallelUpgrades": 1,
        "maxUnavailable": "25%",
        "waitForCompletion": {"timeoutSeconds": 0, "podSelector": ""},
        "podDeletion": {"force": False, "timeoutSeconds": 300, "deleteEmptyDir": False},
        "drain": {"enable": False, "force": False, "podSelector": "", "timeoutSeconds": 300, "deleteEmptyDir": False},
    }
    tolerations = [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}]
    return {
        "cdi": {"enabled": True, "nriPluginEnabled": False},
        "daemonsets": {
            "priorityClassName": "system-node-critical",
            "tolerations": tolerations,
            "updateStrategy": "RollingUpdate",
            "rollingUpdate": {"maxUnavailable": "1"},
        },
        "dcgm": part | {"enabled": False, "repository": f"{NVIDIA}/cloud-native", "image": "dcgm"},
        "dcgmExporter": part | {"enabled": True, "repository": f"{NVIDIA}/k8s", "image": "dcgm-exporter",
                                "version": "4.6.0-4.8.3-distroless", "enablePodLabels": False,
                                "serviceMonitor": {"enabled": True, "interval": "15s", "honorLabels": False}},
        "devicePlugin": part | {"enabled": True, "repository": NVIDIA, "image": "k8s-device-plugin",
                                "version": "v0.20.0", "mps": {"root": "/run/nvidia/mps"}},
        "driver": part | {"enabled": True, "useNvidiaDriverCRD": False, "kernelModuleType": "auto",
                          "usePrecompiled": False, "repository": NVIDIA, "image": "driver", "version": "595.91.07",
                          "rdma": {"enabled": False, "useHostMofed": False}, "upgradePolicy": upgrade,
                          "startupProbe": {"initialDelaySeconds": 60, "failureThreshold": 120},
                          "manager": {"repository": f"{NVIDIA}/cloud-native", "image": "k8s-driver-manager",
                                      "version": "v0.12.0", "imagePullPolicy": "IfNotPresent"},
                          "licensingConfig": {"secretName": "", "nlsEnabled": True}},
        "gds": {"enabled": False, "repository": f"{NVIDIA}/cloud-native", "image": "nvidia-fs", "version": "2.29.4"},
        "gfd": part | {"enabled": True, "repository": NVIDIA, "image": "k8s-device-plugin", "version": "v0.20.0"},
        "hostPaths": {"rootFS": "/", "driverInstallDir": "/run/nvidia/driver"},
        "mig": {"strategy": "single"},
        "migManager": part | {"enabled": True, "repository": f"{NVIDIA}/cloud-native", "image": "k8s-mig-manager",
                              "version": "v0.15.0", "config": {"name": "", "default": "all-disabled"},
                              "gpuClientsConfig": {"name": ""}},
        "nodeStatusExporter": part | {"enabled": False, "repository": NVIDIA, "image": "gpu-operator"},
        "operator": {"runtimeClass": "nvidia", "use_ocp_driver_toolkit": False, "defaultRuntime": "containerd"},
        "sandboxWorkloads": {"enabled": False, "defaultWorkload": "container", "mode": "kubevirt"},
        "toolkit": part | {"enabled": True, "repository": f"{NVIDIA}/k8s", "image": "container-toolkit",
                           "version": "v1.20.0", "installDir": "/usr/local/nvidia"},
        "validator": part | {"repository": NVIDIA, "image": "gpu-operator", "plugin": {"env": []}},
        "vfioManager": part | {"enabled": True, "repository": f"{NVIDIA}/cloud-native", "version": "v0.12.0"},
    }  # fmt: skip
