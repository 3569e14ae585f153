"""Kubernetes' own kinds, as far as the module reads them: each a slots record of the fields used."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pydantic import Field

from controllers.api.meta import Condition, KubeObject
from controllers.api.record import record
from controllers.api.software import Told

if TYPE_CHECKING:
    from collections.abc import Callable


@record
class NodeTaint:
    """A taint of a node."""

    key: str
    value: str = ""
    effect: str = ""
    time_added: str | None = None
    """When a NoExecute taint came; read to be kept, since the list of taints is written as a whole."""


@record
class NodeSpec:
    """The part of a node's spec that decides where pods can go."""

    unschedulable: bool = False
    taints: tuple[NodeTaint, ...] = ()


@record
class NodeCondition:
    """One condition of a node; the other fields change on every heartbeat and are not read."""

    type: str
    status: str
    last_transition_time: str | None = None


@record
class NodeInfo:
    """What kubelet tells of the machine."""

    boot_id: str = ""
    kernel_version: Told = ""
    os_image: Told = ""
    container_runtime_version: Told = ""
    kubelet_version: Told = ""


@record
class NodeStatus:
    """The part of a node's status that the module reads."""

    conditions: tuple[NodeCondition, ...] = ()
    allocatable: dict[str, str] = Field(default_factory=dict)
    node_info: NodeInfo = Field(default_factory=NodeInfo)


@record
class Node(KubeObject):
    """A node."""

    spec: NodeSpec = Field(default_factory=NodeSpec)
    status: NodeStatus = Field(default_factory=NodeStatus)

    @property
    def ready(self) -> bool:
        """Whether kubelet says that the node is Ready."""
        return any(c.type == "Ready" and c.status == "True" for c in self.status.conditions)


@record
class ResourceRequirements:
    """Requests and limits of a container; the values are Kubernetes quantities."""

    requests: dict[str, str | int] = Field(default_factory=dict)
    limits: dict[str, str | int] = Field(default_factory=dict)


@record
class Container:
    """A container, as far as its resources go."""

    name: str = ""
    resources: ResourceRequirements = Field(default_factory=ResourceRequirements)
    restart_policy: str | None = None


def asking(containers: tuple[Container, ...], is_wanted: Callable[[str], bool]) -> tuple[Container, ...]:
    """Those of the containers that ask for a resource that is wanted, with that alone."""
    kept: list[Container] = []
    for each in containers:
        both = (each.resources.requests, each.resources.limits)
        requests, limits = ({key: value for key, value in one.items() if is_wanted(key)} for one in both)
        if requests or limits:
            kept.append(replace(each, resources=ResourceRequirements(requests=requests, limits=limits)))
    return tuple(kept)


@record
class PodSpec:
    """The part of a pod's spec that the module reads."""

    node_name: str | None = None
    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] = ()


@record
class PodCondition:
    """One condition of a pod."""

    type: str
    status: str


@record
class PodStatus:
    """The part of a pod's status that the module reads."""

    phase: str = ""
    start_time: str | None = None
    """When kubelet began with it."""
    conditions: tuple[PodCondition, ...] = ()


@record
class Pod(KubeObject):
    """A pod: one that asks for cards, or one of our operands."""

    spec: PodSpec = Field(default_factory=PodSpec)
    status: PodStatus = Field(default_factory=PodStatus)

    @property
    def node(self) -> str | None:
        """The node that the pod is bound to."""
        return self.spec.node_name

    @property
    def ready(self) -> bool:
        """Whether all its containers serve, and it is not being deleted."""
        serves = any(c.type == "Ready" and c.status == "True" for c in self.status.conditions)
        return serves and self.metadata.deletion_timestamp is None

    @property
    def finished(self) -> bool:
        """Whether it has ended, so that it holds nothing."""
        return self.status.phase in ("Succeeded", "Failed")


@record
class DaemonSetStatus:
    """How far a DaemonSet is rolled out."""

    desired_number_scheduled: int = 0
    number_ready: int = 0
    observed_generation: int = 0


@record
class DaemonSet(KubeObject):
    """A DaemonSet of ours with its whole spec, to see what somebody else changed in it."""

    spec: dict[str, Any] = Field(default_factory=dict)
    status: DaemonSetStatus = Field(default_factory=DaemonSetStatus)


@record
class ConfigMap(KubeObject):
    """A ConfigMap."""

    data: dict[str, str] = Field(default_factory=dict)


@record
class Secret(KubeObject):
    """A Secret; the values are base64."""

    data: dict[str, str] = Field(default_factory=dict)


@record
class Namespace(KubeObject):
    """A namespace; its labels decide about access."""


@record
class WebhookEntry:
    """One webhook of a configuration."""

    name: str
    client_config: dict[str, Any] = Field(default_factory=dict)


@record
class WebhookConfiguration(KubeObject):
    """A mutating or validating webhook configuration."""

    webhooks: tuple[WebhookEntry, ...] = ()


__all__ = [
    "Condition",
    "ConfigMap",
    "Container",
    "DaemonSet",
    "Namespace",
    "Node",
    "NodeTaint",
    "Pod",
    "ResourceRequirements",
    "Secret",
    "WebhookConfiguration",
]
