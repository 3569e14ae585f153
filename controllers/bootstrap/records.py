"""Kubernetes objects as this process reads them: with the fields that it uses and no others. Pure.

What is not here is neither kept, for thousands of cards, nor does its change enqueue a node.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from controllers.api.conditions import IGNORED, INVENTORY_INCOMPLETE, is_true
from controllers.api.gpudevice import CardMeta, ComputeCapability, DeviceHealth, Fault, FaultEnd, MigApply, Pci, PoolRef
from controllers.api.kube import Container, DaemonSetStatus, PodSpec, PodStatus, ResourceRequirements
from controllers.api.kube import Pod as KubePod
from controllers.api.meta import Condition, KubeObject, ObjectMeta
from controllers.api.record import record
from controllers.api.software import Shared
from controllers.domain.position import is_set_aside


@record
class Operand(KubeObject):
    """A DaemonSet of ours with its whole spec, to see what somebody else changed in it."""

    spec: dict[str, Any] = Field(default_factory=dict)
    status: DaemonSetStatus = Field(default_factory=DaemonSetStatus)

    @property
    def pod(self) -> dict[str, Any]:
        """The spec of its pods."""
        found: dict[str, Any] = self.spec.get("template", {}).get("spec", {})
        return found

    @property
    def node_selector(self) -> dict[str, str]:
        """Labels of the nodes on which it runs."""
        return self.pod.get("nodeSelector") or {}


@record
class RuntimeClass(KubeObject):
    """How containers reach cards on a node."""

    handler: str = ""


@record
class OperandPodStatus(PodStatus):
    """Where the pod answers, too."""

    pod_ip: str | None = Field(default=None, alias="podIP")


NO_RESOURCES = ResourceRequirements()


@record
class OperandContainer(Container):
    """Which image it has; what it may use is the same for all."""

    image: Shared = ""
    resources: Annotated[ResourceRequirements, BeforeValidator(lambda _: NO_RESOURCES)] = NO_RESOURCES


@record
class OperandPodSpec(PodSpec):
    """Under which RuntimeClass the pod runs, and its images, too."""

    containers: tuple[OperandContainer, ...] = ()
    runtime_class_name: str | None = None


@record
class Pod(KubePod):
    """A pod of a component, or of a pool."""

    spec: OperandPodSpec = Field(default_factory=OperandPodSpec)
    status: OperandPodStatus = Field(default_factory=OperandPodStatus)


@record
class CardHardware:
    """What tells a card from others, and what it asks of a driver."""

    uuid: str | None = None
    pci: Pci
    compute_capability: ComputeCapability | None = None


@record
class CardStatus:
    """What is known of a card's place, health and use."""

    node_name: str | None = None
    inventory_id: str | None = None
    pool_ref: PoolRef | None = None
    hardware: CardHardware | None = None
    health: DeviceHealth | None = None
    fault: Fault | None = None
    fault_end: FaultEnd | None = None
    conditions: tuple[Condition, ...] = ()
    mig_apply: MigApply | None = None
    lost_since: str | None = None
    node_gone_since: str | None = None
    in_use: Annotated[bool, BeforeValidator(bool)] = Field(default=False, alias="allocations")
    """Whether kubelet says that a pod has it; which pod does not matter here."""


@record
class Card(KubeObject):
    """A GPUDevice."""

    metadata: CardMeta = Field(default_factory=ObjectMeta)
    status: CardStatus = Field(default_factory=CardStatus)

    @property
    def set_aside(self) -> bool:
        """Whether no node is prepared for it: it is not of NVIDIA, or ignored and neither in a pool nor in use."""
        hardware = self.status.hardware
        incomplete = is_true(self.status.conditions, INVENTORY_INCOMPLETE)
        if hardware is not None and is_set_aside(hardware.pci, incomplete=incomplete):
            return True
        return is_true(self.status.conditions, IGNORED) and self.status.pool_ref is None and not self.status.in_use
