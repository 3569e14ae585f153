"""Pods with everything by which the scheduler decides, whatever they ask for: records of the fields used."""

from __future__ import annotations

from typing import Annotated, Any, Final

from pydantic import BeforeValidator, Field

from controllers.api.kube import Container, Pod, PodStatus, ResourceRequirements
from controllers.api.meta import ObjectMeta, keeping
from controllers.api.record import record
from controllers.api.selector import LabelSelector
from controllers.api.tenant import Affinity, TenantSpec

DECIDING_VOLUMES: Final = (
    "persistentVolumeClaim",
    "ephemeral",
    "awsElasticBlockStore",
    "azureDisk",
    "azureFile",
    "cinder",
    "gcePersistentDisk",
    "iscsi",
    "portworxVolume",
    "rbd",
    "vsphereVolume",
)
"""Volumes that one of the scheduler's plugins looks at: where they can be attached, and how many of them."""


@record
class ContainerPort:
    """A port of a container; only one that is taken on the node counts."""

    host_port: int = 0
    host_ip: Annotated[str, Field(alias="hostIP")] = ""
    protocol: str = "TCP"


@record
class WholeContainer(Container):
    """A container with its ports."""

    ports: tuple[ContainerPort, ...] = ()


@record
class PodTerm:
    """Other pods that a pod must be near to, or away from."""

    label_selector: LabelSelector | None = None
    namespaces: tuple[str, ...] = ()
    namespace_selector: LabelSelector | None = None


def _required(found: Any) -> Any:
    return found.get("requiredDuringSchedulingIgnoredDuringExecution") or () if isinstance(found, dict) else found or ()


@record
class WholeAffinity(Affinity):
    """A pod's affinity, with what it demands of other pods."""

    pod_affinity: Annotated[tuple[PodTerm, ...], BeforeValidator(_required)] = ()
    pod_anti_affinity: Annotated[tuple[PodTerm, ...], BeforeValidator(_required)] = ()


@record
class SpreadConstraint:
    """How a pod wants to be spread."""

    when_unsatisfiable: str = "DoNotSchedule"


def _decides(volumes: Any) -> bool:
    if isinstance(volumes, bool):
        return volumes  # a record that is made from another one
    return any(isinstance(each, dict) and not each.keys().isdisjoint(DECIDING_VOLUMES) for each in volumes or ())


@record
class WholeSpec(TenantSpec):
    """A pod's spec, as far as the scheduler's filters read it."""

    containers: tuple[WholeContainer, ...] = ()
    init_containers: tuple[WholeContainer, ...] = ()
    affinity: WholeAffinity | None = None
    overhead: dict[str, str | int] = Field(default_factory=dict)
    resources: ResourceRequirements = Field(default_factory=ResourceRequirements)
    """What all containers may use together."""
    topology_spread_constraints: tuple[SpreadConstraint, ...] = ()
    has_deciding_volumes: Annotated[bool, BeforeValidator(_decides), Field(alias="volumes")] = False
    """Whether one of its volumes is of `DECIDING_VOLUMES`."""
    has_claims: Annotated[bool, BeforeValidator(bool), Field(alias="resourceClaims")] = False
    """Whether it has ResourceClaims."""


@record
class ContainerStatus:
    """What kubelet has given to a container so far: it differs from the spec while the container is resized."""

    name: str = ""
    resources: ResourceRequirements | None = None
    allocated_resources: dict[str, str | int] = Field(default_factory=dict)


def _infeasible(conditions: Any) -> bool:
    if isinstance(conditions, bool):
        return conditions
    found = (one for one in conditions or () if isinstance(one, dict) and one.get("type") == "PodResizePending")
    return next((one.get("reason") == "Infeasible" for one in found), False)


@record
class WholeStatus(PodStatus):
    """A pod's status, with what its containers have."""

    container_statuses: tuple[ContainerStatus, ...] = ()
    init_container_statuses: tuple[ContainerStatus, ...] = ()
    cannot_resize: Annotated[bool, BeforeValidator(_infeasible), Field(alias="conditions")] = False
    """Whether kubelet refused to resize it for good."""


@record
class WholePod(Pod):
    """A pod with everything by which the scheduler decides."""

    metadata: Annotated[ObjectMeta, keeping(frozenset())] = Field(default_factory=ObjectMeta)
    spec: WholeSpec = Field(default_factory=WholeSpec)
    status: WholeStatus = Field(default_factory=WholeStatus)
