"""Programs of NVIDIA's GPU Operator on nodes, as their pods and DaemonSets are labelled. Pure.

Any user may put such a label on a pod. A pod counts only where it may do what these programs do, which a cluster that
has tenants lets no tenant's pod do: it has a privileged container.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Final, Literal, TypeAlias

from pydantic import BeforeValidator, Field

from controllers.api import names
from controllers.api.kube import PodStatus
from controllers.api.meta import KubeObject, ObjectMeta, keeping
from controllers.api.record import record
from controllers.api.resources import Resource

Part = Literal["driver", "toolkit", "plugin", "mig"]
"""What a program does on a node, as `status.managedElsewhere` names it."""
APPS: Final[dict[str, Part]] = {
    "nvidia-driver-daemonset": "driver",
    "nvidia-container-toolkit-daemonset": "toolkit",
    "nvidia-device-plugin-daemonset": "plugin",
    "nvidia-mig-manager": "mig",
}
"""By label `app` (GPU Operator v26.7.0, `assets/`)."""
COMPONENT: Final = "app.kubernetes.io/component"
DRIVER: Final = "nvidia-driver"
"""Value of that label on pods of drivers, whether of a ClusterPolicy or of an NVIDIADriver."""
DEPLOY: Final = "nvidia.com/gpu.deploy."
"""Before the operator's label for each of its programs."""
OPERANDS_OFF: Final = (f"{DEPLOY}operands", "false")
"""Label and value by which a person keeps all of its programs off a node."""
DEPLOY_DRIVER: Final = f"{DEPLOY}driver"
BY_APP: Final = f"{names.LABEL_APP} in ({','.join(APPS)})"
BY_COMPONENT: Final = f"{COMPONENT}={DRIVER},{names.LABEL_APP} notin ({','.join(APPS)})"
"""Two selectors that find every such pod, and none twice."""
DRIVERS: Final = f"{COMPONENT}={DRIVER}"
"""The selector of DaemonSets and pods of drivers."""


OPERANDS: Final = frozenset((
    *APPS, "gpu-feature-discovery", "nvidia-dcgm", "nvidia-dcgm-exporter", "nvidia-device-plugin-mps-control-daemon",
    "nvidia-node-status-exporter", "nvidia-operator-validator",
))  # fmt: skip
"""All programs that the operator runs on nodes whose cards containers use, by label `app`."""
OPERANDS_BY_APP: Final = f"{names.LABEL_APP} in ({','.join(sorted(OPERANDS))})"
OPERANDS_BY_COMPONENT: Final = f"{COMPONENT}={DRIVER},{names.LABEL_APP} notin ({','.join(sorted(OPERANDS))})"
"""Two selectors that find pods and DaemonSets of all of them, and none twice."""
CARD: Final = "nvidia.com/gpu"
"""The resource of whole cards that NVIDIA's device plugin offers; shared ones may be `nvidia.com/gpu.shared`."""
MIG: Final = "nvidia.com/mig-"
"""How those of MIG instances begin."""
CLUSTERPOLICY: Final = Resource("nvidia.com", "v1", "clusterpolicies", "ClusterPolicy", namespaced=False)
NVIDIADRIVER: Final = Resource("nvidia.com", "v1alpha1", "nvidiadrivers", "NVIDIADriver", namespaced=False)
GPUCLUSTER: Final = Resource("nvidia.com", "v1alpha1", "gpuclusters", "GPUCluster", namespaced=False)
OPERATOR: Final = f"{COMPONENT}=gpu-operator"
"""The selector of the operator's Deployment."""
UPGRADE_STATE: Final = "nvidia.com/gpu-driver-upgrade-state"
"""Node label: how far the operator is with an upgrade of the node's driver."""
UPGRADE_DONE: Final = "upgrade-done"
WAITS_TO_LOAD: Final = "nvidia.com/gpu-driver-upgrade.driver-wait-for-safe-load"
"""Node annotation: a driver's pod waits until the operator has cordoned and drained the node."""
TOOLKIT_PID: Final = "/run/nvidia/toolkit/toolkit.pid"
"""On the host: where the operator's toolkit keeps the number of its process, while that lives."""
TOOLKIT_PROGRAMS: Final = frozenset(("nvidia-ctk-installer", "nvidia-toolkit"))
"""Names of that process's program, in newer and older images."""


def is_upgrading(labels: Mapping[str, str]) -> bool:
    """Whether the operator is amid an upgrade of the driver of a node with these labels."""
    return labels.get(UPGRADE_STATE, "") not in ("", UPGRADE_DONE)


def waits_to_load(annotations: Mapping[str, str]) -> bool:
    """Whether a driver waits on a node with these annotations until the operator has drained it."""
    return WAITS_TO_LOAD in annotations


def part_of(labels: dict[str, str]) -> Part | None:
    """What a program with these labels does; None for one of no part that matters here."""
    if labels.get(COMPONENT) == DRIVER:
        return "driver"
    return APPS.get(labels.get(names.LABEL_APP, ""))


def is_adopted(meta: ObjectMeta, *, privileged: bool) -> bool:
    """Whether a pod is a driver that a person gave over to the module, and that no DaemonSet keeps any more.

    `privileged`: whether one of its containers is; nothing else loads a driver, and no tenant's pod is.
    """
    given = meta.labels.get(names.DRIVER_ADOPTED) == "true" and part_of(meta.labels) == "driver"
    return privileged and given and meta.daemonset is None


def has_privileges(containers: object) -> bool:
    """Whether a container of a pod's JSON is privileged."""
    found = containers if isinstance(containers, list) else []
    return any((one.get("securityContext") or {}).get("privileged") is True for one in found if isinstance(one, dict))


IsPrivileged: TypeAlias = Annotated[bool, BeforeValidator(has_privileges), Field(alias="containers")]
"""Whether one of a pod's containers is privileged; nothing else of them is kept."""
Bare: TypeAlias = Annotated[ObjectMeta, keeping(frozenset())]
"""Without annotations: any user may make such an object, in any number of words."""


@record
class ForeignPodSpec:
    """Where it runs, and what it may do there."""

    node_name: str | None = None
    is_privileged: IsPrivileged = False
    """Whether one of its containers is privileged."""


@record
class ForeignPod(KubeObject):
    """A pod with labels of such a program."""

    metadata: Bare = Field(default_factory=ObjectMeta)
    spec: ForeignPodSpec = Field(default_factory=ForeignPodSpec)
    status: PodStatus = Field(default_factory=PodStatus)

    @property
    def part(self) -> Part | None:
        """What it does on its node, now; None for one that has ended, or may do nothing of the kind."""
        if not self.spec.is_privileged or self.status.phase in ("Succeeded", "Failed"):
            return None
        return part_of(self.metadata.labels)

    @property
    def is_adopted(self) -> bool:
        """Whether it is a driver that a person gave over to the module, and that no DaemonSet keeps any more."""
        return is_adopted(self.metadata, privileged=self.spec.is_privileged)

    @property
    def who(self) -> str:
        """Who runs it, for people: its DaemonSet, or the pod itself; `<namespace>/<name>`."""
        return f"{self.metadata.namespace}/{self.metadata.daemonset or self.name}"


@record
class ForeignTemplateSpec:
    """On which nodes a DaemonSet's pods are to be, and what they may do there."""

    node_selector: dict[str, str] = Field(default_factory=dict)
    is_privileged: IsPrivileged = False
    """Whether one of their containers is privileged."""


@record
class ForeignTemplate:
    """A DaemonSet's pods."""

    spec: ForeignTemplateSpec = Field(default_factory=ForeignTemplateSpec)


@record
class ForeignDaemonSetSpec:
    """What it says of its pods."""

    template: ForeignTemplate = Field(default_factory=ForeignTemplate)


@record
class ForeignDaemonSet(KubeObject):
    """A DaemonSet of drivers."""

    metadata: Bare = Field(default_factory=ObjectMeta)
    spec: ForeignDaemonSetSpec = Field(default_factory=ForeignDaemonSetSpec)

    @property
    def drives(self) -> bool:
        """Whether its pods could drive nodes that the operator labelled for that."""
        asked = self.spec.template.spec
        return asked.is_privileged and DEPLOY_DRIVER in asked.node_selector

    def is_for(self, labels: dict[str, str]) -> bool:
        """Whether its pods could drive a node with these labels, one of which is the operator's word for that.

        Anybody who may make a DaemonSet can say so of any node that the operator labelled: it counts only in a
        namespace in which a pod of such a program was let in with its privileges (`ForeignPod.part`).
        """
        return self.drives and self.spec.template.spec.node_selector.items() <= labels.items()


def is_plugins(resource: str) -> bool:
    """Whether an extended resource is of NVIDIA's device plugin: cards, shared cards, or MIG instances."""
    return resource == CARD or resource.startswith((f"{CARD}.", MIG))
