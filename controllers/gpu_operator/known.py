"""The fields of GPU Operator's objects, in version 26.7. Pure.

A path is the field's keys below `spec`, parted by dots. What Kubernetes or people define below an OPAQUE field is known
as a whole.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

OPAQUE: Final = frozenset(
    (
        *("additionalLabels", "annotations", "args", "env", "initContainer", "labels", "livenessProbe", "nodeAffinity"),
        *("nodeSelector", "podLabelAllowlistRegex", "podSecurityContext", "readinessProbe", "relabelings", "resources"),
        *("runtimeClasses", "startupProbe", "tolerations"),
    )
)
_IMAGE: Final = "repository image version imagePullPolicy imagePullSecrets"
_PART: Final = f"{_IMAGE} enabled args env resources hostNetwork"
_PROBES: Final = "startupProbe livenessProbe readinessProbe"
_MONITOR: Final = " ".join(
    f"serviceMonitor.{word}"
    for word in ("enabled", "interval", "scrapeTimeout", "honorLabels", "additionalLabels", "relabelings")
)
_UPGRADE: Final = " ".join(
    f"upgradePolicy.{word}"
    for word in (
        *("autoUpgrade", "maxParallelUpgrades", "maxUnavailable"),
        *("drain.enable", "drain.force", "drain.podSelector", "drain.timeoutSeconds", "drain.deleteEmptyDir"),
        *("podDeletion.force", "podDeletion.timeoutSeconds", "podDeletion.deleteEmptyDir"),
        *("waitForCompletion.podSelector", "waitForCompletion.timeoutSeconds"),
    )
)
_MANAGER: Final = " ".join(f"manager.{word}" for word in (*_IMAGE.split(), "env"))
_DRIVER: Final = (
    f"{_PROBES} {_UPGRADE} {_MANAGER} certConfig.name kernelModuleConfig.name kernelModuleType"
    " licensingConfig.nlsEnabled licensingConfig.secretName rdma.enabled rdma.useHostMofed secretEnv"
    " useOpenKernelModules usePrecompiled"
)
_SECTIONS: Final = {
    "ccManager": f"{_PART} defaultMode",
    "cdi": "default enabled nriPluginEnabled",
    "daemonsets": "annotations labels podSecurityContext priorityClassName rollingUpdate.maxUnavailable tolerations"
    " updateStrategy",
    "dcgm": f"{_PART} hostPort",
    "dcgmExporter": f"{_PART} annotations config.name enablePodLabels enablePodUID hostPID hpcJobMapping.directory"
    f" hpcJobMapping.enabled podLabelAllowlistRegex service.internalTrafficPolicy service.type {_MONITOR}",
    "devicePlugin": f"{_PART} config.default config.name mps.root",
    "driver": f"{_PART} {_DRIVER} licensingConfig.configMapName repoConfig.configMapName useNvidiaDriverCRD"
    " virtualTopology.config",
    "gdrcopy": f"{_IMAGE} enabled args env",
    "gds": f"{_IMAGE} enabled args env",
    "gfd": _PART,
    "hostPaths": "driverInstallDir kubeletRootDir rootFS",
    "kataManager": f"{_PART} config.artifactsDir config.runtimeClasses",
    "kataSandboxDevicePlugin": _PART,
    "mig": "strategy",
    "migManager": f"{_PART} config.default config.name gpuClientsConfig.name",
    "nodeStatusExporter": _PART,
    "operator": "annotations defaultRuntime initContainer labels runtimeClass use_ocp_driver_toolkit"
    + "".join(f" metrics.{word}" for word in _MONITOR.split()),
    "psa": "enabled",
    "psp": "enabled",
    "sandboxDevicePlugin": _PART,
    "sandboxWorkloads": "defaultWorkload enabled mode",
    "toolkit": f"{_PART} installDir",
    "validator": f"{_PART} cuda.env driver.env plugin.env toolkit.env vfioPCI.env vgpuDevices.env vgpuManager.env",
    "vfioManager": f"{_PART} " + " ".join(f"driverManager.{word}" for word in (*_IMAGE.split(), "env")),
    "vgpuDeviceManager": f"{_PART} config.default config.name",
    "vgpuManager": f"{_PART} kernelModuleConfig.name "
    + " ".join(f"driverManager.{word}" for word in (*_IMAGE.split(), "env")),
}
CLUSTER_POLICY: Final = frozenset(f"{name}.{word}" for name, words in _SECTIONS.items() for word in words.split())
NVIDIA_DRIVER: Final = frozenset(
    (
        *_IMAGE.split(),
        *_DRIVER.split(),
        *(f"{side}.{word}" for side in ("gds", "gdrcopy") for word in (*_IMAGE.split(), "enabled", "args", "env")),
        *("annotations", "args", "default", "driverType", "env", "hostNetwork", "labels", "licensingConfig.name"),
        *("nodeAffinity", "nodeSelector", "podSecurityContext", "priorityClassName", "repoConfig.name", "resources"),
        *("tolerations", "virtualTopologyConfig.name"),
    )
)


def is_known(path: str, fields: frozenset[str]) -> bool:
    """Whether a field of these has that path, lies above it, or is opaque and lies below it."""
    keys = path.split(".")
    above = (".".join(keys[:length]) for length in range(1, len(keys) + 1))
    if any(part in fields and (part == path or part.rpartition(".")[2] in OPAQUE) for part in above):
        return True
    return any(field.startswith(f"{path}.") for field in fields)


def leaves(spec: Any, at: str = "") -> Iterator[tuple[str, Any]]:
    """Paths and values of what is no group of fields, in their order; an empty group is a leaf."""
    if not isinstance(spec, Mapping) or not spec or at.rpartition(".")[2] in OPAQUE - {"nodeAffinity", "resources"}:
        if at:
            yield at, spec
        return
    for key, value in spec.items():
        yield from leaves(value, f"{at}.{key}" if at else str(key))
