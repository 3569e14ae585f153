"""Why a field of GPU Operator's has no counterpart here. Pure.

A row is a pattern of paths, the reason, and values that are as good as none: GPU Operator's own defaults, which stand
in every ClusterPolicy although nobody asked for them. The first row that matches holds.
"""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, Final

UPSTREAM: Final = "nvcr.io/nvidia"
"""How the repositories begin in which NVIDIA publishes the images."""
EVERYTHING: Final = object()
"""Of a row that is silent whatever the value is."""
OWN_PART: Final = "the module does this with programs of its own"
SANDBOX: Final = "cards for virtual machines, Kata containers and confidential computing are not served by the module"


@dataclass(frozen=True, slots=True)
class Row:
    """The reason for fields whose paths match a pattern."""

    pattern: str
    reason: str
    usual: tuple[Any, ...] = ()


@dataclass(frozen=True, slots=True)
class Reasons:
    """The rows for the fields of one kind."""

    rows: tuple[Row, ...]

    def reason(self, path: str, value: Any) -> str:
        """Why nothing here does what the field asks for; empty for a value that asks for nothing."""
        row = self.row(path)
        if row is None:
            return "nothing in the module does this"
        if row.usual == (EVERYTHING,) or value in row.usual:
            return ""
        is_upstream = path.rpartition(".")[2] == "repository" and str(value).startswith(UPSTREAM)
        return "" if is_upstream else row.reason

    def row(self, path: str) -> Row | None:
        """The row that holds for a path."""
        return next((row for row in self.rows if fnmatchcase(path, row.pattern)), None)

    @staticmethod
    def may_be_shown(path: str) -> bool:
        """Whether the field's value is no place for secrets, as environments are."""
        return not {"env", "args", "annotations"} & {*path.split(".")}


_SILENT: Final = (EVERYTHING,)
_SHARED: Final = (
    Row("*startupProbe*", "the driver's pods have probes of the module's own", _SILENT),
    Row("*livenessProbe*", "the driver's pods have probes of the module's own"),
    Row("*readinessProbe*", "the driver's pods have probes of the module's own"),
    Row("*manager.env", "the module has no driver manager: gpu-driver-controller and the node's agent do its work"),
    Row("*manager.repository", "the module has no driver manager, whose image is not needed"),
    Row("*manager.*", "the module has no driver manager", _SILENT),
    Row("*useOpenKernelModules", "GPU Operator no longer follows it either; kernelModuleType is what counts", (False,)),
    Row("*licensingConfig.nlsEnabled", "the module always uses NVIDIA's licence system (NLS)", (True,)),
    Row("*imagePullPolicy", "the module's components pull images that their node does not have", ("IfNotPresent",)),
    Row(
        "*imagePullSecrets",
        "the module's components pull with the registry credentials of its installation (registry.dockercfg)",
    ),
    Row("*hostNetwork", "pods of the module choose their network by themselves", (False,)),
    Row("*podSecurityContext*", "the module's policies know what its pods may do; nothing else may be given to them"),
    Row("*tolerations*", "the module's pods tolerate what keeps other pods from nodes with cards", _SILENT),
    Row("*priorityClassName", "the module's pods have a priority class of their own", ("system-node-critical",)),
    Row("*resources.*", "of a container's resources requests and limits are taken over, where a setting takes them"),
    Row("nodeAffinity.*", "which nodes a driver is for is said by labels that are required"),
    Row("*podSelector", "which pods leave a node is decided by their labels and annotations of protection"),
)
NVIDIA_DRIVER: Final = Reasons(
    (
        *_SHARED,
        Row("g*.args", "arguments of the containers beside the driver's are the module's own"),
        Row("g*.env", "the environment of the containers beside the driver's is the module's own"),
        Row("g*", "the module is switched off", _SILENT),
        Row("args", "a GPUDriver gives its container no arguments: what they ask for has fields of its own"),
        Row("labels*", "labels of the driver's pods are the module's own"),
        Row("annotations*", "annotations of the driver's pods are the module's own"),
    )
)
CLUSTER_POLICY: Final = Reasons(
    (
        Row("mig.strategy", "a pool has a resource of its own, whatever it divides: there is no strategy to choose"),
        Row("sandboxWorkloads.enabled", SANDBOX, (False,)),
        Row("sandboxWorkloads.*", SANDBOX, _SILENT),
        Row("vgpuManager.enabled", f"{SANDBOX}: a vGPU host's driver is not installed", (False,)),
        Row("kataManager.enabled", SANDBOX, (False,)),
        *(
            Row(f"{name}.*", SANDBOX, _SILENT)
            for name in (
                *("ccManager", "kataManager", "kataSandboxDevicePlugin", "sandboxDevicePlugin", "vfioManager"),
                *("vgpuDeviceManager", "vgpuManager"),
            )
        ),
        *_SHARED,
        *(
            row
            for name in ("validator", "devicePlugin", "migManager", "nodeStatusExporter")
            for row in (
                Row(f"{name}.repository", f"{OWN_PART}: mirror what kubectl gpu images lists"),
                Row(f"{name}.image", OWN_PART, _SILENT),
                Row(f"{name}.version", OWN_PART, _SILENT),
                Row(f"{name}.resources", f"{OWN_PART}, whose resources are fixed"),
                Row(f"{name}.args", f"{OWN_PART}, which take no arguments from outside"),
                Row(f"{name}*.env", f"{OWN_PART}, which take no environment from outside"),
            )
        ),
        Row("validator.enabled", OWN_PART, _SILENT),
        Row("devicePlugin.mps.root", "the module chooses the folder of MPS by itself", ("/run/nvidia/mps",)),
        Row("migManager.gpuClientsConfig.name", "the module stops its own components alone before it divides a card"),
        Row("dcgm.hostPort", "the host engine has no port outside its pod's network"),
        Row("dcgmExporter.config.name", "the exporter measures what the module's health and dashboards need"),
        Row("dcgmExporter.enable*", "the exporter names pods by namespace and name", (False,)),
        Row("dcgmExporter.podLabelAllowlistRegex*", "the exporter names pods by namespace and name"),
        Row("dcgmExporter.hpcJobMapping.enabled", "jobs of other workload managers are not looked up", (False,)),
        Row("dcgmExporter.hpcJobMapping.directory", "jobs of other workload managers are not looked up"),
        Row("dcgmExporter.hostPID", "pods of the module choose their namespaces by themselves", (False,)),
        Row("dcgmExporter.service*", "the module brings PodMonitors, which need no Service", _SILENT),
        Row("dcgmExporter.annotations*", "annotations of the module's pods are its own"),
        Row("toolkit.installDir", "the toolkit always lies in /usr/local/nvidia", ("/usr/local/nvidia",)),
        Row("g*.args", "arguments of the containers beside the driver's are the module's own"),
        Row("g*.env", "the environment of the containers beside the driver's is the module's own"),
        Row("gds.*", "the module is switched off", _SILENT),
        Row("gdrcopy.*", "the module is switched off", _SILENT),
        Row("driver.args", "a GPUDriver gives its container no arguments: what they ask for has fields of its own"),
        Row("cdi.default", "GPU Operator no longer follows it either", _SILENT),
        Row(
            "cdi.nriPluginEnabled",
            "cards come to containers by CDI names or device nodes, not by an NRI plugin",
            (False,),
        ),
        Row("hostPaths.rootFS", "the host's root is / on every node", ("/",)),
        Row("hostPaths.kubeletRootDir", "kubelet's folder is /var/lib/kubelet on every node", ("/var/lib/kubelet",)),
        Row("operator.runtimeClass", "the module's RuntimeClass is nvidia", ("nvidia",)),
        Row("operator.metrics.*", "the module brings PodMonitors of its own", _SILENT),
        Row("operator.use_ocp_driver_toolkit", "OpenShift's driver toolkit is not used", (False,)),
        Row("operator.*", "the operator's own pods have no counterpart", _SILENT),
        Row("daemonsets.updateStrategy", "the module rolls its DaemonSets out by itself", ("RollingUpdate",)),
        Row("daemonsets.rollingUpdate.*", "the module rolls its DaemonSets out by itself", ("1", 1)),
        Row("daemonsets.labels*", "labels of the module's pods are its own"),
        Row("daemonsets.annotations*", "annotations of the module's pods are its own"),
        Row("psa.enabled", "the namespace of the module is labelled by its chart", (False,)),
        Row("psp.enabled", "Kubernetes has no PodSecurityPolicies any more", (False,)),
    )
)
WITHOUT_DRIVER: Final = Reasons(
    (
        Row("driver.*", "the ClusterPolicy brings no driver", _SILENT),
        *(Row(f"{name}.*", "it brings no driver", _SILENT) for name in ("gds", "gdrcopy")),
        *CLUSTER_POLICY.rows,
    )
)
"""For a ClusterPolicy of which no driver is made, and whose fields of it count for nothing."""
